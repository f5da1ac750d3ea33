package pid1

import "syscall"

// # Before the runtime
//
// Go's runtime unblocks TERM, INT and HUP in its first microseconds, and ends the process when one of them arrives
// before signal.Notify was called. So a signal during a program's start, or during an execve, is lost or kills the
// process: of 26 supervisors that were stopped during an upgrade one missed the signal, and two left their claims
// behind.
//
// A program linked by "make build" first executes a few instructions in assembly (entry_amd64.s, entry_arm64.s). They
// block signals before the runtime starts, and change the runtime's signal table so that the signals stay blocked on
// every thread. The signals then wait in the kernel until this package asks for them. That is done for exec, tini and
// dumb-init: the runtime installs no handler, and await takes the signals from the kernel, as C programs do.
//
// These instructions need a linker flag, so other programs, such as test binaries, lack them. There a window of a
// millisecond remains.

// keepsAll is the value of keeps when all signals are blocked.
const keepsAll = 2

// The first instructions write these.
var (
	keeps byte // which signals are blocked; 0 without first instructions
	//lint:ignore U1000 only the first instructions use it
	kept  uint64 // the blocked signals as a set
	mask  uint64 // the signals that were blocked before them
	files syscall.Rlimit
)
