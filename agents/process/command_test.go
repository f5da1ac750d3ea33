package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

func TestRunCommand(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	err := reaper.Run(t.Context(), Cmd{
		Argv: []string{"sh", "-c", "cat; echo $A$HOME; pwd; echo oops >&2"},
		Dir:  dir, Env: []string{"PATH=/usr/bin:/bin", "A=x"},
		Stdin: strings.NewReader("from stdin\n"), Stdout: &out, Stderr: &errs,
	})
	if err != nil || out.String() != "from stdin\nx\n"+dir+"\n" || errs.String() != "oops\n" {
		t.Errorf("error %v, stdout %q, stderr %q", err, &out, &errs)
	}
}

func TestRunCommandKeepsOrderInOneWriter(t *testing.T) {
	var both bytes.Buffer
	err := reaper.Run(t.Context(), Cmd{
		Argv:   []string{"sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done"},
		Stdout: &both, Stderr: &both,
	})
	if want := "o1\ne1\no2\ne2\no3\ne3\n"; err != nil || both.String() != want {
		t.Errorf("%v: %q, want %q", err, both.String(), want)
	}
}

func TestRunCommandReadsAll(t *testing.T) {
	var out bytes.Buffer
	in := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	err := reaper.Run(t.Context(), Cmd{Argv: []string{"cat"}, Stdin: bytes.NewReader(in), Stdout: &out})
	if err != nil || !bytes.Equal(in, out.Bytes()) {
		t.Errorf("%v: got %d bytes, want %d equal ones", err, out.Len(), len(in))
	}
}

// slowWriter needs longer for its first write than finish waits for output.
type slowWriter struct {
	got  bytes.Buffer
	slow sync.Once
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.slow.Do(func() { time.Sleep(2 * drain) })
	return w.got.Write(p)
}

// Run reads all output of a command even if the copy falls behind while a leftover process holds the pipe open.
func TestRunCommandReadsRest(t *testing.T) {
	var out slowWriter
	in := bytes.Repeat([]byte("0123456789abcdef"), 3<<10) // 48 KiB: less than a pipe, more than a read of io.Copy
	begun := time.Now()
	err := reaper.Run(t.Context(), Cmd{
		Argv: []string{"sh", "-c", "sleep 30 & cat"}, Stdin: bytes.NewReader(in), Stdout: &out,
	})
	if err != nil || !bytes.Equal(in, out.got.Bytes()) {
		t.Errorf("%v: got %d bytes, want %d equal ones", err, out.got.Len(), len(in))
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("Run took %s, want at most 20 s", took)
	}
}

func TestRunCommandWithFiles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := reaper.Run(t.Context(), Cmd{Argv: []string{"echo", "hi"}, Stdout: f}); err != nil || read(f.Name()) != "hi" {
		t.Errorf("%v: the file has %q, want hi", err, read(f.Name()))
	}
	if _, err := f.WriteString("still open"); err != nil {
		t.Errorf("the caller's file was closed: %v", err)
	}
}

func TestRunCommandErrors(t *testing.T) {
	tests := []struct {
		name string
		cmd  Cmd
		want string
	}{
		{"status", Cmd{Argv: []string{"sh", "-c", "exit 3"}}, "sh: exit status 3"},
		{"signal", Cmd{Argv: []string{"sh", "-c", "kill -TERM $$"}}, "sh: killed by SIGTERM"},
		{"missing", Cmd{Argv: []string{"no-such-program"}}, "cannot run no-such-program: no such program in PATH"},
		{
			"PATH is that of the command",
			Cmd{Argv: []string{"sh"}, Env: []string{"PATH=/nonexistent"}},
			"cannot run sh: no such program in PATH",
		},
		{"nothing", Cmd{}, "cannot run a command without a program"},
		{"folder", Cmd{Argv: []string{"true"}, Dir: "/nonexistent"}, "cannot run true: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := reaper.Run(t.Context(), tt.cmd)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
	var exit *ExitError
	err := reaper.Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "exit 128"}})
	if !errors.As(err, &exit) || exit.Status.ExitStatus() != 128 || exit.Name != "sh" {
		t.Errorf("error %#v, want sh with exit status 128", err)
	}
}

// A leftover process keeps a command's output open. Another supervisor waited 4.6 s for such a process.
func TestRunCommandIsNotHeldUp(t *testing.T) {
	tests := map[string]string{
		"silent": "while :; do sleep 0.1; done",
		"chatty": "while :; do echo chatter || exit; sleep 0.01; done", // it ends when the pipe does
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			word := token()
			var out bytes.Buffer
			err := reaper.Run(t.Context(), Cmd{
				Argv:   []string{"sh", "-c", `(setsid sh -c "$0" $1 &); echo done; exit 0`, script, word},
				Stdout: &out, Stderr: &out,
			})
			if err != nil || !strings.Contains(out.String(), "done\n") {
				t.Errorf("%v: output %q, want done in it", err, out.String())
			}
			if name == "silent" && len(alive(t, word)) == 0 {
				t.Error("Run ended a process that a short command left behind on purpose")
			}
			for _, pid := range alive(t, word) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

// Input that never comes does not delay the end either.
func TestRunCommandDoesNotWaitForInput(t *testing.T) {
	in, w := io.Pipe()
	defer w.Close()
	if err := reaper.Run(t.Context(), Cmd{Argv: []string{"true"}, Stdin: in}); err != nil {
		t.Error(err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRunCommandWithBrokenWriter(t *testing.T) {
	const script = "while echo x; do :; done; exit 0"
	err := reaper.Run(t.Context(), Cmd{Argv: []string{"sh", "-c", script}, Stdout: brokenWriter{}})
	var exit *ExitError
	if !errors.As(err, &exit) && (err == nil || err.Error() != "disk full") {
		t.Errorf("error %v, want an exit error or disk full", err)
	}
	err = reaper.Run(t.Context(), Cmd{Argv: []string{"echo", "x"}, Stdout: brokenWriter{}})
	if err == nil || err.Error() != "disk full" {
		t.Errorf("error %v, want disk full", err)
	}
}

func TestRunCommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, trap, wantNote string }{
		{"asked", `trap "echo bye >$1; exit 1" TERM`, "bye"},
		{"killed", `trap "" TERM`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // the second one waits for its grace
			word, note := token(), filepath.Join(t.TempDir(), "note")
			ctx, cancel := context.WithCancelCause(t.Context())
			r, w := io.Pipe()
			go func() {
				_, _ = r.Read(make([]byte, 1))
				cancel(errors.New("too slow"))
				_, _ = io.Copy(io.Discard, r)
			}()
			err := reaper.Run(ctx, Cmd{
				// A child stays in the group and ignores TERM.
				Argv: []string{"sh", "-c", `(trap "" TERM; while :; do sleep 0.1; done) &
					` + tt.trap + `; echo up; while :; do sleep 0.01; done`, word, note},
				Stdout: w,
			})
			if err == nil || err.Error() != "cannot finish sh: too slow" {
				t.Errorf("error %v, want cannot finish sh: too slow", err)
			}
			eventually(t, "no process of its group is left", func() bool { return len(alive(t, word)) == 0 })
			if read(note) != tt.wantNote {
				t.Errorf("note %q, want %q", read(note), tt.wantNote)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-ctx.Done()
	if err := reaper.Run(ctx, Cmd{Argv: []string{"true"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want an exceeded deadline", err)
	}
}

// Some programs trust PWD more than the kernel; opencode committed into the directory that our own PWD named.
func TestRunSaysWhereItRuns(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	err := reaper.Run(t.Context(), Cmd{
		Argv: []string{"env"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "PWD=/elsewhere", "OLDPWD=/before"},
		Stdout: &out,
	})
	if err != nil || out.String() != "PATH=/usr/bin:/bin\nPWD="+dir+"\n" {
		t.Errorf("%v, environment %q, want PWD to be the command's directory", err, out.String())
	}
}

// panicking is a reader and a writer that panics.
type panicking struct{}

func (panicking) Read([]byte) (int, error)  { panic("a mistake") }
func (panicking) Write([]byte) (int, error) { panic("a mistake") }

func TestRunCommandOutlivesPanics(t *testing.T) {
	t.Parallel()
	err := reaper.Run(t.Context(), Cmd{
		Argv: []string{"sh", "-c", "cat; echo up"}, Stdin: panicking{},
		Stdout: panicking{},
	})
	if len(forge.Panics(err)) != 1 {
		t.Errorf("error %v, want the writer's panic", err)
	}
}
