package pid1

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// passSIGURG is "yes" in a program linked with asyncpreemptoff, whose runtime does not interrupt goroutines with
// SIGURG; the Makefile sets both in one line. In any other program 17 of 40 commands received a SIGURG that was never
// sent.
var passSIGURG string

// await returns the next signal to this process; 0 when until comes first. The zero time never comes.
func await(until time.Time) syscall.Signal {
	if keeps == keepsAll {
		return dequeueSignal(until)
	}
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	select {
	case s := <-caught:
		return s.(syscall.Signal)
	case <-children:
		return syscall.SIGCHLD
	case <-late:
		return 0
	}
}

// dequeueSignal waits for a signal that is blocked, and removes it from the kernel's queue; 0 when until comes first.
func dequeueSignal(until time.Time) syscall.Signal {
	all := ^uint64(0)
	for {
		var wait *syscall.Timespec
		if !until.IsZero() {
			t := syscall.NsecToTimespec(int64(max(0, time.Until(until))))
			wait = &t
		}
		s, _, errno := syscall.Syscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&all)), 0,
			uintptr(unsafe.Pointer(wait)), unsafe.Sizeof(all), 0, 0)
		switch {
		case errno == syscall.EAGAIN:
			return 0
		case errno == 0 && (syscall.Signal(s) != syscall.SIGURG || passSIGURG == "yes"):
			return syscall.Signal(s)
		}
	}
}

// setMask sets the blocked signals of this thread.
func setMask(set *uint64) (before uint64) {
	const setmask = 2
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setmask, uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(before), 0, 0)
	return before
}

// The rest serves programs without first instructions, which get their signals from the runtime.
var (
	caught   = make(chan os.Signal, 64)
	children = make(chan os.Signal, 1) // SIGCHLD, separately: many of them would crowd out a TERM
)

// listenEarly catches the signals that could end us before the command runs, and no others, because each costs 20 µs.
// HUP and INT that were ignored when we started stay ignored, for the command too: the runtime keeps these two
// ignored.
func listenEarly() {
	// While SIGCHLD is ignored, the kernel sends none and throws statuses away. The runtime's handler ends that.
	if keeps == keepsAll {
		var standard [4]uint64 // a sigaction of zeros
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD),
			uintptr(unsafe.Pointer(&standard)), 0, unsafe.Sizeof(mask), 0, 0)
		return
	}
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGQUIT)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}

// listen catches every signal that can be caught. The runtime reserves SIGPROF and the numbers from 32 to 34.
func listen() {
	if keeps == keepsAll {
		return
	}
	signal.Notify(children, syscall.SIGCHLD)
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		switch {
		case s == syscall.SIGKILL, s == syscall.SIGSTOP, s == syscall.SIGCHLD, s == syscall.SIGPROF, 32 <= s && s <= 34:
		case s == syscall.SIGURG && passSIGURG != "yes":
		default:
			signal.Notify(caught, s)
		}
	}
	select {
	case children <- syscall.SIGCHLD: // some children may have ended earlier
	default:
	}
}
