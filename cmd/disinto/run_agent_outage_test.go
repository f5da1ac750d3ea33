package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// outage makes requests of the bench fail whose path contains some text, while a file exists, which an agent may make.
// most ends it after so many failures; 0 never does.
func (b *bench) outage(fault faults.Fault, path string, most int64) (down string) {
	down = filepath.Join(b.dir, "down")
	var n atomic.Int64
	server := httptest.NewServer(faults.Handler(b.forge, func(q *http.Request) faults.Fault {
		if _, err := os.Stat(down); err != nil || !strings.Contains(q.URL.RequestURI(), path) {
			return faults.None
		}
		if n.Add(1) == most {
			_ = os.Remove(down)
			n.Store(0)
		}
		return fault
	}))
	b.t.Cleanup(server.Close)
	b.URL = server.URL
	return down
}

// A forge that is restarted while an agent works costs nothing: the session waits for it, and hands its work in. It
// said "failed (attempt 1 of 5): git push: Failed to connect", and the issue rested.
func TestAgentOutlivesOutage(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faults.Fault{"500": faults.Fail, "no answer": faults.Drop} {
		b := newBench(t)
		down := b.outage(fault, "", 2)
		b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, "touch "+down+"\n"+writeOrder)
		b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, "touch "+down+"\n"+approve)
		if n := strings.Count(b.log.String(), "the forge does not answer; next try in 1s"); n != 2 {
			t.Errorf("%s: waited %d times\n%s", name, n, b.log.String())
		}
	}
}

// A session that gives up before the forge is back is interrupted, without an attempt, whether it lacks the push or the
// pull request. The next one hands its work in without the model.
func TestAgentEndsInOutage(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"git-receive-pack", "/pulls"} {
		b := newBench(t)
		down := b.outage(faults.Fail, path, 0)
		b.program = func(p *session.Program) { // ten minutes pass at once
			var calls atomic.Int64
			p.Now = func() time.Time { return time.Now().Add(time.Duration(calls.Add(1)) * 10 * time.Minute) }
		}
		b.want(agents.BackendDown, "waited 10m0s for the forge: ", "dev-qwen", agents.KindIssue, 8,
			`echo '{"title":"Check orders","summary":"It checks."}' > "$DISINTO_WORKSPACE/answer.json"; touch `+down+"\n"+
				writeOrder)
		if err := os.Remove(down); err != nil {
			t.Fatal(err)
		}
		b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `exit 9`) // the CLI is not started
		var pull struct{ Title string }
		if b.get("/pulls/12", &pull); pull.Title != "Check orders (created by dev-qwen)" {
			t.Errorf("%s: got %+v", path, pull)
		}
	}
}
