// Package executortest tests any implementation of supervisor.Executor. Exercise checks the interface's promises with
// shell scripts as programs. The sessions must run on this machine, where Exercise can find leftover processes.
package executortest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Executor has the methods of supervisor.Executor, which documents them. This package cannot import the supervisor; a
// test in that package checks that the two interfaces are the same.
type Executor interface {
	Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	Activity(runID string) (a agents.Activity, ok bool)
	Unreported(ctx context.Context, instance string) (runs []string, err error)
}

// Subject is a kind of executor.
type Subject struct {
	// New returns an executor that removes secrets from its outcomes. Each further executor stands for the next
	// supervisor's, on the same engine.
	New func(t *testing.T, secrets ...string) Executor
	// Prepare adds folders and files to a job: Dir, Home, LogPath and ResultPath, with DISINTO_RESULT in Env.
	Prepare func(t *testing.T, job agents.Job) agents.Job
	// Keeps says that sessions outlive the supervisor.
	Keeps bool
	// Relays says that sessions run in the executor of agents/process on another machine. The promises that concern
	// only processes are then tested only with DISINTO_STORMS, which make check sets: the test of agents/process tests
	// them too.
	Relays bool
}

// Exercise runs every rule as a subtest.
func Exercise(t *testing.T, s Subject) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if r.keeps && !s.Keeps {
				t.Skip("sessions of this executor end with the supervisor")
			}
			if r.there && s.Relays && os.Getenv("DISINTO_STORMS") == "" {
				t.Skip("the test of agents/process tests this")
			}
			r.holds(&bench{T: t, subject: s, dir: shared(t), exec: s.New(t)})
		})
	}
}

// rule is one promise.
type rule struct {
	name  string
	keeps bool // only for executors whose sessions outlive the supervisor
	there bool // concerns only processes on the machine where the session runs
	holds func(*bench)
}

// rules lists all promises, the simple ones first.
var rules = []rule{
	{"the exit status says how a session ended", false, false, exits},
	{"a result overrides the exit status", false, false, results},
	{"a missing program is not started", false, false, missing},
	{"a program gets its environment and its secrets", false, false, environment},
	{"the start is reported, and the activity while it runs", false, false, activity},
	{"the log holds the output, the tail its end without secrets", false, false, logs},
	{"a cancelled session gets TERM", false, false, cancelled},
	{"a session that ignores TERM is killed after the grace period", false, true, ignorer},
	{"processes that a program leaves behind are ended", false, true, daemons},
	{"a session ends after its timeout, and when it stalls", false, true, limits},
	{"usage is reported while a session runs", false, false, usage},
	{"a run starts once", false, false, once},
	{"a session cancelled before its start does not run", false, false, early},
	{"an unknown run is lost", false, false, unknown},
	{"no session is kept if none was left", false, false, noneUnreported},
	{"a session is left running, kept and resumed", true, false, unreported},
	{"a session is left running, and resumed by the same supervisor", true, false, leftAndResumed},
	{"a kept session can be ended", true, false, unreportedCancelled},
	{"the outcome of a session that ends without a supervisor", true, false, unreportedEnd},
	{"an outcome is reported again until it is forgotten", true, false, forgotten},
}

// bench holds an executor, and a folder to which programs write.
type bench struct {
	*testing.T
	subject Subject
	dir     string // $T of the programs
	exec    Executor
}

// shared returns a folder that programs of any account can use.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// job returns a session of a shell script, in which $T is a folder of the test.
func (b *bench) job(script string) agents.Job {
	b.Helper()
	instance := fmt.Sprintf("i%d%d", os.Getpid(), time.Now().UnixNano())
	id := instance + "-1"
	return b.subject.Prepare(b.T, agents.Job{
		RunID: id, Instance: instance, Agent: "dev-test", Role: "dev", Thread: "test", Kind: agents.KindIssue,
		Repo: "o/r", Number: 1, Issue: 1, Command: []string{"/bin/sh", "-c", script},
		Workspace: "dev-test/o_r_1", HomeKey: "dev-test",
		Env:    []string{"PATH=/usr/bin:/bin", "DISINTO_RUN_ID=" + id, "T=" + b.dir},
		MaxLog: 64 << 20, Timeout: time.Hour, Stall: time.Hour, Grace: 5 * time.Second,
	})
}

// run runs a job to its end.
func (b *bench) run(job agents.Job) agents.Outcome {
	b.Helper()
	return b.exec.Run(b.Context(), job, nil)
}

// session is a run in progress.
type session struct {
	begun chan agents.Started
	out   chan agents.Outcome
	end   context.CancelCauseFunc
}

// begin starts a job and waits until its program runs.
func (b *bench) begin(job agents.Job) (*session, agents.Started) {
	b.Helper()
	x := b.runInBackground(b.exec, job)
	select {
	case s := <-x.begun:
		return x, s
	case o := <-x.out:
		b.Fatalf("the program did not start: %+v", o)
	}
	return nil, agents.Started{}
}

// runInBackground runs a job on an executor, in a goroutine.
func (b *bench) runInBackground(e Executor, job agents.Job) *session {
	b.Helper()
	ctx, end := context.WithCancelCause(b.Context())
	x := &session{begun: make(chan agents.Started, 8), out: make(chan agents.Outcome, 1), end: end}
	go func() { x.out <- e.Run(ctx, job, func(s agents.Started) { x.begun <- s }) }()
	return x
}

// path returns the path of a file in the test's folder.
func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// read returns the text of a file in the test's folder; empty if it does not exist.
func (b *bench) read(name string) string {
	text, _ := os.ReadFile(b.path(name))
	return strings.TrimSpace(string(text))
}

// touch creates an empty file in the test's folder.
func (b *bench) touch(name string) {
	b.Helper()
	if err := os.WriteFile(b.path(name), nil, 0o644); err != nil {
		b.Fatal(err)
	}
}

// eventually polls, because programs and engines have no channel to wait on. The deadline suits a machine that runs ten
// other jobs.
func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("not true after two minutes: %s", what)
		}
	}
}

// wantEnded checks that the processes listed in a file have ended.
func (b *bench) wantEnded(name string) {
	b.Helper()
	pids := strings.Fields(b.read(name))
	if len(pids) == 0 {
		b.Errorf("no process wrote its pid to %s", name)
	}
	for _, word := range pids {
		if pid, err := strconv.Atoi(word); err != nil || syscall.Kill(pid, 0) == nil {
			b.Errorf("process %s still runs (%v)", word, err)
		}
	}
}

// log returns the output of a run.
func (b *bench) log(job agents.Job) string {
	b.Helper()
	l, far := b.exec.(interface {
		Log(ctx context.Context, runID string, follow bool, w io.Writer) error
	})
	if !far {
		text, _ := os.ReadFile(job.LogPath)
		return string(text)
	}
	var text strings.Builder
	if err := l.Log(b.Context(), job.RunID, false, &text); err != nil {
		b.Error(err)
	}
	return text.String()
}

// exists reports whether the test's folder contains a file.
func (b *bench) exists(name string) bool {
	_, err := os.Lstat(b.path(name))
	return err == nil
}
