package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// escape is what agents' tools do, and worse: it leaves the group, the session and its parent, loses its environment,
// ignores every request to end, and keeps the output open. %s is a word to find it by.
const escape = `(setsid env -i /bin/sh -c 'trap "" TERM HUP INT; echo escaped; touch %[2]s; while :; do /bin/sleep 1; done' %[1]s &);
	while [ ! -e %[2]s ]; do sleep 0.01; done; `

// running is a session in the background.
type running struct {
	job     agents.Job
	exec    *Executor
	cancel  context.CancelCauseFunc
	started chan agents.Started
	ended   chan agents.Outcome
}

func background(t *testing.T, job agents.Job) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{
		job: job, exec: &Executor{Reaper: reaper}, cancel: cancel,
		started: make(chan agents.Started, 1), ended: make(chan agents.Outcome, 1),
	}
	go func() { r.ended <- r.exec.Run(ctx, job, func(s agents.Started) { r.started <- s }) }()
	t.Cleanup(func() {
		cancel(nil)
		r.exec.Hurry()
	})
	return r
}

// stop cancels the session and answers how it ended and how long that took.
func (r *running) stop() (agents.Outcome, time.Duration) {
	begin := time.Now()
	r.cancel(errors.New("issue closed"))
	return <-r.ended, time.Since(begin)
}

// file is a path beside the session's folders.
func (r *running) file(name string) string { return filepath.Join(filepath.Dir(r.job.Dir), name) }

// slack is what a tree may take longer than its grace on a loaded machine. A tree that is not ended takes for ever.
const slack = 15 * time.Second

func TestCancelEndsWhatEscaped(t *testing.T) {
	word := token()
	job := newJob(t, "")
	up := filepath.Join(filepath.Dir(job.Dir), "up")
	job.Command[2] = fmt.Sprintf(escape, word, up) + "sleep 1000"
	job.Grace = 300 * time.Millisecond
	r := background(t, job)
	eventually(t, "it has escaped", func() bool { return exists(up) })
	o, took := r.stop()
	noneAlive(t, word, job.RunID)
	if o.Result != agents.Cancelled || o.Reason != "ended: issue closed" || o.Claimed {
		t.Errorf("outcome %+v", o)
	}
	if took < job.Grace || took > job.Grace+slack {
		t.Errorf("took %v with a grace of %v", took, job.Grace)
	}
}

func TestOwnExitEndsWhatIsLeft(t *testing.T) {
	word := token()
	job := newJob(t, "")
	dir := filepath.Dir(job.Dir)
	job.Command[2] = fmt.Sprintf(escape, word, dir+"/up") +
		`(setsid sh -c 'trap "echo >$T/told; exit" TERM; touch $T/polite; while :; do sleep 0.01; done' &)
		while [ ! -e $T/polite ]; do sleep 0.01; done
		echo '{"outcome":"done"}' >$DISINTO_RESULT`
	o := run(t, job)
	noneAlive(t, word, job.RunID)
	if o.Result != agents.Done || !o.Claimed {
		t.Errorf("outcome %+v", o)
	}
	if !exists(dir + "/told") {
		t.Error("what was left got no TERM before it was killed")
	}
}

// What the program did before anybody wanted it to end counts, even if its leftovers are still being ended.
func TestOwnExitComesFirst(t *testing.T) {
	job := newJob(t, `(setsid sh -c 'trap "" TERM; touch $T/up; while :; do sleep 0.01; done' &)
		while [ ! -e $T/up ]; do sleep 0.01; done; exit 5`)
	r := background(t, job)
	pid := (<-r.started).PID
	eventually(t, "the program has ended", func() bool { _, err := look(pid); return err != nil })
	o, _ := r.stop()
	if o.Result != agents.Failed || o.ExitCode != 5 {
		t.Errorf("outcome %+v, want the exit status 5", o)
	}
	noneAlive(t, job.RunID)
}

// An agent saves its work on TERM, with programs that it starts only then.
func TestGraceIsForSaving(t *testing.T) {
	job := newJob(t, `trap 'sh -c "sleep 0.3; echo saved >$T/saved"; exit 0' TERM; touch $T/up; while :; do sleep 0.01; done`)
	job.Grace = time.Minute
	r := background(t, job)
	eventually(t, "it is up", func() bool { return exists(r.file("up")) })
	o, took := r.stop()
	if got := read(r.file("saved")); got != "saved" {
		t.Error("the work was not saved: TERM must be sent once, to those who are there")
	}
	if o.Result != agents.Cancelled || o.ExitCode != 0 {
		t.Errorf("outcome %+v", o)
	}
	if took > slack {
		t.Errorf("took %v; the end must not wait for the grace when nothing is left", took)
	}
}

// A stopped process cannot act on TERM before it is continued.
func TestStoppedProcessHearsTERM(t *testing.T) {
	job := newJob(t, `trap 'touch $T/heard; exit' TERM; touch $T/up; kill -STOP $$; while :; do sleep 0.01; done`)
	job.Grace = time.Minute
	r := background(t, job)
	pid := (<-r.started).PID
	eventually(t, "it has stopped", func() bool { p, _ := look(pid); return p.state == 'T' })
	r.stop()
	if !exists(r.file("heard")) {
		t.Error("the stopped process did not get its TERM")
	}
}

func TestHurry(t *testing.T) {
	job := newJob(t, `trap "" TERM; touch $T/up; while :; do sleep 0.1; done`)
	job.Grace = time.Hour
	r := background(t, job)
	eventually(t, "it is up", func() bool { return exists(r.file("up")) })
	r.exec.Hurry()
	r.exec.Hurry()
	if o := r.exec.Run(t.Context(), newJob(t, "sleep 0.2"), nil); o.Result != agents.Done {
		t.Errorf("a session that nobody is ending: %+v", o)
	}
	o, _ := r.stop()
	noneAlive(t, job.RunID)
	if o.Result != agents.Cancelled || o.Signal != "SIGKILL" {
		t.Errorf("outcome %+v", o)
	}
}

func TestTimeout(t *testing.T) {
	job := newJob(t, `echo '{"outcome":"failed","session_id":"s9","usage":{"output_tokens":5}}' >$DISINTO_RESULT; while :; do echo; sleep 0.01; done`)
	job.Timeout = 300 * time.Millisecond
	o := run(t, job)
	noneAlive(t, job.RunID)
	if o.Result != agents.TimedOut || o.Reason != "ended after its timeout of 300ms" || o.Claimed {
		t.Errorf("outcome %+v", o)
	}
	if o.SessionID != "s9" || o.Usage.OutputTokens != 5 {
		t.Errorf("what it said of itself is lost: %+v", o)
	}
}

func TestStall(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   agents.Result
	}{
		{"silent and idle", "sleep 1000", agents.Stalled},
		{"silent and idle after a word", "echo working; (setsid sleep 1000 &) ; sleep 1000", agents.Stalled},
		{"computes", "while :; do :; done", agents.TimedOut},
		{"something below it computes", "(setsid env -i sh -c 'while :; do :; done' &); sleep 1000", agents.TimedOut},
		{"prints", "exec sleep 1000", agents.TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			job := newJob(t, tt.script)
			job.Stall, job.Timeout = time.Second, 3*time.Second
			if tt.want == agents.Stalled {
				job.Timeout = time.Minute
			}
			if tt.name == "prints" {
				printFor(t, job.LogPath)
			}
			o := run(t, job)
			if o.Result != tt.want {
				t.Errorf("outcome %+v, want %s", o, tt.want)
			}
			noneAlive(t, job.RunID)
		})
	}
}

// printFor prints in the place of a program, which could not do so without using the processor.
func printFor(t *testing.T, log string) {
	ctx := t.Context()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			if f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0); err == nil {
				_, _ = f.WriteString("still here\n")
				_ = f.Close()
			}
		}
	}()
}

// A program that is faster than a list of processes can be made must be ended all the same.
func TestEndConvergesAgainstForks(t *testing.T) {
	tests := map[string][]string{
		"hops from process to process": helperCommand("hop"),
		"forks in a loop":              {"/bin/sh", "-c", `trap "" TERM; while :; do /bin/sleep 0.05 & done`},
		"restarts what is killed": {
			"/bin/sh", "-c", `trap "" TERM; w() { while :; do setsid sh -c "$1" "$1"; done; }; w 'trap "" TERM; sleep 5' & w 'trap "" TERM; sleep 5' & wait`,
		},
	}
	for name, command := range tests {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, "")
			job.Command = append(command, token())
			job.Grace = 100 * time.Millisecond
			r := background(t, job)
			<-r.started
			time.Sleep(200 * time.Millisecond) // until it is in full swing; nothing depends on it
			o, took := r.stop()
			noneAlive(t, job.RunID)
			if o.Result != agents.Cancelled && o.Result != agents.Done { // the hopping program itself ends at once
				t.Errorf("outcome %+v", o)
			}
			t.Logf("ended %v after the grace", took-job.Grace)
		})
	}
}

// TestShimKilled takes the shim away, as the kernel does when memory is short. What was below it comes to us.
func TestShimKilled(t *testing.T) {
	word := token()
	job := newJob(t, "")
	up := filepath.Join(filepath.Dir(job.Dir), "up")
	job.Command[2] = fmt.Sprintf(escape, word, up) + "(setsid sleep 1000 &); sleep 1000"
	r := background(t, job)
	eventually(t, "it has escaped", func() bool { return exists(up) })
	p, err := look((<-r.started).PID)
	if err != nil {
		t.Fatal(err)
	}
	other := strange(t, "sh", "-c", "while :; do sleep 0.1; done")
	if err := syscall.Kill(p.ppid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	o := <-r.ended
	noneAlive(t, word, job.RunID)
	if len(alive(t, other)) != 1 && !restricted(os.Getpid()) {
		t.Error("a stranger was taken for a part of the session")
	}
	if o.Result != agents.Failed || !strings.Contains(o.Reason, "its session shim was ended from outside, killed by SIGKILL") {
		t.Errorf("outcome %+v", o)
	}
}

// strange gives us an orphan that has nothing to do with any session, and answers a word to find it by.
func strange(t *testing.T, argv ...string) (word string) {
	t.Helper()
	word = token()
	if err := reaper.Run(t.Context(), Cmd{Argv: append([]string{"sh", "-c", `(setsid "$@" >/dev/null 2>&1 &)`, "sh"}, append(argv, word)...)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stranger runs", func() bool { return len(alive(t, word)) == 1 })
	t.Cleanup(func() {
		for _, pid := range alive(t, word) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return word
}

// In a container where nobody can gain privileges, orphans of ours look like those of a shim that was killed.
func TestOrdinaryEndLeavesStrangersAlone(t *testing.T) {
	job := newJob(t, "touch $T/up; read x <$T/go")
	fifo := filepath.Join(filepath.Dir(job.Dir), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r := background(t, job)
	eventually(t, "it is up", func() bool { return exists(r.file("up")) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	word := strange(t, self, "test-helper", "restricted")
	eventually(t, "the stranger gave up its rights", func() bool { return slices.ContainsFunc(alive(t, word), restricted) })
	if err := os.WriteFile(fifo, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	if len(alive(t, word)) != 1 {
		t.Error("a stranger was ended with the session")
	}
}

// doomedSupervisor is a supervisor in another process, with a session from which something has escaped. word is among
// the arguments of all of it.
func doomedSupervisor(t *testing.T) (word string, c *Child, instance string) {
	t.Helper()
	word, instance, dir := token(), "i"+token(), t.TempDir()
	script := fmt.Sprintf(escape, word, dir+"/up") + "sleep 1000"
	argv := helperCommand("supervisor", dir, instance+"-1", script)
	c, err := reaper.Start(argv[0], argv, &syscall.ProcAttr{Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its session has escaped", func() bool { return exists(dir + "/up") })
	return word, c, instance
}

// TestSupervisorKilled takes the supervisor away, outside a PID namespace, and starts the next one.
func TestSupervisorKilled(t *testing.T) {
	word, c, instance := doomedSupervisor(t)
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exit()
	if _, err := EndStale(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	noneAlive(t, word, instance)
}

// A shim that is killed lets go of what it holds, so the next supervisor must not kill it but wait.
func TestEndStaleWaitsForShims(t *testing.T) {
	word, c, instance := doomedSupervisor(t)
	var shim int
	for _, pid := range alive(t, instance) {
		if isShim(pid, instance) {
			shim = pid
		}
	}
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
		time.Sleep(300 * time.Millisecond) // long enough for an EndStale that does not wait to come back
		_ = syscall.Kill(shim, syscall.SIGCONT)
	}()
	if _, err := EndStale(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	noneAlive(t, word, instance)
}

// An agent that calls itself a shim gains 5 s.
func TestEndStaleKillsFalseShims(t *testing.T) {
	t.Parallel() // it waits for those 5 s
	instance := token()
	script := filepath.Join(t.TempDir(), "session-shim") // for sh, the first argument is a script
	if err := os.WriteFile(script, []byte("while :; do sleep 0.1; done"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := reaper.Start("/bin/sh", []string{"sh", "session-shim", instance + "-1"}, &syscall.ProcAttr{
		Dir: filepath.Dir(script), Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := EndStale(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	if e := <-c.Exit(); e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("the false shim: %s", describe(e.Status))
	}
}

// Shims do without being told: the next supervisor may start much later, or never.
func TestShimNoticesThatItsSupervisorIsGone(t *testing.T) {
	word, c, _ := doomedSupervisor(t)
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exit()
	eventually(t, "its tree is gone", func() bool { return len(alive(t, word)) == 0 })
}

// TestEndStale finds what an earlier supervisor left, even without a shim.
func TestEndStale(t *testing.T) {
	instance := token()
	left := func(env string) *Child {
		c, err := reaper.Start("/bin/sh", []string{"sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"}, &syscall.ProcAttr{Env: []string{"PATH=/bin:/usr/bin", env}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	stale, other, later := left("DISINTO_RUN_ID="+instance+"-1"), left("DISINTO_RUN_ID="+instance+"x-1"), left("X=DISINTO_RUN_ID="+instance+"-1")
	n, err := EndStale(t.Context(), instance)
	if err != nil || n < 1 {
		t.Errorf("EndStale = %d, %v", n, err)
	}
	if e := <-stale.Exit(); e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("the stale process: %s", describe(e.Status))
	}
	for _, c := range []*Child{other, later} {
		if p, err := look(c.PID); err != nil || p.dead() {
			t.Error("a process of somebody else was ended")
		}
		_ = syscall.Kill(c.PID, syscall.SIGKILL)
		<-c.Exit()
	}
	if n, err := EndStale(t.Context(), instance); n != 0 || err != nil {
		t.Errorf("EndStale again = %d, %v", n, err)
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	e := &Executor{Reaper: reaper}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			job := newJob(t, fmt.Sprintf("(setsid sleep 1000 &); exit %d", i))
			if o := e.Run(t.Context(), job, nil); o.ExitCode != i {
				t.Errorf("session %d: %+v", i, o)
			}
			noneAlive(t, job.RunID)
		})
	}
	wg.Wait()
}
