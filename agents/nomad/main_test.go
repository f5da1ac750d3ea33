package nomad

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/forge"
)

// TestMain also lets the test binary act as session-run, on a node of the fake or of a real Nomad.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "session-run" {
		syscall.Exit(sessionRun())
	}
	_ = flag.Set("test.parallel", "8") // parallel tests mostly wait
	os.Exit(m.Run())
}

// sessionRun is disinto session-run with a folder as the forge.
func sessionRun() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	reaper, err := process.NewReaper()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	executor := &process.Executor{Reaper: reaper}
	p := SessionRun{
		Environ: os.Environ(), Out: os.Stdout, Self: os.Args[0], Begin: begin, Run: executor.Run, Starved: process.Starved,
		Unheld: oldKernel,
	}
	return p.Do(ctx)
}

// oldKernel holds no egress.
func oldKernel(egress, _ bool) error {
	if egress {
		return errors.New("egress is advisory: the kernel is old")
	}
	return nil
}

// begin is a fence made of a file: only one place can create it. The test removes the file to release the claim.
func begin(_ context.Context, job agents.Job, place string) error {
	dir := agents.Getenv(job.Env, "T")
	if err := os.WriteFile(filepath.Join(dir, "task-dir"), []byte(os.Getenv("NOMAD_TASK_DIR")), 0o644); err != nil {
		return err
	}
	path := filepath.Join(dir, "fence-"+job.RunID)
	if job.Claim != "" { // the claim is the file, whose text must match the job's
		text, err := os.ReadFile(path)
		if err != nil || string(text) != job.Claim && string(text) != place {
			return fmt.Errorf("%w: its claim is %q", forge.ErrTaken, text)
		}
		return os.WriteFile(path, []byte(place), 0o644)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		text, _ := os.ReadFile(path)
		if strings.TrimSpace(string(text)) == place {
			return nil
		}
		return fmt.Errorf("%w: it began at %s", forge.ErrTaken, text)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(place)
	return errors.Join(err, f.Close())
}
