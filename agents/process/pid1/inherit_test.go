package pid1

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inherited is a piece of state that a command has from the caller of its init.
type inherited struct {
	set   func()   // changes the process that becomes the init
	env   []string // in addition to PATH
	shows string   // a shell's script that prints the state

	// What the command prints: "" what it prints without an init, and "-" nothing comparable.
	ours, tini, dumbInit string
}

const noSignals = "SigIgn:\t0000000000000000\n"

// inheritances has every kind of state that survives fork and execve. The page Operations has the table for users.
var inheritances = map[string]inherited{
	"arguments": {shows: `tr '\0' '|' </proc/$$/cmdline; echo "<$1><$2>"`},
	"environment": {
		env:   []string{"A=1", "", "A=2", "no name", "=x", "", "GODEBUG=gctrace=0", "B=", "GODEBUG=madvdontneed=0"},
		shows: `tr '\0' '|' </proc/$$/environ`,
	},
	"ignored signals": {
		set:      func() { forEachSignal(func(s syscall.Signal) { ignore(s) }) },
		shows:    `grep SigIgn /proc/self/status`,
		dumbInit: "SigIgn:\tffffffff80000000\n", // only real-time signals stay ignored
	},
	// A process that ignores SIGCHLD loses its children's statuses: tini waits for ever.
	"SIGCHLD ignored": {
		set:   func() { ignore(syscall.SIGCHLD) },
		shows: `grep SigIgn /proc/self/status; exit 7`,
		ours:  noSignals + "exit status 7", tini: "-", dumbInit: noSignals + "exit status 7",
	},
	"blocked signals": {
		set: func() {
			var set uint64
			forEachSignal(func(s syscall.Signal) { set |= 1 << (s - 1) })
			setMask(&set)
		},
		shows:    `grep SigBlk /proc/self/status`,
		dumbInit: "SigBlk:\t0000000000000000\n",
	},
	"alarm": {
		set: func() {
			late, _ := strconv.ParseInt(os.Getenv("LATE"), 10, 64)
			in := [4]int64{2: late / 1e6, 3: late % 1e6} // an itimerval: once
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETITIMER, 0, uintptr(unsafe.Pointer(&in)), 0)
		},
		shows: `trap 'echo alarm; exit' ALRM; while :; do :; done`,
	},
	"limits": {
		set: func() {
			_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100, Max: 200})
			_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 1, Max: 2})
			_ = syscall.Setrlimit(syscall.RLIMIT_STACK, &syscall.Rlimit{Cur: 4 << 20, Max: 8 << 20})
		},
		shows: `cat /proc/self/limits`,
	},
	"directory": {set: func() { _ = os.Chdir("/usr/bin/") }, shows: `readlink /proc/self/cwd`},
	"removed directory": {
		set: func() {
			dir := filepath.Join(os.TempDir(), "pid1-removed")
			_ = os.Mkdir(dir, 0o700)
			_ = os.Chdir(dir)
			_ = os.Remove(dir)
		},
		shows: `readlink /proc/self/cwd`,
	},
	"descriptors": {
		set: func() {
			fd, _ := syscall.Open("/dev/zero", syscall.O_RDONLY, 0)
			_ = syscall.Dup3(fd, 7, 0)
			_ = syscall.Dup3(fd, 200, 0)
		},
		shows: `ls /proc/self/fd; readlink /proc/self/fd/7`,
	},
	// Go's runtime opens /dev/null for each of the first three that is closed. Tini does not start.
	"closed stdin": {
		set: func() { _ = syscall.Close(0) }, shows: `readlink /proc/$$/fd/0`,
		ours: "/dev/null\n", tini: "-",
	},
	"umask": {set: func() { syscall.Umask(0o27) }, shows: `umask`},
	"scheduling": {
		set: func() {
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 5)
			var first unix.CPUSet
			first.Set(0)
			_ = unix.SchedSetaffinity(0, &first)
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 70_000, 0, 0, 0)
		},
		shows: `nice; grep Cpus_allowed: /proc/self/status; cat /proc/self/timerslack_ns`,
	},
	"memory": {
		set: func() {
			_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o600)
			_ = os.WriteFile("/proc/self/coredump_filter", []byte("0x11"), 0o600)
		},
		shows: `cat /proc/self/oom_score_adj /proc/self/coredump_filter`,
	},
	"rights": {
		set: func() {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_BOOT, 0, 0, 0)
			_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		},
		shows: `grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; cat /proc/self/cgroup`,
	},
	// A group of its own, for signals; dumb-init's is in a session of its own too, unless it is asked not to.
	"process group": {
		shows: `set -- $(cat /proc/$$/stat); [ $5 = $1 ] && echo leads its group; [ $6 = $1 ] && echo leads its session; :`,
		ours:  "leads its group\n", tini: "leads its group\n", dumbInit: "leads its group\nleads its session\n",
	},
}

// The command finds every piece of state as the caller left it, except where it is normalised on purpose. Where tini
// and dumb-init are installed, the test also checks what they do, and under their names we do the same or pass more on.
func TestInherits(t *testing.T) {
	for name, tt := range inheritances {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			without := tt.run(t, name)
			if without == "" {
				t.Fatal("the command printed nothing")
			}
			want := func(text string) string {
				if text == "" {
					return without
				}
				return text
			}
			init := program(t, "subreaper")
			for _, exec := range [][]string{{init, "exec", "--"}, {init, "exec", "-c", "--"}, {"tini=" + init, "-s", "--"}} {
				if got := tt.run(t, name, exec...); got != want(tt.ours) {
					t.Errorf("%v: the command printed %q, want %q", exec, got, want(tt.ours))
				}
			}
			named := tt.ours
			if name == "process group" {
				named = tt.dumbInit
			}
			if got := tt.run(t, name, "dumb-init="+init); got != want(named) {
				t.Errorf("as dumb-init: the command printed %q, want %q", got, want(named))
			}
			for peer, text := range map[string]string{"tini": tt.tini, "dumb-init": tt.dumbInit} {
				path, err := exec.LookPath(peer)
				if err != nil || text == "-" {
					continue
				}
				argv := map[string][]string{"tini": {path, "-s", "--"}, "dumb-init": {path}}[peer]
				if got := tt.run(t, name, argv...); got != want(text) {
					t.Errorf("%s: the command printed %q, want %q", peer, got, want(text))
				}
			}
		})
	}
}

// run returns what the command prints below an init, or without one, and its exit code if that is not 0. On a busy
// machine the alarm came before the shell's trap, 0.2 s after the start; then a later alarm is tried.
func (tt inherited) run(t *testing.T, name string, init ...string) (out string) {
	t.Helper()
	for late := 200 * time.Millisecond; late < time.Minute; late *= 4 {
		out = tt.runOnce(t, name, late, init...)
		if !slices.Contains([]string{"signal: alarm clock", "exit status 142"}, out) {
			break
		}
	}
	return out
}

func (tt inherited) runOnce(t *testing.T, name string, late time.Duration, init ...string) string {
	t.Helper()
	argv := append([]string{"inherit", name}, init...)
	argv = append(argv, "sh", "-c", tt.shows, "sh", "", "b c")
	cmd := exec.Command(executable(t), argv...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "LATE="+strconv.FormatInt(late.Microseconds(), 10))
	timer := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		out.WriteString(err.Error())
	}
	return out.String()
}

// inherit is the process that becomes the init, in the state of that name, or as a subreaper. NAME=PATH is a program
// called by another name.
func inherit(args []string) int {
	runtime.LockOSThread()
	for s := syscall.Signal(32); s < 34; s++ { // make starts programs with glibc's own signals ignored
		restore(s)
	}
	name, path, ok := strings.Cut(args[1], "=")
	if !ok {
		path, _ = exec.LookPath(args[1])
	}
	argv := append([]string{name}, args[2:]...)
	tt := inheritances[args[0]]
	switch {
	case args[0] == "orphans":
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	case tt.set != nil:
		tt.set()
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "LINES=" + os.Getenv("LINES")}
	_ = syscall.Exec(path, argv, append(env, tt.env...))
	return 1
}

// forEachSignal calls f for every signal that a process can ignore and block, except SIGCHLD.
func forEachSignal(f func(syscall.Signal)) {
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		if s != syscall.SIGKILL && s != syscall.SIGSTOP && s != syscall.SIGCHLD {
			f(s)
		}
	}
}

// ignore ignores a signal without the knowledge of the runtime, which refuses some.
func ignore(s syscall.Signal) { setAction(s, 1) }

// restore gives a signal its default action back.
func restore(s syscall.Signal) { setAction(s, 0) }

func setAction(s syscall.Signal, handler uint64) {
	action := [4]uint64{handler}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0,
		unsafe.Sizeof(mask), 0, 0)
}
