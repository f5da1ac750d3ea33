package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/landlock"
	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// runHelper runs one of the programs below, and returns its exit status.
func runHelper(name string, args []string) int {
	helpers := map[string]func([]string) int{
		"hop":            hop,
		"nursery":        nursery,
		"restricted":     restrict,
		"exhaust":        exhaust,
		"late":           late,
		"supervisor":     supervisor,
		"keeper":         keeper,
		"pid1":           asPID1,
		"drop-ptrace":    dropPtrace,
		"limited":        limited,
		"eat":            eat,
		"connect":        connect,
		"serve":          serve,
		"hold":           hold,
		"nest":           nest,
		"evade":          evade,
		"behave":         behave,
		"second-machine": secondMachine,
		"get-out":        getOut,
		"machine":        machine,
		"sockets":        sockets,
		"in-own-network": inOwnNetwork,

		"contain":      contain,
		"stop-tree":    stopTree,
		"orphan-storm": orphanStorm,
		"reaper-storm": reaperStorm,
		"reaper-panic": reaperPanic,
	}
	h := helpers[name]
	if h == nil {
		return 2
	}
	return h(args)
}

// hop forks and exits, and its child does the same, for ever: each process lives for some 100 µs, in a session of its
// own. It ignores TERM. After a fork it makes only system calls, because the child has one thread and no Go
// scheduler.
func hop([]string) int {
	var ignore [4]uintptr // struct sigaction: the handler SIG_IGN, no flags, no mask
	ignore[0] = 1
	hopOn(&ignore)
	return 0
}

//go:norace
//go:nosplit
func hopOn(ignore *[4]uintptr) {
	syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTERM), uintptr(unsafe.Pointer(ignore)), 0, 8, 0, 0)
	for {
		pid, _, _ := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if pid != 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
}

// exhaust starts children at a process limit until the limit rises. Run it as a user without rights, because root has
// no such limit.
func exhaust(args []string) int {
	if _, err := Init(); err != nil { // without its threads the runtime dies here
		return 3
	}
	r, err := NewReaper()
	if err != nil {
		return 4
	}
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &old); err != nil {
		return 5
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: old.Max}, nil); err != nil {
		return 6
	}
	if _, err = r.Start("/bin/true", []string{"true"}, &syscall.ProcAttr{}); !Exhausted(err) {
		return 7
	}
	if err = r.Run(context.Background(), Cmd{Argv: []string{"true"}}); !Exhausted(err) {
		return 8
	}
	var busy sync.WaitGroup
	for range 10 { // each needs a thread, which must exist by now
		busy.Go(func() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 20e6}, nil) })
	}
	busy.Wait()

	const said = "disinto: no room for another process (is there a pids limit?), trying again for 1m0s: "
	dir := args[0]
	ended := make(chan agents.Outcome)
	go func() {
		ended <- (&Executor{Reaper: r}).Run(context.Background(), agents.Job{
			RunID: "i-1", Command: []string{"true"}, Dir: dir, LogPath: dir + "/log", Env: []string{"PATH=/usr/bin:/bin"},
		}, nil)
	}()
	began := time.Now()
	for log := []byte(nil); !bytes.Contains(log, []byte(said)); log, _ = os.ReadFile(dir + "/log") {
		if time.Since(began) > pid1.StartPatience {
			return 11
		}
		time.Sleep(time.Millisecond) // until the first attempt has failed; there is no log before
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NPROC, &old, nil); err != nil {
		return 9
	}
	if o := <-ended; o.Result != agents.Done || strings.Count(o.Tail, said) != 1 {
		fmt.Printf("%+v\n", o)
		return 10
	}
	return 0
}

// late starts its reaper after a child has ended and its SIGCHLD is gone.
func late([]string) int {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
	if err != nil {
		return 3
	}
	for p, err := tree.Find(pid); err != nil || !p.Dead(); p, err = tree.Find(pid) {
		time.Sleep(time.Millisecond)
	}
	r, err := NewReaper()
	if err != nil {
		return 4
	}
	for range 10000 {
		if orphansOf(r) == 1 {
			return 0
		}
		time.Sleep(time.Millisecond)
	}
	return 5
}

// supervisor runs one session of a shell script, given a folder, a run id, and a cgroup to run below, unless that is
// empty. Tests kill it.
func supervisor(args []string) int {
	dir, runID, script, group := args[0], args[1], args[2], args[3]
	if _, err := Init(); err != nil {
		return 3
	}
	r, err := NewReaper()
	if err != nil {
		return 4
	}
	cgroupRoot = func() string { return group }
	e := &Executor{Reaper: r}
	o := e.Run(context.Background(), agents.Job{
		RunID: runID, Command: []string{"/bin/sh", "-c", script}, Dir: dir, LogPath: dir + "/log",
		Env: []string{"PATH=/usr/bin:/bin", "DISINTO_RUN_ID=" + runID}, Grace: time.Minute,
	}, func(s agents.Started) {
		_ = os.WriteFile(dir+"/program", []byte(itoa(s.PID)+"\n"), 0o600)
	})
	fmt.Println(o.Reason)
	return 5
}

// nursery forks children that wait until its stdin is closed, and exits. They do not exec, so that 10,000 of them fit
// into memory.
func nursery(args []string) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 2
	}
	for range n {
		if !forkWaiting() {
			return 3
		}
	}
	return 0
}

//go:norace
//go:nosplit
func forkWaiting() bool {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return errno == 0
	}
	var b [1]byte
	syscall.RawSyscall(unix.SYS_READ, 0, uintptr(unsafe.Pointer(&b)), 1)
	syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	return true
}

// restrict sets no_new_privs, and waits. It keeps its arguments.
func restrict(words []string) int {
	runtime.LockOSThread()
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		return 2
	}
	_ = syscall.Exec("/bin/sh", append([]string{"sh", "-c", "while :; do sleep 0.1; done"}, words...), os.Environ())
	return 2
}

// nest restricts itself until the kernel refuses.
func nest([]string) int {
	runtime.LockOSThread()
	version, err := landlock.Version()
	for n := 0; ; n++ {
		if err == nil {
			err = landlock.Restrict(&landlock.Rules{Paths: []landlock.Path{{Name: []byte("/"), Access: landlock.Write}}},
				version)
		}
		if err != nil {
			var errno syscall.Errno
			_ = errors.As(err, &errno)
			fmt.Printf("%d more: %v\n", n, errno)
			return 0
		}
	}
}

// onThread runs f on a thread that ends with it. The runtime parks the main thread instead of ending it, so a goroutine
// that begins there gives up its place once f has another thread.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		elsewhere := make(chan struct{})
		onThread(func() { close(elsewhere); f() })
		<-elsewhere
	}()
}
