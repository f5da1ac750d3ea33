package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// gate is a proxy between a factory and its forge. It kills the supervisor at one request: before the forge gets it,
// or after the forge has handled it and before the answer arrives.
type gate struct {
	forge http.Handler
	token string // the supervisor's
	who   string // whose requests count: supervisor or agent
	how   string // which requests count: all or write
	at    int    // the request to kill at, from 1
	after bool

	mu     sync.Mutex // guards the fields below
	count  int
	kill   func()
	killed chan struct{}
	seen   []string
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.hit(r) {
		g.forge.ServeHTTP(w, r)
		return
	}
	if g.after {
		g.forge.ServeHTTP(httptest.NewRecorder(), r)
	}
	g.mu.Lock()
	kill := g.kill
	g.mu.Unlock()
	kill()
	close(g.killed)
	panic(http.ErrAbortHandler)
}

func (g *gate) hit(r *http.Request) bool {
	auth := r.Header.Get("Authorization")
	if encoded, basic := strings.CutPrefix(auth, "Basic "); basic {
		text, _ := base64.StdEncoding.DecodeString(encoded)
		auth = string(text)
	}
	who := "agent"
	if strings.Contains(auth, g.token) {
		who = "supervisor"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kill == nil || who != g.who || g.how == "write" && !isWrite(r) {
		return false
	}
	g.count++
	g.seen = append(g.seen, r.Method+" "+r.URL.Path)
	return g.count == g.at
}

// isWrite reports whether a request changes an issue or a pull request, or pushes. The creation of the repository's
// labels at the start does not count.
func isWrite(r *http.Request) bool {
	about := strings.Contains(r.URL.Path, "/issues/") || strings.HasSuffix(r.URL.Path, "/issues") ||
		strings.Contains(r.URL.Path, "/pulls") ||
		strings.HasSuffix(r.URL.Path, "git-receive-pack")
	return r.Method != http.MethodGet && about
}

// arm starts the counting. kill is called at the request.
func (g *gate) arm(kill func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill = kill
}

// The real program is killed while it takes one issue to its merge: between two writes of a claim or a release, while
// its agents run, after they push and after they end. With DISINTO_SOAK, as in make soak, it is killed before and
// after every write. The next supervisor ends leftover agents. The issue is implemented once, sent back once,
// reworked once, approved and merged, and no attempt is burnt.
func TestKilledAtRequest(t *testing.T) {
	if os.Getenv("DISINTO_SOAK") == "" {
		leftToStorms(t, "TestF1_KilledAnywhere of supervisor/simtest")
	}
	type step struct {
		who, how string
		at       int
		after    bool
	}
	steps := []step{
		{"supervisor", "write", 1, false}, // journalled, not claimed
		{"supervisor", "write", 4, true},  // claimed, not started
		{"agent", "write", 2, true},       // running, with its pull request open
		{"supervisor", "write", 5, true},  // ended, its claim half released
	}
	if os.Getenv("DISINTO_SOAK") != "" {
		steps = []step{{"supervisor", "any", 1, false}, {"supervisor", "any", 12, false}, {"supervisor", "any", 20, true}}
		for at := 1; at <= 26; at++ {
			steps = append(steps, step{"supervisor", "write", at, false}, step{"supervisor", "write", at, true})
		}
		for at := 1; at <= 5; at++ {
			steps = append(steps, step{"agent", "write", at, false}, step{"agent", "write", at, true})
		}
	}
	for _, s := range steps {
		t.Run(fmt.Sprintf("%s/%s/%d/after=%v", s.who, s.how, s.at, s.after), func(t *testing.T) {
			t.Parallel() // they wait
			killedAtRequest(t, &gate{who: s.who, how: s.how, at: s.at, after: s.after})
		})
	}
}

func killedAtRequest(t *testing.T, g *gate) {
	f := newTestForge(t)
	edits := f.justOne()
	g.forge, g.token, g.killed = f.forge, f.Tokens["FORGE_TOKEN"], make(chan struct{})
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	state := t.TempDir()
	path := f.file(state, append(edits, f.URL, server.URL)...)
	r := startDisinto(t, f.environ(nil), "run", "--yes", "--config", path)
	g.arm(func() { r.signal(syscall.SIGKILL) })
	eventually(t, "the supervisor is killed", func() bool {
		select {
		case <-g.killed:
			return true
		default:
			return false
		}
	})
	r.wait()
	g.arm(nil)
	r = startDisinto(t, f.environ(nil), "run", "--yes", "--config", path)
	status(t, state, "no claim stands without a session", func(d *control.Document) bool {
		return d.Forge.OK && !slices.ContainsFunc(f.claimed(), func(n int) bool {
			return !slices.ContainsFunc(d.Sessions, func(s control.SessionDocument) bool { return s.Number == int64(n) })
		})
	})
	var issue struct{ State string }
	eventually(t, "the issue is closed", func() bool {
		f.get("/issues/8", &issue)
		return issue.State == "closed"
	})
	d := status(t, state, "no agent works", func(d *control.Document) bool {
		return len(d.Sessions) == 0 && len(f.claimed()) == 0
	})
	for _, e := range d.Recent {
		if e.Outcome.BurnsAttempt() || e.Outcome == agents.ClaimFailed {
			t.Errorf("%s of #%d by %s: %s %s", e.Kind, e.Number, e.Agent, e.Outcome, e.Reason)
		}
	}
	var pulls []struct {
		Number int
		Merged bool
	}
	f.get("/pulls?state=all", &pulls)
	t.Logf("killed after %q", g.seen)
	if len(pulls) != 1 || !pulls[0].Merged {
		t.Fatalf("got pull requests %+v", pulls)
	}
	var reviews []struct{ State string }
	f.get(fmt.Sprintf("/pulls/%d/reviews", pulls[0].Number), &reviews)
	if fmt.Sprint(reviews) != "[{REQUEST_CHANGES} {APPROVED}]" {
		t.Errorf("got reviews %v", reviews)
	}
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	if left := mentions(t, state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
}
