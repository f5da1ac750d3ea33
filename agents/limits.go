package agents

import "fmt"

// Budget limits what an agent or a thread may use in one day. A zero field is no limit.
type Budget struct {
	Tokens int64 // read and written; tokens from a cache are not counted
	USD    float64
}

// Limits bound the use of all processes of one session together. A zero field is no limit.
type Limits struct {
	Memory int64 `json:",omitzero"` // bytes, without swap; the kernel first drops the files that it caches for the session
	PIDs   int64 `json:",omitzero"` // processes and threads, which the kernel counts as one thing
}

// SizeUnits are the letters that a size may end with, each 1024 times the one before.
const SizeUnits = "KMGT"

// Size writes bytes as the configuration does, such as 8G, rounded down to the largest unit that fits.
func Size(n int64) string {
	unit := ""
	for i := 0; i < len(SizeUnits) && n >= 1024; i++ {
		n, unit = n/1024, SizeUnits[i:i+1]
	}
	return fmt.Sprintf("%d%s", n, unit)
}
