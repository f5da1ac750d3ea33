package process

import (
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

// maxLetter bounds a letter, in bytes: a session takes some two thousand.
const maxLetter = 16 << 20

// letterFD is the descriptor of the last image's letter; 0 in a first image.
var letterFD int

// An image that follows another one begins in pid1, and here, before anything can be started. Of the signals that Become
// blocked USR1 and USR2 still wait for being listened to. Those stay blocked on all threads but the one that Go keeps for
// signals, which is why forkExec takes them off for children.
func init() {
	fd, err := strconv.Atoi(os.Getenv(pid1.HandoverVar))
	_ = os.Unsetenv(pid1.HandoverVar)
	if err != nil || fd < 3 {
		return
	}
	letterFD = fd
	closeOnExec()
}

// Letter is a sealed file in memory in which an image tells the next one all that it has to know. Nobody can change it, and
// it is gone with the last process that has it open.
func Letter(v any) (*os.File, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	fd, err := unix.MemfdCreate("disinto-handover", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "handover")
	if _, err = f.Write(text); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, letterSeals)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot write a file in memory: %w", err)
	}
	return f, nil
}

const letterSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL

// ReadLetter reads a letter.
func ReadLetter(f *os.File, v any) error {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&letterSeals != letterSeals {
		return errors.New("cannot read the state of the last image: it is not sealed")
	}
	if err := json.NewDecoder(io.LimitReader(f, maxLetter)).Decode(v); err != nil {
		return fmt.Errorf("cannot read the state of the last image: %w", err)
	}
	return nil
}

// LastLetter is the letter of this process's last image; nil if this is the first one. It is there once.
func LastLetter() *os.File {
	if letterFD == 0 {
		return nil
	}
	f := os.NewFile(uintptr(letterFD), "handover")
	letterFD = 0
	return f
}

// Bell is a file in memory by which an image tells the next one, until its last moment, that it was told to stop. A slow
// machine met that moment once in seven upgrades that were stopped after 60 ms.
func Bell() (*os.File, error) {
	fd, err := unix.MemfdCreate("disinto-bell", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "bell"), nil
}

// Ring may be called at any time, by any number of goroutines, also when the bell is closed.
func Ring(bell *os.File) { _, _ = bell.Write([]byte{1}) }

// Rung reports whether the last image rang the bell, and closes it.
func Rung(bell *os.File) bool {
	defer bell.Close()
	info, err := bell.Stat()
	return err == nil && info.Size() > 0
}

// Become replaces this program by another one, with the same process number and the same children. The descriptors in keep
// stay open, under their numbers. On success it does not return. told says whether the process was told to stop meanwhile,
// and is asked last.
//
// The signals that Init answers are blocked on this thread from here on, so that one that comes in execve waits for the new
// image. Another thread may still take it, until execve ends it: then the bell tells, if there is time to ring it. One that
// is taken in the last microseconds is lost; Docker follows it up with KILL. Go's runtime unblocks TERM, INT and HUP a
// millisecond before anybody can listen for them (see pid1.Notify); one that waited ends the new image at once, and with
// it the sessions, as KILL would. The next start recovers from both.
func Become(binary *os.File, argv, env []string, letter *os.File, keep []int, told func() bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, ours(), &before); err != nil {
		return fmt.Errorf("cannot block signals: %w", err)
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	at := Descriptor(letter)
	keep = append([]int{at}, keep...)
	for _, fd := range keep {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("cannot keep descriptor %d: %w", fd, err)
		}
		defer unix.CloseOnExec(fd)
	}
	env = append(env[:len(env):len(env)], pid1.HandoverVar+"="+strconv.Itoa(at))
	path := "/proc/self/fd/" + strconv.Itoa(Descriptor(binary))
	time.Sleep(arrival)
	if told() || len(pid1.Signals) > 0 || waiting(ours()) {
		return errors.New("a signal came")
	}
	return fmt.Errorf("cannot execute %s: %w", binary.Name(), syscall.Exec(path, argv, env))
}

// arrival is how long a signal that a thread took before may be on its way through Go's runtime to who answers it.
const arrival = 2 * time.Millisecond

// waiting reports whether one of these signals has come since they were blocked.
func waiting(set *unix.Sigset_t) bool {
	var come unix.Sigset_t
	_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&come)), lastSignal/8, 0)
	for i := range come.Val {
		if come.Val[i]&set.Val[i] != 0 {
			return errno == 0
		}
	}
	return false
}

// ours are the signals of Init.
func ours() *unix.Sigset_t {
	var set unix.Sigset_t
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2} {
		set.Val[(s-1)/bits] |= 1 << (uint(s-1) % bits)
	}
	return &set
}

const (
	// bits is the size of a word of a signal set.
	bits = strconv.IntSize
	// lastSignal is the highest there is.
	lastSignal = 64
)

// forkExec is syscall.ForkExec without blocked signals in the child: it would never hear of TERM.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_UNBLOCK, ours(), &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	return syscall.ForkExec(path, argv, attr)
}
