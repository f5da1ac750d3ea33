package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listener is a shell that records each signal it gets, except those that no shell can trap, and continues.
const listener = `for s in $(seq 1 64); do case $s in 9|17|19|32|33|34) ;; *) trap "echo $s >>$LINES" $s;; esac; done
	echo up >>$LINES; while :; do sleep 0.01; done`

// The command receives every signal that a process can catch. In a plain program SIGPROF belongs to the Go runtime,
// and a SIGURG may be the runtime's own.
func TestPassesEverySignal(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := start(t, mode, "--single-child", "bash", "-c", listener)
			s.says("up")
			eventually(t, "we are listening", func() bool { return handles(s.pid, syscall.SIGTTOU) })
			for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
				switch {
				case sig == syscall.SIGKILL, sig == syscall.SIGSTOP, sig == syscall.SIGCHLD, 32 <= sig && sig <= 34,
					mode == "plain" && (sig == syscall.SIGPROF || sig == syscall.SIGURG):
					continue
				}
				s.signal(sig)
				s.says(strconv.Itoa(int(sig)))
				if stops(sig) && mode != "PID 1" {
					eventually(t, "we have stopped", func() bool { return state(s.pid) == "T" })
				}
				if stops(sig) {
					s.signal(syscall.SIGCONT)
					s.says("18")
				}
			}
			s.signal(syscall.SIGURG) // a plain program cannot tell it from the runtime's
			s.signal(syscall.SIGUSR1)
			eventually(t, "the last one has arrived", func() bool { return strings.Count("\n"+read(s.lines), "\n10\n") == 2 })
			if mode == "plain" && strings.Contains("\n"+read(s.lines), "\n23\n") {
				t.Error("a SIGURG of the runtime was passed on")
			}
		})
	}
}

func TestRewrites(t *testing.T) {
	t.Parallel()
	s := start(t, "subreaper", "--rewrite", "15:3", "-r", "USR1:0", "-r", "TSTP:HUP", "bash", "-c", listener)
	s.says("up")
	s.signal(syscall.SIGUSR1)
	s.signal(syscall.SIGTERM)
	s.says("3")
	eventually(t, "we are listening", func() bool { return handles(s.pid, syscall.SIGTTOU) })
	s.signal(syscall.SIGTSTP)
	s.says("1")
	eventually(t, "we have stopped", func() bool { return state(s.pid) == "T" })
	s.signal(syscall.SIGCONT)
	s.says("18")
	if got := read(s.lines); got != "up\n3\n1\n18\n" {
		t.Errorf("the command got %q, want the rewritten signals", got)
	}
}

// A signal is for the whole group: the command may ignore it and wait for a child that does not.
func TestSignalsReachTheGroup(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := start(t, mode, "sh", "-c", `trap 'echo never' USR1; (trap - USR1; exec sleep 1000) & trap '' USR1;
				echo up >>$LINES; wait $!; exit $(($? == 138 ? 5 : 6))`)
			s.says("up")
			time.Sleep(20 * time.Millisecond) // the child may not be a sleep yet
			eventually(t, "the child has got the signal", func() bool {
				_ = syscall.Kill(s.pid, syscall.SIGUSR1)
				return state(s.pid) == "Z" || state(s.pid) == ""
			})
			s.expect(5)
		})
	}
}

// TSTP, TTIN and TTOU stop us and the command, and CONT continues both.
func TestStopAndContinue(t *testing.T) {
	t.Parallel()
	s := start(t, "subreaper", "sh", "-c", `echo $$ >>$LINES; exec sleep 1000`) // a shell stopped in vfork is in state D
	eventually(t, "the command runs", func() bool { return strings.HasSuffix(read(s.lines), "\n") })
	child, _ := strconv.Atoi(strings.TrimSpace(read(s.lines)))
	eventually(t, "we are listening", func() bool { return handles(s.pid, syscall.SIGTTOU) })
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		s.signal(sig)
		eventually(t, "both have stopped", func() bool { return state(s.pid) == "T" && state(child) == "T" })
		s.signal(syscall.SIGCONT)
		eventually(t, "both continue", func() bool { return state(s.pid) != "T" && state(child) != "T" })
	}
	s.signal(syscall.SIGTERM)
	s.expect(143)
}

// Orphans are reaped while the command runs, many at once.
func TestReapsOrphans(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			each := strconv.Itoa(storm(100, 5))
			s := start(t, mode, "sh", "-c", `for i in 1 2 3 4 5; do sh -c 'for j in $(seq `+each+`); do (read x </dev/null;
				sleep 0.2; exit $j) & done'; done; echo up >>$LINES; sleep 1000`)
			s.says("up")
			eventually(t, "all are reaped", func() bool { return len(strings.Fields(read(childrenOf(s.pid)))) == 1 })
			s.signal(syscall.SIGTERM)
			s.expect(143)
		})
	}
}

// family is a command that ends slowly, with a child in its group and an orphan in a session of its own. All of them
// record the signals that they get.
const family = `
	(trap 'echo child TERM >>$LINES; exit' TERM; while :; do sleep 0.01; done) &
	setsid sh -c '(trap "echo orphan TERM >>$LINES; exit" TERM; echo up >>$LINES; while :; do sleep 0.01; done) &'
	trap 'sleep 0.3; echo command TERM >>$LINES; exit 4' TERM
	while ! [ -e $LINES ]; do sleep 0.01; done
	echo ready >>$LINES; while :; do sleep 0.01; done`

// A TERM, the signal that stops containers, reaches every process once, and the init ends when all have ended.
func TestTERMReachesEverybody(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := start(t, mode, "sh", "-c", family)
			s.says("ready")
			s.signal(syscall.SIGTERM)
			s.expect(4)
			for _, who := range []string{"command", "child", "orphan"} {
				if n := strings.Count(read(s.lines), who+" TERM\n"); n != 1 {
					t.Errorf("%s got %d TERMs, want 1", who, n)
				}
			}
			if n := s.killAll(); n > 0 {
				t.Errorf("%d processes are still alive", n)
			}
		})
	}
}

// A leftover process gets TERM and time to act on it, and then KILL.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			// The file exists before it is counted: wc prints nothing for a missing file, and then [ ends the wait.
			s := start(t, mode, "--grace", "3s", "sh", "-c", `: >>$LINES
				setsid sh -c '(trap "sleep 0.1; echo polite >>$LINES; exit" TERM; echo up >>$LINES; while :; do sleep 0.1; done) &'
				setsid env -i LINES=$LINES sh -c '(trap "" TERM; echo deaf >>$LINES; while :; do sleep 0.1; done) &'
				while [ $(wc -l <$LINES) -lt 2 ]; do sleep 0.01; done; exit 3`)
			s.expect(3)
			s.says("polite")
			if n := s.killAll(); n > 0 {
				t.Errorf("%d processes are still alive", n)
			}
		})
	}
}

// --grace ends a command that ignores TERM, and all its descendants.
func TestGrace(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := start(t, mode, "--grace=200ms", "sh", "-c", `trap '' TERM; (setsid sleep 1000 &); echo up >>$LINES; while :;
				do sleep 0.01; done`)
			s.says("up")
			s.signal(syscall.SIGTERM)
			s.expect(137)
			if n := s.killAll(); n > 0 {
				t.Errorf("%d processes are still alive", n)
			}
		})
	}
}

// Without --grace the command is never killed: a database may need an hour.
func TestNoGrace(t *testing.T) {
	t.Parallel()
	s := start(t, "subreaper", "sh", "-c", `trap 'echo got it >>$LINES' TERM; echo up >>$LINES; while :; do sleep 0.01;
		done`)
	s.says("up")
	for range 2 {
		s.signal(syscall.SIGTERM)
	}
	s.says("got it")
	s.signal(syscall.SIGINT)
	s.expect(130)
}

// A second signal cuts the grace of leftovers short.
func TestHurry(t *testing.T) {
	t.Parallel()
	s := start(t, "subreaper", "--grace", "1h", "sh", "-c", `echo $$ >>$LINES
		(trap '' TERM INT; setsid sh -c 'echo up >>$LINES; while :; do sleep 0.01; done' &)
		until grep -q up $LINES; do sleep 0.01; done; exit 3`)
	eventually(t, "the command has ended", func() bool {
		said := strings.Fields(read(s.lines))
		if len(said) < 2 {
			return false
		}
		command, _ := strconv.Atoi(said[0])
		return handles(s.pid, syscall.SIGTTOU) && state(command) == ""
	})
	s.signal(syscall.SIGTERM)
	s.expect(3)
}

func TestSingleChild(t *testing.T) {
	t.Parallel()
	s := start(t, "subreaper", "--single-child", "sh", "-c", `(trap 'echo child TERM >>$LINES' TERM; echo up >>$LINES;
		while :; do sleep 0.01; done) >/dev/null 2>&1 &
		while ! [ -e $LINES ]; do sleep 0.01; done; wait`)
	s.says("up")
	s.signal(syscall.SIGTERM)
	s.expect(143)
	if got := read(s.lines); got != "up\n" {
		t.Errorf("the command's child got a signal: %q, want none", got)
	}
	if n := s.killAll(); n == 0 {
		t.Error("the command's leftover process was ended")
	}
}

// One SIGCHLD may stand for thousands of exits, and a TERM must get through them.
func TestTERMAmongManyEnds(t *testing.T) {
	t.Parallel()
	n := storm(500, 150)
	s := start(t, "subreaper", "sh", "-c", fmt.Sprintf(`mkfifo $LINES.go; for i in $(seq %d);
		do (read x <$LINES.go) & done; echo up >>$LINES; exec sleep 1000`, n))
	s.says("up")
	f, err := os.OpenFile(s.lines+".go", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(5*time.Millisecond, func() { _ = f.Close() })
	_, _ = f.WriteString(strings.Repeat("\n", n))
	s.signal(syscall.SIGTERM)
	s.expect(143)
}

// The garbage collector is off, so frequent work must not allocate.
func TestF8_ReapingTakesNoMemory(t *testing.T) {
	c := &command{pid: -1}
	pids := make([]int, 100)
	for i := range pids {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		pids[i] = pid
	}
	eventually(t, "all have ended", func() bool { return state(pids[99]) == "Z" && state(pids[0]) == "Z" })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.reap()
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > uint64(len(pids)/2) { // the test allocates too
		t.Errorf("%d allocations for %d children, want less than half", n, len(pids))
	}
	eventually(t, "none is left", c.reap)
}

// A command whose status has gone elsewhere has ended nevertheless.
func TestStatusLost(t *testing.T) {
	c := &command{pid: -1}
	eventually(t, "no child is left", c.reap)
	if !c.ended || c.status.ExitStatus() != exitFailed {
		t.Errorf("ended %v with status %v, want an end with exit code 1", c.ended, c.status)
	}
}

// As PID 1 with an empty /proc, as in a chroot, a command that ignores TERM and its leftovers are still killed.
func TestWithoutProc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	t.Parallel()
	for _, command := range []string{
		`trap "" TERM; (trap "" TERM; setsid sleep 1000 &) ; kill -TERM 1; sleep 1000`,
		`(trap "" TERM; setsid sleep 1000 &) ; exit 137`,
	} {
		began := time.Now()
		out, err := exec.Command("unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c",
			`mount -t tmpfs none /proc && exec "$@"`, "sh", program(t, "PID 1"), "exec", "--grace", "200ms", "sh", "-c",
			command).CombinedOutput()
		if took := time.Since(began); exitCodeOf(err) != 137 || took > killPatience+leftoverGrace {
			t.Errorf("after %v: %v, want exit code 137 soon\n%s", took, err, out)
		}
	}
}

func exitCodeOf(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
