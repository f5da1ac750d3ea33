package session

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session/fakemodel"
)

// fault is a way in which a session of a real CLI can fail.
type fault struct {
	name string
	turn fakemodel.Turn // every answer, or with late every answer after the first
	late bool           // the first answer is a tool call
	raw  http.HandlerFunc
	kill bool // the CLI is killed while its tool runs
	want []agents.Result
}

// The results of faults that say nothing about the item, and of those that do.
var (
	isDown     = []agents.Result{agents.BackendDown}
	isNobody   = []agents.Result{agents.BackendDown, agents.Unanswered}
	isAccount  = []agents.Result{agents.Unanswered}
	isLimited  = []agents.Result{agents.Limited}
	isOverflow = []agents.Result{agents.Failed}
	isRefused  = []agents.Result{agents.Refused}
)

func status(code int, kind, text string) fakemodel.Turn {
	return fakemodel.Turn{Status: code, Type: kind, Text: text, Headers: map[string]string{"retry-after": "2"}}
}

var faults = []fault{
	{name: "limit", turn: status(429, "rate_limit_error", "usage limit reached, try again in 2 hours"), want: isLimited},
	{name: "limit later", late: true, turn: status(429, "rate_limit_error", "usage limit reached"), want: isLimited},
	{name: "not signed in", turn: status(401, "authentication_error", "invalid x-api-key"), want: isAccount},
	{name: "forbidden", turn: status(403, "permission_error", "no access to this organization"), want: isAccount},
	{name: "no credit", turn: status(400, "invalid_request_error", "Your credit balance is too low."), want: isAccount},
	{
		name: "no credit later", late: true, turn: status(400, "invalid_request_error", "Your credit balance is too low."),
		want: isAccount,
	},
	{name: "payment", turn: status(402, "payment_required", "Insufficient credits."), want: isAccount},
	{name: "no such model", turn: status(404, "not_found_error", "model: fake-model"), want: isAccount},
	{name: "odd request", turn: status(400, "invalid_request_error", "tools.3.custom: unknown field"), want: isAccount},
	{name: "server error", turn: status(500, "api_error", "Internal server error"), want: isDown},
	{name: "server error later", late: true, turn: status(500, "api_error", "Internal server error"), want: isDown},
	{name: "bad gateway", turn: status(502, "api_error", "Bad gateway"), want: isDown},
	{name: "unavailable", turn: status(503, "api_error", "Loading model"), want: isDown},
	{name: "overloaded", turn: status(529, "overloaded_error", "Overloaded"), want: isDown},
	{name: "cut", turn: fakemodel.Turn{Text: "This never ends.", Cut: true}, want: isNobody},
	{name: "reset", raw: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: isNobody},
	{
		name: "too long", turn: status(400, "exceed_context_size_error", "the request exceeds the available context size"),
		want: isOverflow,
	},
	{
		name: "filter", turn: status(400, "invalid_request_error", "Output blocked by content filtering policy"),
		want: isRefused,
	},
	{name: "killed", kill: true, want: []agents.Result{agents.Killed}},
}

// TestRealFaults plays each fault with each real CLI, in a first session and in one that continues an interrupted
// conversation. None is charged to the wrong one. All 152 take half an hour, so without $DISINTO_STORMS only a fifth
// is played.
func TestRealFaults(t *testing.T) {
	bin := os.Getenv(clisVar)
	if bin == "" {
		t.Skipf("$%s names no folder with the real CLIs: make agents-e2e installs them", clisVar)
	}
	n := 0
	for _, cli := range agents.CLINames() {
		for i := range faults {
			for _, resumed := range []bool{false, true} {
				if n++; n%5 != 1 && os.Getenv("DISINTO_STORMS") == "" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%t", cli, faults[i].name, resumed), func(t *testing.T) {
					t.Parallel()
					faults[i].play(t, cli, bin, resumed)
				})
			}
		}
	}
}

func (f *fault) play(t *testing.T, cli, bin string, resumed bool) {
	var interrupted, answered atomic.Bool
	interrupted.Store(!resumed)
	begun := filepath.Join(t.TempDir(), "begun")
	hang := fakemodel.Turn{Shell: "touch " + begun + "; sleep 30"}
	model := &fakemodel.Model{Context: 65536, Answer: func(fakemodel.Prompt) fakemodel.Turn {
		switch {
		case !interrupted.Load(), f.kill:
			return hang
		case f.late && !answered.Swap(true):
			return fakemodel.Turn{Shell: "echo working"}
		}
		return f.turn
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if f.raw != nil && interrupted.Load() {
			f.raw(w, q)
		}
		model.ServeHTTP(w, q)
	}))
	defer server.Close()
	r := realRun(t, cli, bin, server.URL)
	if resumed {
		ctx, cancel := context.WithCancel(t.Context())
		go whenMade(ctx, begun, cancel)
		_, _ = r.runPrompt(ctx, "Do what you are told.")
		cancel()
		_ = os.Remove(begun)
		interrupted.Store(true)
		r.heard = false // the next session
	}
	if f.kill {
		r.Run = func(ctx context.Context, c agents.Cmd) error { return runKilled(ctx, c, begun) }
	}
	_, err := r.runPrompt(t.Context(), "Go on.")
	out := r.outcomeOf(err)
	if err == nil || !slices.Contains(f.want, out.Result) {
		t.Errorf("got %s %q, want one of %q; heard %t", out.Result, out.Reason, f.want, r.heard)
	}
}

// whenMade calls done once a file exists.
func whenMade(ctx context.Context, path string, done func()) {
	for ctx.Err() == nil {
		if _, err := os.Stat(path); err == nil {
			done()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// killedNow is the error of a program that was killed.
type killedNow struct{ error }

func (killedNow) Killed() bool { return true }

// runKilled runs a program and kills its group once a file exists.
func runKilled(ctx context.Context, c agents.Cmd, begun string) error {
	cmd := realCommand(ctx, c)
	if err := cmd.Start(); err != nil {
		return err
	}
	watch, end := context.WithCancel(ctx)
	defer end()
	go whenMade(watch, begun, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return killedNow{cmd.Wait()}
}
