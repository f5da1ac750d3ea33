package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// Several items are shown and asked about; without a terminal nothing is done but with --yes. What one item refuses
// does not keep the others.
func TestSteerMany(t *testing.T) {
	var posts []string
	state := serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"repos":[{"name":"o/r"}],"agents":[{"name":"dev-a"},{"name":"dev-b"}],`+
				`"sessions":[{"repo":"o/r","number":1,"title":"one","agent":"dev-a"}],`+
				`"queue":[{"repo":"o/r","number":2,"title":"two","code":"gave-up","why":"gave up","failed_by":"dev-b"}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		posts = append(posts, r.URL.Path+string(body))
		if strings.Contains(string(body), `"2"`) {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error":"cannot cancel 2"}`)
			return
		}
		fmt.Fprint(w, `{"subject":"o/r#1","did":["done"]}`)
	}))
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string
		posts          string
	}{
		{"cancel 1 2", exitUsage, "", "- 1: one: dev-a works on it\n- 2: two: gave up\n", ""},
		{
			"cancel 2 1 --yes", exitFailed, "2: refused: cannot cancel 2\no/r#1: done\n1 done, 1 refused\n", "",
			`/v1/cancel{"ref":"2"} /v1/cancel{"ref":"1"}`,
		},
		{"retry --agent dev-b", exitUsage, "", "would retry 1 item:\n- o/r#2: two: gave up\n", ""},
		{"retry --agent dev-b -y", exitDone, "o/r#1: done\n1 done, 0 refused\n", "", `/v1/retry{"ref":"o/r#2"}`},
		{"retry --agent dev-a -y", exitDone, "", "nothing to retry\n", ""},
		{"retry --agent dev-bb -y", exitFailed, "", "no agent is called dev-bb, did you mean dev-b?", ""},
		{"retry --repo o/x -y", exitFailed, "", "no repository is called o/x", ""},
		{"retry", exitUsage, "", "missing REF", ""},
		{"retry 1 --all", exitUsage, "", "not both", ""},
	} {
		posts = nil
		got := disinto(t.Context(), nil, append(strings.Fields(tt.args), "--state", state)...)
		if got.code != tt.code || got.stdout != tt.stdout || !strings.Contains(got.stderr, tt.stderr) ||
			strings.Join(posts, " ") != tt.posts {
			t.Errorf("%s: got exit code %d, stdout %q, stderr %q, posts %q", tt.args, got.code, got.stdout, got.stderr, posts)
		}
	}
}

// The real program drains, as PID 1 of a container if the test may make one: it ends by itself with status 0 once its
// session has ended, and starts nothing else.
func TestDrainThenStop(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	state := t.TempDir()
	path := f.file(state, append(f.justOne(), `"demo-agent"`, `"demo-agent", "--think", "1s"`)...)
	run := []string{executable(t), "run", "--yes", "--config", path}
	if os.Geteuid() == 0 {
		run = append([]string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}, run...)
	}
	r := start(t, f.environ(nil), run...)
	if d := status(t, state, "an agent works", working); os.Geteuid() == 0 && d.PID != 1 {
		t.Errorf("got pid %d, want 1", d.PID)
	}
	if got := disinto(t.Context(), nil, "drain", "--then-stop", "--state", state); got.code != exitUsage {
		t.Errorf("without a terminal: got exit code %d, stderr %q", got.code, got.stderr)
	}
	if got := disinto(t.Context(), nil, "drain", "--then-stop", "--yes", "--state", state); got.code != exitDone {
		t.Fatalf("got exit code %d, stderr %q", got.code, got.stderr)
	}
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if !strings.Contains(r.read(r.stderr), "drained: stopping") {
		t.Errorf("got the log\n%s", r.read(r.stderr))
	}
	if left := f.claimed(); len(left) > 0 {
		t.Errorf("got remaining claims on %v", left)
	}
}
