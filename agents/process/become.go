package process

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// maxState bounds a sealed state, in bytes: a session takes some two thousand.
const maxState = 16 << 20

// stateFD is the descriptor of the last image's sealed state; 0 in a first image.
var stateFD int

// An image that follows another one starts in pid1 and then here, before it can start any process. USR1 and USR2,
// blocked by Become, still wait for a listener. They stay blocked on all threads except Go's signal thread, hence
// forkExec.
func init() {
	fd, err := strconv.Atoi(os.Getenv(pid1.HandoverVar))
	_ = os.Unsetenv(pid1.HandoverVar)
	if err == nil && fd >= 3 {
		stateFD = fd
		closeOnExec()
	}
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&parentDeath)), 0, 0, 0)
}

// parentDeath is the signal that we get when our parent dies; 0 for none. It is a property of a thread, the first,
// and an execve by another thread would lose it.
var parentDeath int32

// KeepsSignals reports whether Become loses no signal that a supervisor answers. It requires that every received
// signal has been obeyed, and that only Init's channel has been listening.
func KeepsSignals() bool { return pid1.Keeps() }

// inMemory makes a file in memory. It disappears with the last process that has it open.
func inMemory(name string, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate("disinto-"+name, unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// SealState writes v as JSON to a file in memory, and seals it so that no process can change it. An image passes its
// state to the next one in such a file.
func SealState(v any) (*os.File, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	f, err := inMemory("handover", unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	_, err1 := f.Write(text)
	_, err2 := unix.FcntlInt(uintptr(Descriptor(f)), unix.F_ADD_SEALS, stateSeals)
	_, err3 := f.Seek(0, io.SeekStart)
	if err := cmp.Or(err1, err2, err3); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot write a file in memory: %w", err)
	}
	return f, nil
}

const stateSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL

// ReadState decodes a file of SealState into v. A file that is not sealed is an error.
func ReadState(f *os.File, v any) error {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&stateSeals != stateSeals {
		return errors.New("cannot read the state of the last image: it is not sealed")
	}
	if err := json.NewDecoder(io.LimitReader(f, maxState)).Decode(v); err != nil {
		return fmt.Errorf("cannot read the state of the last image: %w", err)
	}
	return nil
}

// InheritedState returns the sealed state of this process's last image, once; nil in a first image.
func InheritedState() *os.File {
	if stateFD == 0 {
		return nil
	}
	f := os.NewFile(uintptr(stateFD), "handover")
	stateFD = 0
	return f
}

// NewStopFlag makes a file in memory by which an image can report to the next one, until its last moment, that it
// received an order to stop. On a slow machine the order came in that moment in one of seven upgrades that were stopped
// after 60 ms.
func NewStopFlag() (*os.File, error) { return inMemory("bell", 0) }

// SetStopFlag sets the flag. It may be called at any time, from any number of goroutines, even when the file is closed.
func SetStopFlag(flag *os.File) { _, _ = flag.Write([]byte{1}) }

// StopFlagSet reports whether the last image set the flag, and closes the file.
func StopFlagSet(flag *os.File) bool {
	defer flag.Close()
	info, err := flag.Stat()
	return err == nil && info.Size() > 0
}

// Become replaces this program by another one, in the same process and with the same children. The descriptors in
// keep stay open, under their numbers. Become returns only when the replacement failed, and then nothing has changed.
// stopped reports whether the process received an order to stop meanwhile; Become calls it last.
//
// Where KeepsSignals holds, no thread receives a signal of Init from here on: an arriving signal waits in the kernel
// until the new image has called Notify. In other programs only this thread blocks the signals. Until execve ends the
// other threads, one of them may still receive a signal. Then the stop flag reports it, if there is time to set it; a
// signal taken in the last microseconds is lost. Go's runtime unblocks TERM, INT and HUP a millisecond before the new
// image can listen for them. A signal that waited then ends the new image at once, and with it the sessions, as KILL
// would.
func Become(binary *os.File, argv, env []string, state *os.File, keep []int, stopped func() bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if pid1.Keeps() {
		pid1.StopNotify()
		defer pid1.Notify()
	} else {
		var before unix.Sigset_t
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, answeredSet(), &before); err != nil {
			return fmt.Errorf("cannot block signals: %w", err)
		}
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	if parentDeath != 0 {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(parentDeath), 0, 0, 0)
		defer func() { _ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) }()
	}
	at := Descriptor(state)
	for _, fd := range append([]int{at}, keep...) {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("cannot keep descriptor %d: %w", fd, err)
		}
		defer unix.CloseOnExec(fd)
	}
	env = append(env[:len(env):len(env)], pid1.HandoverVar+"="+strconv.Itoa(at))
	path := "/proc/self/fd/" + strconv.Itoa(Descriptor(binary))
	if !pid1.Keeps() {
		time.Sleep(deliveryTime)
	}
	if stopped() || len(pid1.Signals) > 0 || !pid1.Keeps() && pending(answeredSet()) {
		return errors.New("a signal came")
	}
	return fmt.Errorf("cannot execute %s: %w", binary.Name(), syscall.Exec(path, argv, env))
}

// deliveryTime is how long a signal that a thread has taken may travel through Go's runtime to its listener.
const deliveryTime = 2 * time.Millisecond

// pending reports whether one of these signals has arrived since they were blocked.
func pending(set *unix.Sigset_t) bool {
	const size = 8 // of a signal set in the kernel, in bytes
	var come unix.Sigset_t
	_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&come)), size, 0)
	for i := range come.Val {
		if come.Val[i]&set.Val[i] != 0 {
			return errno == 0
		}
	}
	return false
}

// answeredSet returns the signals of Init.
func answeredSet() *unix.Sigset_t {
	const bits = strconv.IntSize // of a word of a signal set
	var set unix.Sigset_t
	for _, s := range pid1.Answered {
		n := uint(s.(syscall.Signal)) - 1
		set.Val[n/bits] |= 1 << (n % bits)
	}
	return &set
}

// forkExec is syscall.ForkExec with Init's signals unblocked in the child, which would otherwise never get a TERM.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_UNBLOCK, answeredSet(), &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	return syscall.ForkExec(path, argv, attr)
}
