package agents

import "fmt"

// Budget limits usage: that of an agent or a thread in one day, of one session, or of one issue. A zero field is no
// limit.
type Budget struct {
	Tokens int64   `json:",omitzero"` // read and written, without tokens from a cache
	USD    float64 `json:",omitzero"`
}

// Reached describes the limit that a usage has reached, such as "5000 of 5000 tokens", or returns "" below all limits.
func (b Budget) Reached(tokens int64, usd float64) string {
	switch {
	case b.Tokens > 0 && tokens >= b.Tokens:
		return fmt.Sprintf("%d of %d tokens", tokens, b.Tokens)
	case b.USD > 0 && usd >= b.USD:
		return fmt.Sprintf("$%.2f of $%.2f", usd, b.USD)
	}
	return ""
}

// Limits bound all processes of one session together. A zero field means no limit.
type Limits struct {
	// Cores and MemoryMax are for a cluster that reserves resources: a number of whole cores that no other session uses,
	// and the bytes that a session may use while its node has them, which is then the limit instead of Memory.
	Cores     int   `json:",omitzero"`
	MemoryMax int64 `json:",omitzero"`
	Memory    int64 `json:",omitzero"` // bytes, without swap; the kernel first drops the session's cached files
	PIDs      int64 `json:",omitzero"` // processes and threads together, as the kernel counts them
}

// SizeUnits are the suffixes of a size, each 1024 times the one before.
const SizeUnits = "KMGT"

// Size formats bytes as the configuration does, such as 8G, rounded down to the largest unit that fits; below 1K, such
// as 694B.
func Size(n int64) string {
	unit := "B"
	for i := 0; i < len(SizeUnits) && n >= 1024; i++ {
		n, unit = n/1024, SizeUnits[i:i+1]
	}
	return fmt.Sprintf("%d%s", n, unit)
}
