//go:build linux

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A load and a journal are read only from regular files that are not too long, and nothing waits for a pipe.
func TestSimulateFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, err := range []error{
		os.WriteFile("factory.toml", []byte(simulated), 0o600),
		unix.Mkfifo("pipe", 0o600), os.WriteFile("zeros", nil, 0o600),
		os.Truncate("zeros", longestJournal+1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"--replay pipe":  "cannot read the journal: pipe: not a plain file",
		"--replay zeros": "cannot read the journal: zeros: longer than 536870912 bytes",
		"--replay .":     "cannot read the journal: .: not a plain file",
		"--load pipe":    "cannot read the load: pipe: not a plain file",
		"--load zeros":   "cannot read the load: zeros: longer than 1048576 bytes",
	} {
		var stdout, stderr strings.Builder
		c := &cli{stdout: &stdout, stderr: &stderr, now: time.Now}
		code := c.run(t.Context(), append([]string{"simulate", "--config", "factory.toml"}, strings.Fields(args)...))
		if code != 1 || stdout.String() != "" || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: got exit code %d, %s%s, want %s", args, code, &stdout, &stderr, want)
		}
	}
}

// TERM ends a simulation that takes long.
func TestSimulateEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("factory.toml", []byte(simulated), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	c := &cli{stdout: &stdout, stderr: &stderr, now: time.Now}
	if code := c.run(ctx, []string{"simulate", "--config", "factory.toml"}); code != 1 || stdout.Len() > 0 {
		t.Errorf("got exit code %d, %s%s", code, &stdout, &stderr)
	}
}
