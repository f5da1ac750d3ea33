package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// TestPID1 runs this test binary as the init of its own PID namespace.
func TestPID1(t *testing.T) {
	needRoot(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = reaper.Run(t.Context(), Cmd{
		Argv: []string{
			"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", self, "test-helper", "pid1",
			t.TempDir(),
		},
		Stdout: &out, Stderr: &out,
	})
	if err != nil && strings.Contains(out.String(), "unshare failed") {
		t.Skip("may not make a PID namespace here: " + out.String())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

// asPID1 is the part of TestPID1 that runs as PID 1.
func asPID1(args []string) int {
	complain := func(format string, a ...any) int {
		fmt.Printf(format+"\n", a...)
		return 1
	}
	if os.Getpid() != 1 {
		return complain("not PID 1 but %d", os.Getpid())
	}
	// A signal in the first millisecond, long before Init, would end a program without a handler.
	if err := syscall.Kill(1, syscall.SIGHUP); err != nil {
		return complain("%v", err)
	}
	sigs, err := Init()
	if err != nil {
		return complain("%v", err)
	}
	r, err := NewReaper()
	if err != nil {
		return complain("%v", err)
	}
	cgroupRoot = func() string { return "" }
	e := &Executor{Reaper: r}
	dir := args[0]
	o := e.Run(context.Background(), agents.Job{
		RunID: "i-1", Dir: dir, LogPath: filepath.Join(dir, "log"), Env: []string{"PATH=/usr/bin:/bin", "DISINTO_RUN_ID=i-1"},
		Command: []string{"sh", "-c", `
			for i in 1 2 3 4 5 6 7 8 9 10; do (true &); done
			(setsid env -i /bin/sh -c 'trap "" TERM; /bin/sleep 1000' &)
			kill -TERM 1; exit 7`},
	}, nil)
	if o.ExitCode != 7 {
		return complain("outcome %+v", o)
	}
	for _, want := range []os.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if s := <-sigs; s != want {
			return complain("signal %v, want %v", s, want)
		}
	}
	const script = "for i in 1 2 3 4 5 6 7 8 9 10; do (true &); done; exit 0"
	if err := r.Run(context.Background(), Cmd{Argv: []string{"sh", "-c", script}}); err != nil {
		return complain("%v", err)
	}
	for { // until the command's orphans are reaped
		procs, _ := filepath.Glob("/proc/[0-9]*")
		if len(procs) == 1 {
			return 0
		}
	}
}
