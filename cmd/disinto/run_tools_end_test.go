package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session/fakemodel"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
)

// When disinto cancel answers, no process remains that a real CLI's shell tool started: one in the tool's own
// session, a daemon that lost its parents, one that also lost its environment, and one that ignores TERM.
func TestRealToolsEnd(t *testing.T) {
	bin := os.Getenv("DISINTO_CLIS")
	if bin == "" {
		t.Skip("$DISINTO_CLIS names no folder with the real CLIs: make agents-e2e installs them")
	}
	for i, cli := range agents.CLINames() {
		t.Run(cli, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(bin, cli)); err != nil {
				t.Skipf("found no %s in %s", cli, bin)
			}
			t.Parallel() // they mostly wait
			toolsEnd(t, bin, cli, fmt.Sprintf("7%d%07d", i, os.Getpid()))
		})
	}
}

func toolsEnd(t *testing.T, bin, cli, word string) {
	f := newTestForge(t)
	f.pick(8)
	script := strings.ReplaceAll(`(setsid nohup sleep W1 >/dev/null 2>&1 &)
(env -i setsid sleep W2 >/dev/null 2>&1 &)
(setsid sh -c "trap '' TERM; sleep W3; sleep W3" >/dev/null 2>&1 &)
sleep W4`, "W", word)
	model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: func(a fakemodel.Prompt) fakemodel.Turn {
		if !a.Tools {
			return fakemodel.Turn{Text: "A title"}
		}
		return fakemodel.Turn{Shell: script}
	}})
	defer model.Close()
	state := t.TempDir()
	path := factoryFile(t, fmt.Sprintf(cliFactory, f.URL, demo.Repo, model.URL, model.URL, cli, cli))
	environ := withEnv(f.environ(nil), []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "IS_SANDBOX=1", "OPENAI_API_KEY=none", "ANTHROPIC_API_KEY=none",
		"PWD=" + t.TempDir(),
	})
	r := startDisinto(t, environ, "run", "--yes", "--config", path, "--state", state)
	eventually(t, "the tool and what it left run", func() bool {
		for _, n := range []string{"1", "2", "3", "4"} {
			if len(mentions(t, "sleep\x00"+word+n)) == 0 {
				return false
			}
		}
		return true
	})
	run := status(t, state, "the session runs",
		func(d *control.Document) bool { return len(d.Sessions) == 1 }).Sessions[0].RunID
	begun := time.Now()
	if got := disinto(t.Context(), nil, "cancel", "--state", state, "8"); got.code != exitDone {
		t.Errorf("cancel: got %+v", got)
	}
	took := time.Since(begun)
	if left := append(mentions(t, word), mentions(t, run)...); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	t.Logf("%s: all gone in %s", cli, took.Round(time.Millisecond))
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
}
