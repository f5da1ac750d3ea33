package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// spends is a program that reports 100 tokens, and 400 once there is a file named more. Then it keeps running.
const spends = `tell() { printf '{"usage":{"input_tokens":%d}}' $1 >"$DISINTO_RESULT.new"; mv "$DISINTO_RESULT.new" "$DISINTO_RESULT"; }
	cd "$DISINTO_WORKSPACE"; echo $DISINTO_ATTEMPT >>attempts; tell 100
	until [ -e more ]; do sleep 0.1; done
	tell 400; sleep 1000`

// The real supervisor ends a program when it reaches its role's limit. Before that it shows the program's usage, also
// after an upgrade in place. A comment reports the figures to a person, and retry allows the same amount again.
func TestSpendingAgent(t *testing.T) {
	leftToStorms(t, "the limits of supervisor/simtest")
	t.Parallel()
	f := newTestForge(t)
	state := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	was := fmt.Sprintf("[roles.dev]\non = \"issue\"\ncommand = [%q, \"demo-agent\"]", self)
	is := "[roles.dev]\non = \"issue\"\nlabel = \"picked\"\nmax_tokens = 350\ncommand = [\"/bin/sh\", \"-c\", '''" +
		spends + "''']"
	f.pick(8)
	r := startDisinto(t, f.environ(nil), "run", "--yes", "--config", f.file(state, was, is))
	status(t, state, "the session's usage is shown", func(d *control.Document) bool {
		return slices.ContainsFunc(d.Sessions, func(s control.SessionDocument) bool { return s.Usage.InputTokens == 100 })
	})
	if got := disinto(t.Context(), nil, "upgrade", "--state", state); got.code != exitDone {
		t.Fatalf("upgrade: got %+v", got)
	}
	workspaces, err := filepath.Glob(filepath.Join(state, "work", "*", "*_8"))
	if err != nil || len(workspaces) != 1 {
		t.Fatalf("got workspaces %q, %v", workspaces, err)
	}
	if err := os.WriteFile(filepath.Join(workspaces[0], "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	over := func(s control.RecentDocument) bool { return s.Outcome == agents.OverBudget }
	d := status(t, state, "the session is ended", func(d *control.Document) bool {
		return slices.ContainsFunc(d.Recent, over)
	})
	const said = "the session has used 400 of 350 tokens (max_tokens per session of role dev)"
	if got := d.Recent[slices.IndexFunc(d.Recent, over)].Reason; got != said {
		t.Errorf("got reason %q", got)
	}
	var comments []struct{ Body string }
	eventually(t, "a comment names the figures", func() bool {
		f.get("/issues/8/comments", &comments)
		return len(comments) > 0 && strings.Contains(comments[len(comments)-1].Body, said)
	})
	status(t, state, "a person is needed", func(d *control.Document) bool {
		return slices.ContainsFunc(d.Queue, func(q control.QueueDocument) bool { return q.Number == 8 && q.NeedsPerson })
	})
	if got := disinto(t.Context(), nil, "retry", "8", "--state", state); got.code != exitDone {
		t.Errorf("retry: got %+v", got)
	}
	eventually(t, "a second session, and no attempt was burnt", func() bool {
		var all strings.Builder
		files, _ := filepath.Glob(filepath.Join(state, "work", "*", "*_8", "attempts"))
		for _, path := range files {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
		return all.String() == "1\n1\n"
	})
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
}
