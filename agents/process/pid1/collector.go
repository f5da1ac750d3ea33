package pid1

import _ "unsafe" // for go:linkname

// quiet turns the garbage collector off below 8 MiB of heap. An init at rest allocates next to nothing, and the
// collector would wake it every two minutes.
func quiet() {
	setGCPercent(-1)
	setMemoryLimit(8 << 20)
}

// These two are debug.SetGCPercent and debug.SetMemoryLimit, without the import that would delay this package's init.

//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

//go:linkname setMemoryLimit runtime/debug.setMemoryLimit
func setMemoryLimit(bytes int64) (before int64)
