package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/process/tree"
	"codeberg.org/johba/disinto/supervisor/control"
)

// running is a disinto that runs as a separate process.
type running struct {
	t              *testing.T
	pid            int
	child          *process.Child
	stdout, stderr string // paths of files
	code           int    // set after the end
	ended          bool
}

// start starts a program with this process's environment and environ.
func start(t *testing.T, environ []string, argv ...string) *running {
	t.Helper()
	return startWith(t, nil, nil, environ, argv...)
}

// startWith starts a program with an input and an output. Without them it has no input, and its output goes to a
// file.
func startWith(t *testing.T, stdin, stdout *os.File, environ []string, argv ...string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{t: t, stdout: filepath.Join(dir, "stdout"), stderr: filepath.Join(dir, "stderr")}
	path, err := process.Lookup(argv[0], "", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	files := []*os.File{
		open(t, os.DevNull, os.O_RDONLY), open(t, r.stdout, os.O_CREATE|os.O_WRONLY),
		open(t, r.stderr, os.O_CREATE|os.O_WRONLY),
	}
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
		defer f.Close()
	}
	if stdin != nil {
		fds[0], fds[1] = stdin.Fd(), stdout.Fd()
	}
	// A program with the race detector sleeps for a second before it ends, and a factory starts many programs.
	environ = append([]string{"GORACE=atexit_sleep_ms=0"}, environ...)
	r.child, err = oneReaper(t).Start(path, argv, &syscall.ProcAttr{Env: withEnv(os.Environ(), environ), Files: fds})
	if err != nil {
		t.Fatal(err)
	}
	r.pid = r.child.PID
	t.Cleanup(func() {
		if !r.ended {
			r.killAll()
		}
		if t.Failed() {
			t.Logf("%s\nstderr: %s", strings.Join(argv, " "), r.read(r.stderr))
		}
	})
	return r
}

func open(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// startDisinto starts this test binary as disinto.
func startDisinto(t *testing.T, environ []string, args ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, environ, append([]string{self}, args...)...)
}

func (r *running) signal(s syscall.Signal) { _ = syscall.Kill(r.pid, s) }

// wait returns the exit code. It is 128 plus the signal if a signal ended the program.
func (r *running) wait() int {
	r.t.Helper()
	if r.ended {
		return r.code
	}
	select {
	case e := <-r.child.Exit():
		r.ended, r.code = true, e.Status.ExitStatus()
		if e.Status.Signaled() {
			r.code = 128 + int(e.Status.Signal())
		}
	case <-time.After(3 * time.Minute):
		r.t.Fatal("the program does not end")
	}
	return r.code
}

func (r *running) read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// killAll kills the program, and waits until what it started has ended too: a shim goes on for a moment, and writes
// logs into folders that the test removes.
func (r *running) killAll() {
	r.t.Helper()
	r.signal(syscall.SIGSTOP) // it starts nothing more
	below, err := tree.Of(r.pid)
	if err != nil {
		r.t.Error(err)
	}
	r.signal(syscall.SIGKILL)
	r.wait()
	eventually(r.t, "what the program started has ended", func() bool {
		return !slices.ContainsFunc(below, func(p tree.Process) bool {
			now, err := tree.Find(p.PID)
			return err == nil && now.ID() == p.ID() && !now.Dead()
		})
	})
}

// status polls a supervisor's document until ok accepts it. There is no event to wait for instead.
func status(t *testing.T, state, what string, ok func(*control.Document) bool) *control.Document {
	t.Helper()
	var d control.Document
	eventually(t, what, func() bool {
		d = control.Document{}
		got := disinto(t.Context(), nil, "status", "--json", "--state", state)
		return got.code == exitDone && json.Unmarshal([]byte(got.stdout), &d) == nil && ok(&d)
	})
	return &d
}

// eventually polls, at growing intervals, because the condition costs processor time too. The deadline suits a busy
// machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	wait := 20 * time.Millisecond
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(wait) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout after a minute: %s", what)
		}
		wait = min(wait*3/2, 200*time.Millisecond)
	}
}

// mentions returns the other living processes with word in their arguments or environment.
func mentions(t *testing.T, word string) (commands []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		args, _ := os.ReadFile(d + "/cmdline")
		env, _ := os.ReadFile(d + "/environ")
		if filepath.Base(d) != itoa(os.Getpid()) &&
			(bytes.Contains(args, []byte(word)) || bytes.Contains(env, []byte(word))) {
			commands = append(commands, string(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
		}
	}
	return commands
}
