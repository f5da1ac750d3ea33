package pid1

import "syscall"

// # Before the runtime
//
// Go's runtime unblocks TERM, INT and HUP in its first microseconds, and ends the process when one of them comes before
// signal.Notify was called. So a signal that comes while the program starts, or is replaced by execve, is lost or kills
// it: of 26 supervisors that were stopped during an upgrade one did not hear of it, and two left their claims.
//
// The program that make build links begins with a few instructions of its own (entry_amd64.s, entry_arm64.s), which
// block signals before the runtime begins, and tell its table of signals to leave them so on every thread. They then
// wait in the kernel until this package asks for them, also across an execve. For run these are the signals in
// Answered, which the runtime delivers from Notify on. For exec, tini and dumb-init these are all signals, the runtime
// installs no handler, and await takes them from the kernel: what C programs do.
//
// It needs a linker that is told to, and so other programs, such as test binaries, do without. There a window of a
// millisecond remains.

// The values of keeps.
const (
	keepsAnswered = 1
	keepsAll      = 2
)

// The first instructions write these.
var (
	keeps byte // which signals are blocked; 0 without first instructions
	//lint:ignore U1000 only the first instructions use it
	kept  uint64 // the same as a set
	mask  uint64 // the signals that were blocked before them
	files syscall.Rlimit
)

// Keeps reports whether the signals that a supervisor answers are blocked on each thread that does not listen for them.
func Keeps() bool { return keeps == keepsAnswered }
