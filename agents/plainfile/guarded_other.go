//go:build !linux

package plainfile

// No supervisor runs on other systems, so agents write nothing there and the flags are not needed.
const (
	unlinked  = 0
	unwaiting = 0
	folder    = 0
)
