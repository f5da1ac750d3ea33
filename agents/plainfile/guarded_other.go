//go:build !linux

package plainfile

// Neither has a meaning where no supervisor runs: no agent writes there.
const (
	unlinked  = 0
	unwaiting = 0
)
