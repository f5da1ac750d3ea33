package agents

import "fmt"

// Limits are what one session may use at a time, all its processes together. Zero means as much as there is.
type Limits struct {
	Memory int64 `json:",omitzero"` // bytes, without swap; files that the kernel keeps in memory for it are dropped first
	PIDs   int64 `json:",omitzero"` // processes and threads, which are one thing to the kernel
}

// SizeUnits are the letters that a size may end with, each 1024 times the one before.
const SizeUnits = "KMGT"

// Size writes bytes as the configuration does: 8G. What is no whole number of a unit is rounded down.
func Size(n int64) string {
	unit := ""
	for i := 0; i < len(SizeUnits) && n >= 1024; i++ {
		n, unit = n/1024, SizeUnits[i:i+1]
	}
	return fmt.Sprintf("%d%s", n, unit)
}
