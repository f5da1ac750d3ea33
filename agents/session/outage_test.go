package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// What git says about a forge that does not answer is an outage. What it says about a refusal, a certificate or another
// address is none.
func TestUnreachable(t *testing.T) {
	const at = "http://forge:3000"
	for said, want := range map[string]bool{
		"fatal: unable to access 'http://forge:3000/a/b.git/': Failed to connect to forge port 3000 after 0 ms: Couldn't " +
			"connect to server": true,
		"fatal: unable to access 'http://forge:3000/a/b.git/': Could not resolve host: forge":                  true,
		"fatal: unable to access 'http://forge:3000/a/b.git/': Connection timed out after 300000 milliseconds": true,
		"fatal: unable to access 'http://forge:3000/a/b.git/': Operation too slow. Less than 1 bytes/sec":      true,
		"fatal: unable to access 'http://forge:3000/a/b.git/': Empty reply from server":                        true,
		"fatal: unable to access 'http://forge:3000/a/b.git/': The requested URL returned error: 502":          true,
		"fatal: unable to access 'http://forge:3000/a/b.git/': The requested URL returned error: 403":          false,
		"fatal: unable to access 'http://forge:3000/a/b.git/': SSL certificate problem: self-signed":           false,
		"fatal: unable to access 'http://127.0.0.1:1/a/b.git/': Failed to connect to 127.0.0.1 port 1":         false,
		"error: RPC failed; HTTP 503 curl 22 The requested URL returned error: 503":                            true,
		"error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413":                            false,
		"error: RPC failed; curl 56 Recv failure: Connection reset by peer":                                    true,
		"batch request: Post \"http://forge:3000/x\": dial tcp 127.0.0.1:3000: connect: connection refused":    true,
		" ! [rejected] x -> fix/issue-1 (stale info)":                                                          false,
	} {
		if got := unreachable(said, at); got != want {
			t.Errorf("%s: got %t", said, got)
		}
	}
}

// A session with work waits for its forge, longer each time, ten minutes altogether, and ends without an attempt. One
// whose model has not answered yet, or whose push is refused, does not wait.
func TestOutlast(t *testing.T) {
	down, refused := fmt.Errorf("git push: %w", forge.ErrUnavailable), errors.New("refused")
	for _, tt := range []struct {
		name     string
		heard    bool
		fails    int // how often
		with     error
		took     time.Duration
		want     agents.Result // empty: it succeeds
		attempts int
	}{
		{"back soon", true, 3, down, 7 * time.Second, "", 4},
		{"gone", true, 1_000, down, 10 * time.Minute, agents.BackendDown, 25},
		{"no work", false, 1_000, down, 0, agents.BackendDown, 1},
		{"refused", true, 1_000, refused, 0, agents.Failed, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := (&fakeDesk{}).run(t)
				r.heard, r.Now, r.ResultPath = tt.heard, time.Now, filepath.Join(t.TempDir(), "result")
				began, n := time.Now(), 0
				shown := func() agents.Doing {
					text, _ := os.ReadFile(r.ResultPath)
					_, d, _ := agents.ParseProgress(text)
					return d
				}
				err := r.outlast(t.Context(), func() error {
					if n++; n == 2 {
						if d := shown(); d != (agents.Doing{Phase: agents.PhaseForge, Since: began.UTC()}) {
							t.Errorf("shows %+v while it waits", d)
						}
					}
					if n <= tt.fails {
						return tt.with
					}
					return nil
				})
				if d := shown(); d != (agents.Doing{}) {
					t.Errorf("shows %+v at the end", d)
				}
				if took := time.Since(began); took < tt.took || took > tt.took+30*time.Second || n != tt.attempts {
					t.Errorf("%d attempts in %s", n, took)
				}
				if (err == nil) != (tt.want == "") || err != nil && r.outcomeOf(err).Result != tt.want {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if tt.took >= outageTime && !strings.Contains(err.Error(), "waited 10m0s for the forge: ") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := (&fakeDesk{}).run(t)
	r.heard, r.Now = true, time.Now
	if err := r.outlast(ctx, func() error { cancel(); return down }); !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// A git command is ended once the forge has answered nobody for a minute. One that a busy forge makes wait goes on.
func TestAskSilentForge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		silent func(time.Duration) bool // whether the forge does not answer then
		needs  time.Duration            // for git, if it is not ended
		took   time.Duration
		down   bool
	}{
		{"stopped", func(time.Duration) bool { return true }, time.Hour, 85 * time.Second, true},
		{"busy", func(time.Duration) bool { return false }, time.Hour, time.Hour, false},
		{"stopped for a moment", func(at time.Duration) bool { return at < time.Minute }, time.Hour, time.Hour, false},
		{"stopped later", func(at time.Duration) bool { return at > 5*time.Minute }, time.Hour, 385 * time.Second, true},
		{"done in time", func(time.Duration) bool { return true }, 70 * time.Second, 70 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				g := git{
					run: func(ctx context.Context, _ agents.Cmd) error {
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(tt.needs):
							return nil
						}
					},
					answers: func(ctx context.Context) error {
						if !tt.silent(time.Since(began)) {
							return nil
						}
						select {
						case <-ctx.Done():
						case <-time.After(10 * time.Second):
						}
						return fmt.Errorf("cannot read a/b: %w", forge.ErrUnavailable)
					},
				}
				_, err := g.ask(t.Context(), "", "push")
				if took := time.Since(began); took != tt.took || errors.Is(err, forge.ErrUnavailable) != tt.down {
					t.Errorf("ended after %s: %v", took, err)
				}
			})
		})
	}
}
