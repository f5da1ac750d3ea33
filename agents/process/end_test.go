package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// escape does what agents' tools do, and more: it leaves the group, the session and its parent, drops its
// environment, ignores every request to end, and keeps the output open. %s is a word to find it by.
const escape = `(setsid env -i /bin/sh -c 'trap "" TERM HUP INT; echo escaped; touch %[2]s; while :;
	do /bin/sleep 1; done' %[1]s &);
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
		r.exec.SkipGrace()
	})
	return r
}

// stop cancels the session, and returns its outcome and the time that the end took.
func (r *running) stop() (agents.Outcome, time.Duration) {
	begin := time.Now()
	r.cancel(errors.New("issue closed"))
	return <-r.ended, time.Since(begin)
}

// file returns a path beside the session's folders.
func (r *running) file(name string) string { return filepath.Join(filepath.Dir(r.job.Dir), name) }

// slack is how much longer than its grace a tree may take on a loaded machine. A tree that is not ended never ends.
const slack = 15 * time.Second

func TestCancelEndsWhatEscaped(t *testing.T) {
	t.Parallel()
	word := token()
	job := newJob(t, "")
	up := filepath.Join(filepath.Dir(job.Dir), "up")
	job.Command[2] = fmt.Sprintf(escape, word, up) + "sleep 1000"
	job.Grace = 300 * time.Millisecond
	r := background(t, job)
	eventually(t, "the process has escaped", func() bool { return exists(up) })
	o, took := r.stop()
	noneAlive(t, word, job.RunID)
	if o.Result != agents.Cancelled || o.Reason != "ended: issue closed" || o.Claimed {
		t.Errorf("outcome %+v, want cancelled because the issue was closed", o)
	}
	if took < job.Grace || took > job.Grace+slack {
		t.Errorf("the end took %v, want at least the grace of %v and little more", took, job.Grace)
	}
}

func TestOwnExitEndsWhatIsLeft(t *testing.T) {
	t.Parallel() // waits for a grace, like some below
	word := token()
	job := newJob(t, "")
	dir := filepath.Dir(job.Dir)
	job.Command[2] = fmt.Sprintf(escape, word, dir+"/up") +
		`(setsid sh -c 'trap "echo >$T/told; exit" TERM; touch $T/polite; while :; do sleep 0.01; done' &)
		while [ ! -e $T/polite ]; do sleep 0.01; done
		echo '{"outcome":"done"}' >$DISINTO_RESULT`
	o := runJob(t, job)
	noneAlive(t, word, job.RunID)
	if o.Result != agents.Done || !o.Claimed {
		t.Errorf("outcome %+v, want done with a result", o)
	}
	if !exists(dir + "/told") {
		t.Error("the leftover process got no TERM before it was killed")
	}
}

// The program's exit counts if it comes before a cancel, even while its leftovers are being ended.
func TestOwnExitComesFirst(t *testing.T) {
	t.Parallel()
	job := newJob(t, `(setsid sh -c 'trap "" TERM; touch $T/up; while :; do sleep 0.01; done' &)
		while [ ! -e $T/up ]; do sleep 0.01; done; exit 5`)
	r := background(t, job)
	pid := (<-r.started).PID
	eventually(t, "the program has ended", func() bool { _, err := tree.Find(pid); return err != nil })
	o, _ := r.stop()
	if o.Result != agents.Failed || o.ExitCode != 5 {
		t.Errorf("outcome %+v, want the exit status 5", o)
	}
	noneAlive(t, job.RunID)
}

// On TERM an agent saves its work, with programs that it starts only then.
func TestGraceIsForSaving(t *testing.T) {
	t.Parallel()
	job := newJob(t, `trap 'sh -c "sleep 0.3; echo saved >$T/saved"; exit 0' TERM; touch $T/up; while :; do sleep 0.01;
		done`)
	job.Grace = time.Minute
	r := background(t, job)
	eventually(t, "the program runs", func() bool { return exists(r.file("up")) })
	o, took := r.stop()
	if got := read(r.file("saved")); got != "saved" {
		t.Error("the work was not saved: TERM must be sent once, to the processes that exist then")
	}
	if o.Result != agents.Cancelled || o.ExitCode != 0 {
		t.Errorf("outcome %+v, want cancelled with exit code 0", o)
	}
	if took > slack {
		t.Errorf("the end took %v; it must not wait for the grace when no process is left", took)
	}
}

// A stopped process cannot act on TERM before it is continued.
func TestStoppedProcessHearsTERM(t *testing.T) {
	job := newJob(t, `trap 'touch $T/heard; exit' TERM; touch $T/up; kill -STOP $$; while :; do sleep 0.01; done`)
	job.Grace = time.Minute
	r := background(t, job)
	pid := (<-r.started).PID
	eventually(t, "the program has stopped", func() bool { p, _ := tree.Find(pid); return p.State == 'T' })
	r.stop()
	if !exists(r.file("heard")) {
		t.Error("the stopped process did not get its TERM")
	}
}

func TestHurry(t *testing.T) {
	t.Parallel()
	job := newJob(t, `trap "" TERM; touch $T/up; while :; do sleep 0.1; done`)
	job.Grace = time.Hour
	r := background(t, job)
	eventually(t, "the program runs", func() bool { return exists(r.file("up")) })
	r.exec.SkipGrace()
	r.exec.SkipGrace()
	if o := r.exec.Run(t.Context(), newJob(t, "sleep 0.2"), nil); o.Result != agents.Done {
		t.Errorf("a session that is not being ended: %+v, want done", o)
	}
	o, _ := r.stop()
	noneAlive(t, job.RunID)
	if o.Result != agents.Cancelled || o.Signal != "SIGKILL" {
		t.Errorf("outcome %+v, want cancelled by SIGKILL", o)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	job := newJob(t, `echo '{"outcome":"failed","session_id":"s9","usage":{"output_tokens":5}}' >$DISINTO_RESULT;
		while :; do echo; sleep 0.01; done`)
	job.Timeout = 300 * time.Millisecond
	o := runJob(t, job)
	noneAlive(t, job.RunID)
	if o.Result != agents.TimedOut || o.Reason != "ended after its timeout of 300ms" || o.Claimed {
		t.Errorf("outcome %+v, want timed out without a result", o)
	}
	if o.SessionID != "s9" || o.Usage.OutputTokens != 5 {
		t.Errorf("the program's own result is lost: %+v", o)
	}
}

// computes takes a sixth of a processor, and a sixteenth of that still counts as activity.
const computes = "while :; do i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; sleep 0.3; done"

// A session is stalled when it neither prints nor computes. For a session that prints or computes, the backend is not
// asked.
func TestStall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script string
		want   agents.Result
	}{
		{"silent and idle", "sleep 1000", agents.Stalled},
		{"silent and idle after a word", "echo working; (setsid sleep 1000 &) ; sleep 1000", agents.Stalled},
		{"computes", computes, agents.TimedOut},
		{"something below it computes", "(setsid env -i PATH=/bin sh -c '" + computes + "' &); sleep 1000", agents.TimedOut},
		{"prints", "exec sleep 1000", agents.TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "computes" && os.Getenv("DISINTO_STORMS") == "" {
				t.Skip("make check plays it; make test plays the harder case, a descendant that computes")
			}
			t.Parallel()
			job := newJob(t, tt.script)
			job.Stall, job.Timeout = 700*time.Millisecond, 2*time.Second
			e := &Executor{Reaper: reaper}
			if tt.want == agents.Stalled {
				job.Timeout = time.Minute
			} else {
				job.BackendURL, e.Progress = "http://llama", func(context.Context, string) string {
					t.Error("the backend was asked")
					return ""
				}
			}
			if tt.want != agents.Stalled { // other load may keep the program, or us, from the processor for a second or two
				job.Stall, job.Timeout = 3*time.Second, 7*time.Second
			}
			if tt.name == "prints" {
				printFor(t, job.LogPath)
			}
			o := e.Run(t.Context(), job, nil)
			if o.Result != tt.want {
				t.Errorf("outcome %+v, want %s", o, tt.want)
			}
			noneAlive(t, job.RunID)
		})
	}
}

// printFor prints in place of the program, which would use the processor to print.
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

// A program that forks faster than processes can be listed is still ended.
func TestEndConvergesAgainstForks(t *testing.T) {
	tests := map[string][]string{
		"hops from process to process": helperCommand("hop"),
		"forks in a loop":              {"/bin/sh", "-c", `trap "" TERM; while :; do /bin/sleep 0.05 & done`},
		"restarts what is killed": {
			"/bin/sh", "-c", `trap "" TERM; w() { while :; do setsid sh -c "$1" "$1"; done; }; w 'trap "" TERM;
				sleep 5' & w 'trap "" TERM; sleep 5' & wait`,
		},
	}
	if storm(1, 0) == 0 {
		delete(tests, "forks in a loop")
	}
	for name, command := range tests {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, "")
			job.Command = append(command, token())
			job.Grace = 100 * time.Millisecond
			r := background(t, job)
			<-r.started
			time.Sleep(200 * time.Millisecond) // until the program forks at full speed; the result does not depend on it
			o, took := r.stop()
			noneAlive(t, job.RunID)
			if o.Result != agents.Cancelled && o.Result != agents.Done { // the hopping program itself ends at once
				t.Errorf("outcome %+v, want cancelled or done", o)
			}
			t.Logf("ended %v after the grace", took-job.Grace)
		})
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	e := &Executor{Reaper: reaper}
	var wg sync.WaitGroup
	for i := range storm(30, 8) {
		wg.Go(func() {
			job := newJob(t, fmt.Sprintf("(setsid sleep 1000 &); exit %d", i))
			if o := e.Run(t.Context(), job, nil); o.ExitCode != i {
				t.Errorf("session %d: %+v, want its number as exit code", i, o)
			}
			noneAlive(t, job.RunID)
		})
	}
	wg.Wait()
}
