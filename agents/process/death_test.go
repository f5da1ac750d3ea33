package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// When memory runs out, the kernel may kill a shim. Its children become ours, and are ended.
func TestShimKilled(t *testing.T) {
	word := token()
	job := newJob(t, "")
	up := filepath.Join(filepath.Dir(job.Dir), "up")
	job.Command[2] = fmt.Sprintf(escape, word, up) + "(setsid sleep 1000 &); sleep 1000"
	r := background(t, job)
	eventually(t, "the process has escaped", func() bool { return exists(up) })
	p, err := tree.Find((<-r.started).PID)
	if err != nil {
		t.Fatal(err)
	}
	other := strange(t, "sh", "-c", "while :; do sleep 0.1; done")
	if err := syscall.Kill(p.PPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	o := <-r.ended
	noneAlive(t, word, job.RunID)
	if len(alive(t, other)) == 0 && !restricted(os.Getpid()) {
		t.Error("a process outside the session was ended")
	}
	const want = "its session shim was ended from outside, killed by SIGKILL"
	if o.Result != agents.Killed || !strings.Contains(o.Reason, want) {
		t.Errorf("outcome %+v, want killed with the shim", o)
	}
}

// An agent with the supervisor's account can stop its shim. Its session still ends soon after the grace, as does a
// session after SkipGrace.
func TestShimStopped(t *testing.T) {
	for name, hurry := range map[string]bool{"grace": false, "hurry": true} {
		if hurry && storm(1, 0) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			word := token()
			job := newJob(t, "")
			up := filepath.Join(filepath.Dir(job.Dir), "up")
			job.Command[2] = fmt.Sprintf(escape, word, up) + "while :; do kill -STOP $PPID; done"
			job.Grace = 200 * time.Millisecond
			if hurry {
				job.Grace = time.Hour
			}
			r := background(t, job)
			p, err := tree.Find((<-r.started).PID)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the shim is stopped", func() bool { s, _ := tree.Find(p.PPID); return s.State == 'T' && exists(up) })
			time.AfterFunc(100*time.Millisecond, func() {
				if hurry {
					r.exec.SkipGrace()
				}
			})
			o, took := r.stop()
			noneAlive(t, word, job.RunID)
			if o.Result != agents.Cancelled || took > slack {
				t.Errorf("after %s: outcome %+v, want cancelled soon", took, o)
			}
		})
	}
}

// marked starts a child that carries a run id, as if it had escaped from its shim.
func marked(t *testing.T, runID string) *Child {
	t.Helper()
	c, err := reaper.Start("/bin/sh", []string{"sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"}, &syscall.ProcAttr{
		Env: []string{"PATH=/usr/bin:/bin", "DISINTO_RUN_ID=" + runID},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Run returns only when no process has the run id, whatever its parent.
func TestSweepGoesByRunID(t *testing.T) {
	job := newJob(t, "read x; sleep 0.2")
	r := background(t, job)
	<-r.started
	c, other := marked(t, job.RunID), marked(t, job.RunID+"0")
	if o := <-r.ended; o.Result != agents.Done {
		t.Errorf("outcome %+v, want done", o)
	}
	if e := <-c.Exit(); e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("the process with the run id: %s, want killed by SIGKILL", pid1.Describe(e.Status))
	}
	if p, err := tree.Find(other.PID); err != nil || p.Dead() {
		t.Error("a process of a run whose id starts with the same text was ended too")
	}
	_ = syscall.Kill(other.PID, syscall.SIGKILL)
	<-other.Exit()
}

// silentRun is a run whose shim is a script, at the other end of a socket pair.
func silentRun(t *testing.T, script string) *run {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	r := newRun(newJob(t, ""), &Executor{Reaper: reaper})
	c, err := reaper.Start("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, uintptr(pair[1])},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := tree.Find(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	r.shim, r.exit, r.link = p.ID(), c.Exit(), newLink(pair[0])
	return r
}

// A shim that dies early may have started the program. It counts as lack of room, which kills a Go program in its
// first millisecond.
func TestShimThatSaysNothing(t *testing.T) {
	r := silentRun(t, "sleep 0.1; exit 1")
	order, err := inMemory("start")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.startProgram(order, nil); !Exhausted(err) {
		t.Errorf("error %v, want one that is Exhausted", err)
	}
	c := marked(t, r.job.RunID)
	r.abandon()
	if e := <-c.Exit(); e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("the process that the shim had started: %s, want killed by SIGKILL", pid1.Describe(e.Status))
	}
}

// A shim that reports nothing, and does not obey, is killed.
func TestShimThatStaysSilent(t *testing.T) {
	r := silentRun(t, "while :; do kill -STOP $$; done")
	r.abandon()
	if p, err := tree.Find(r.shim.PID); err != syscall.ESRCH && !p.Dead() {
		t.Errorf("the shim still runs: %+v %v", p, err)
	}
}

// A program must not outlive its shim, even while the supervisor is too busy to notice.
func TestProgramDiesWithItsShim(t *testing.T) {
	_, c, instance, program := doomedSupervisor(t)
	shim := shimOf(t, instance)
	if p, err := tree.Find(program); err != nil || p.PPID != shim || p.Dead() {
		t.Fatalf("the program is %+v, %v; want a living child of the shim", p, err)
	}
	for _, kill := range []struct {
		pid int
		sig syscall.Signal
	}{{c.PID, syscall.SIGSTOP}, {shim, syscall.SIGKILL}} {
		if err := syscall.Kill(kill.pid, kill.sig); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the program has ended", func() bool { p, err := tree.Find(program); return err != nil || p.Dead() })
	_ = syscall.Kill(c.PID, syscall.SIGCONT)
	select {
	case <-c.Exit():
	case <-time.After(time.Minute):
		_ = syscall.Kill(c.PID, syscall.SIGQUIT) // not reaped yet; it prints its goroutines
		<-c.Exit()
		t.Error("the supervisor did not notice the end of its session")
	}
}

// strange gives us an orphan outside any session, and returns a word among its arguments to find it by.
func strange(t *testing.T, argv ...string) (word string) {
	t.Helper()
	word = token()
	argv = slices.Concat([]string{"sh", "-c", `(setsid "$@" >/dev/null 2>&1 &)`, "sh"}, argv, []string{word})
	if err := reaper.Run(t.Context(), Cmd{Argv: argv}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stranger runs", func() bool { return len(alive(t, word)) > 0 })
	t.Cleanup(func() {
		for _, pid := range alive(t, word) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return word
}

// In a container with no_new_privs, every orphan resembles a child of a killed shim.
func TestOrdinaryEndLeavesStrangersAlone(t *testing.T) {
	job := newJob(t, "touch $T/up; read x <$T/go")
	fifo := filepath.Join(filepath.Dir(job.Dir), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r := background(t, job)
	eventually(t, "the program runs", func() bool { return exists(r.file("up")) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	word := strange(t, self, "test-helper", "restricted")
	eventually(t, "the stranger is restricted", func() bool { return slices.ContainsFunc(alive(t, word), restricted) })
	if err := os.WriteFile(fifo, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	if len(alive(t, word)) == 0 {
		t.Error("a process outside the session was ended")
	}
}

// doomedSupervisor is a supervisor in another process, with a session from which a process has escaped. word is among
// the arguments of all three. The supervisor knows that its program runs; otherwise it would start the program again
// when the shim is killed.
func doomedSupervisor(t *testing.T) (word string, c *Child, instance string, program int) {
	t.Helper()
	word, instance, dir := token(), "i"+token(), t.TempDir()
	script := fmt.Sprintf(escape, word, dir+"/up") + "sleep 1000"
	argv := helperCommand("supervisor", dir, instance+"-1", script, cgroupRoot())
	log, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	files := []uintptr{log.Fd(), log.Fd(), log.Fd()}
	c, err = reaper.Start(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: files})
	if err != nil {
		t.Fatal(err)
	}
	p, err := tree.Find(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = p.Signal(syscall.SIGKILL)
			t.Logf("the supervisor printed:\n%s", read(log.Name()))
		}
	})
	eventually(t, "its session has escaped", func() bool { return exists(dir + "/up") })
	eventually(t, "the supervisor knows the program", func() bool {
		program, _ = strconv.Atoi(read(dir + "/program"))
		return program > 0
	})
	return word, c, instance, program
}

// shimOf returns the shim of an instance's only session.
func shimOf(t *testing.T, instance string) int {
	t.Helper()
	for _, pid := range alive(t, instance) {
		if isShim(pid, instance) {
			return pid
		}
	}
	t.Fatal("found no shim")
	return 0
}

// Outside a PID namespace, a killed supervisor's sessions survive until the next one starts.
func TestSupervisorKilled(t *testing.T) {
	word, c, instance, _ := doomedSupervisor(t)
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exit()
	if _, err := endStale(t.Context(), instance, new(Executor).known); err != nil {
		t.Fatal(err)
	}
	noneAlive(t, word, instance)
}

// Killing a shim releases its children, so the next supervisor must wait for the shim and not kill it.
func TestEndStaleWaitsForShims(t *testing.T) {
	word, c, instance, _ := doomedSupervisor(t)
	shim := shimOf(t, instance)
	for _, kill := range []struct {
		pid int
		sig syscall.Signal
	}{{shim, syscall.SIGSTOP}, {c.PID, syscall.SIGKILL}} {
		if err := syscall.Kill(kill.pid, kill.sig); err != nil {
			t.Fatal(err)
		}
	}
	<-c.Exit()
	go func() {
		time.Sleep(300 * time.Millisecond) // an endStale that does not wait would have returned
		_ = syscall.Kill(shim, syscall.SIGCONT)
	}()
	if _, err := endStale(t.Context(), instance, new(Executor).known); err != nil {
		t.Fatal(err)
	}
	noneAlive(t, word, instance)
}

// An agent that calls itself a shim gains 5 s; here, less.
func TestEndStaleKillsFalseShims(t *testing.T) {
	defer func(d time.Duration) { shimPatience = d }(shimPatience)
	shimPatience = 200 * time.Millisecond
	instance := token()
	script := filepath.Join(t.TempDir(), "session-shim") // sh takes its first argument as a script
	if err := os.WriteFile(script, []byte("while :; do sleep 0.1; done"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := reaper.Start("/bin/sh", []string{"sh", "session-shim", instance + "-1"}, &syscall.ProcAttr{
		Dir: filepath.Dir(script), Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := endStale(t.Context(), instance, new(Executor).known); err != nil {
		t.Fatal(err)
	}
	if e := <-c.Exit(); e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("the false shim: %s, want killed by SIGKILL", pid1.Describe(e.Status))
	}
}

// A shim ends its tree without an order, because the next supervisor may start much later, or never.
func TestShimNoticesThatItsSupervisorIsGone(t *testing.T) {
	word, c, _, _ := doomedSupervisor(t)
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exit()
	eventually(t, "no process of its tree is left", func() bool { return len(alive(t, word)) == 0 })
}

// endStale ends processes of an earlier supervisor that have lost their shim.
func TestEndStale(t *testing.T) {
	instance := token()
	stale, other := marked(t, instance+"-1"), marked(t, instance+"x-1")
	later := marked(t, "X=DISINTO_RUN_ID="+instance+"-1")
	n, err := endStale(t.Context(), instance, new(Executor).known)
	if err != nil || n < 1 {
		t.Errorf("endStale = %d, %v, want at least 1 process", n, err)
	}
	if e := <-stale.Exit(); e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("the stale process: %s, want killed by SIGKILL", pid1.Describe(e.Status))
	}
	for _, c := range []*Child{other, later} {
		if p, err := tree.Find(c.PID); err != nil || p.Dead() {
			t.Error("a process of another owner was ended")
		}
		_ = syscall.Kill(c.PID, syscall.SIGKILL)
		<-c.Exit()
	}
	if n, err := endStale(t.Context(), instance, new(Executor).known); n != 0 || err != nil {
		t.Errorf("the second endStale = %d, %v, want 0", n, err)
	}
}
