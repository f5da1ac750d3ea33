package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// alone runs the calling test once more in a process of its own, and reports whether this is that process. A test that
// counts what its reaper saw must be alone: an orphan left by an earlier test made it 101 of 100.
func alone(t *testing.T) bool {
	t.Helper()
	const key = "DISINTO_TEST_ALONE"
	if os.Getenv(key) != "" {
		return true
	}
	var out strings.Builder
	argv := []string{"/proc/self/exe", "-test.run=^" + t.Name() + "$", "-test.count=1"}
	cmd := Cmd{Argv: argv, Env: append(os.Environ(), key+"=yes"), Stdout: &out, Stderr: &out}
	if err := reaper.Run(t.Context(), cmd); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
	return false
}

// spawn starts a shell through the reaper.
func spawn(t testing.TB, script string, files ...uintptr) *Child {
	t.Helper()
	c, err := reaper.Start("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReaperKeepsStatusesApartFromOrphans(t *testing.T) {
	if !alone(t) {
		return
	}
	const orphans = 100
	children, nurseries := storm(200, 40), storm(5, 1)
	before := orphansOf(reaper)
	var wg sync.WaitGroup
	for range nurseries {
		wg.Go(func() {
			c := spawn(t, fmt.Sprintf("i=0; while [ $i -lt %d ]; do (sleep 0.1 &); i=$((i+1)); done", orphans))
			<-c.Exit()
		})
	}
	for i := range children {
		wg.Go(func() {
			c := spawn(t, fmt.Sprintf("exit %d", i))
			if e := <-c.Exit(); e.Status.ExitStatus() != i {
				t.Errorf("child %d: %s, want its number as status", i, pid1.Describe(e.Status))
			}
		})
	}
	wg.Wait()
	eventually(t, "all orphans are reaped", func() bool { return orphansOf(reaper) >= before+int64(nurseries*orphans) })
	if got := orphansOf(reaper) - before; got != int64(nurseries*orphans) {
		t.Errorf("%d orphans, want %d: our own children must not count", got, nurseries*orphans)
	}
}

func TestReaperReportsSignalsAndUsage(t *testing.T) {
	e := <-spawn(t, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; kill -9 $$").Exit()
	if !e.Status.Signaled() || e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("status: %s, want killed by SIGKILL", pid1.Describe(e.Status))
	}
	if e.Usage.Utime.Nano()+e.Usage.Stime.Nano() == 0 || e.Usage.Maxrss == 0 {
		t.Errorf("usage is empty: %+v", e.Usage)
	}
}

// A child may end, and be reaped, before its fork returns to Start.
func TestReaperKeepsEarlyEnds(t *testing.T) {
	if !alone(t) {
		return
	}
	r := reaper
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 9"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the exit is recorded", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, ok := r.early[pid]
		return ok
	})
	before := orphansOf(r)
	c := &Child{PID: pid, exit: make(chan Exit, 1)}
	r.mu.Lock()
	r.starting--
	r.adoptLocked(c)
	r.mu.Unlock()
	if e := <-c.Exit(); e.Status.ExitStatus() != 9 {
		t.Errorf("status: %s, want 9", pid1.Describe(e.Status))
	}
	if got := orphansOf(r) - before; got != -1 {
		t.Errorf("the number of orphans changed by %+d, want -1: the child is not an orphan", got)
	}
}

// An orphan may have had a child's number before the child. The orphan's exit is not the child's.
func TestReaperTellsNumbersApart(t *testing.T) {
	r := reaper
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "read x; exit 4"},
		&syscall.ProcAttr{Files: []uintptr{pipe(t)}})
	if err != nil {
		t.Fatal(err)
	}
	c := &Child{PID: pid, exit: make(chan Exit, 1)}
	r.mu.Lock()
	r.early[pid] = Exit{Status: 99 << 8}
	r.adoptLocked(c)
	delete(r.early, pid)
	r.mu.Unlock()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := <-c.Exit(); e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("status: %s, want that of the child", pid1.Describe(e.Status))
	}
}

// pipe returns the reading end of a pipe that stays open and empty while the test runs.
func pipe(t *testing.T) uintptr {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r.Fd()
}

func TestOnlyOneReaper(t *testing.T) {
	if _, err := NewReaper(); err == nil {
		t.Fatal("a second reaper started; it would take the first one's statuses")
	}
}

func TestReaperFindsChildrenThatEndedBeforeIt(t *testing.T) {
	if err := reaper.Run(t.Context(), Cmd{Argv: helperCommand("late")}); err != nil {
		t.Fatal(err)
	}
}

func TestStartErrors(t *testing.T) {
	if !alone(t) {
		return
	}
	before := len(reaper.children)
	if _, err := reaper.Start("/nonexistent", []string{"x"}, &syscall.ProcAttr{}); err != syscall.ENOENT ||
		Exhausted(err) {
		t.Errorf("start of a missing program: %v, want ENOENT", err)
	}
	if len(reaper.children) != before {
		t.Error("the reaper waits for a child that never ran")
	}
}

func TestExhausted(t *testing.T) {
	needRoot(t)
	dir := filepath.Dir(newJob(t, "").Dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	c := asNobody(t, helperCommand("exhaust", dir))
	if e := <-c.Exit(); e.Status != 0 {
		t.Errorf("helper: %s, want exit status 0", pid1.Describe(e.Status))
	}
}

// asNobody runs a command as an account without rights.
func asNobody(t *testing.T, argv []string) *Child {
	t.Helper()
	c, err := reaper.Start(argv[0], argv, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// descriptors counts the open descriptors, and the pidfds among them.
func descriptors() (n, pidfds int) {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if link, _ := os.Readlink(fd); strings.Contains(link, "pidfd") {
			pidfds++
		}
	}
	return len(fds), pidfds
}

func TestSpawnsLeaveNoDescriptors(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a finalizer must not close them for us
	<-spawn(t, "exit 0").Exit()
	before, _ := descriptors()
	for range storm(500, 50) {
		<-spawn(t, "exit 0").Exit()
		if err := reaper.Run(t.Context(), Cmd{Argv: []string{"true"}, Stdout: &strings.Builder{}}); err != nil {
			t.Fatal(err)
		}
	}
	closedAgain(t, before)
}

// closedAgain waits until no more descriptors are open than before. One that is open for a moment, such as a folder of
// /proc that the observer of another test's session reads, is no leak.
func closedAgain(t *testing.T, before int) {
	t.Helper()
	eventually(t, "every descriptor is closed", func() bool {
		after, pidfds := descriptors()
		return after <= before && pidfds == 0
	})
}

func TestSessionsLeaveNoDescriptors(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runJob(t, newJob(t, "true"))
	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, []byte("#!/no/such/shell\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	before, _ := descriptors()
	for range storm(20, 4) {
		runJob(t, newJob(t, "(setsid true &)"))
		job := newJob(t, "")
		job.Command = []string{"/no/such/program"}
		runJob(t, job)
		job.Command = []string{odd} // fails in the shim
		runJob(t, job)
	}
	closedAgain(t, before)
}

// 10,000 orphans end at once, together with 1,000 of our own children (a tenth of both in make test), and no child's
// status is lost.
func TestReaperStorm(t *testing.T) {
	var out strings.Builder
	if err := reaper.Run(t.Context(), Cmd{Argv: helperCommand("reaper-storm"), Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	var took, left, lost int
	if n, err := fmt.Sscan(out.String(), &took, &left, &lost); n != 3 || left != 0 || lost != 0 {
		t.Errorf("%d orphans left and %d statuses lost (%v, %q), want none", left, lost, err, out.String())
	}
}

// A panic in the reaper costs only the exit that it was handling.
func TestReaperOutlivesPanics(t *testing.T) {
	var stderr strings.Builder
	err := reaper.Run(t.Context(), Cmd{Argv: helperCommand("reaper-panic"), Stderr: &stderr})
	if err != nil || !strings.Contains(stderr.String(), "the reaper panicked: send on closed channel") {
		t.Errorf("got %v and %q, want the panic on stderr and the next child's exit status", err, stderr.String())
	}
}

// reaperPanic makes its reaper panic, in a process of its own: the stack among the output of a test that failed once
// looked like the cause.
func reaperPanic([]string) int {
	r, err := NewReaper()
	if err != nil {
		return 2
	}
	start := func(script string) *Child {
		c, err := r.Start("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{})
		if err != nil {
			syscall.Exit(3)
		}
		return c
	}
	doomed := start("exec sleep 60")
	r.mu.Lock()
	close(doomed.exit) // delivering the exit panics
	r.mu.Unlock()
	_ = syscall.Kill(doomed.PID, syscall.SIGKILL)
	for r.isOwn(doomed.PID) {
		time.Sleep(time.Millisecond)
	}
	return (<-start("exit 3").Exit()).Status.ExitStatus() - 3
}

// orphansOf returns the number of orphans that a reaper has reaped.
func orphansOf(r *Reaper) int64 {
	_, orphans := r.Reaped()
	return orphans
}
