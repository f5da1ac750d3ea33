package threads

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

const releaseConfig = `config
[threads.api]
backend = "anthropic"
agents = ["dev-opus"]
[roles.dev]
command = ["dev"]
----
`

// Before a claim is released, a label is written for a reason that follows from how our sessions ended, and for no
// other one.
func TestLabelBeforeRelease(t *testing.T) {
	for _, tt := range []struct {
		name, world string
		want        Action
	}{
		{"nothing happened", "issue 1 backlog in-progress", ""},
		{"refused", "issue 1 backlog in-progress\nhistory refused 1 too large", ActNeedsHuman},
		{"out of attempts", "issue 1 backlog in-progress\nhistory attempts issue:1 5 +0s", ActBlocked},
		{"asks", "issue 1 backlog in-progress\nhistory dialogue 1 question a dev-opus Which?", ActAsk},
		{"on a pull request", "pull 1 author=dev-opus in-progress\nhistory refused 1 no", ActNeedsHuman},
		{"waits for itself", "issue 1 backlog in-progress blocker=1:open", ""},
		{"waits for cancelled work", "issue 1 backlog in-progress blocker=2:cancelled", ""},
		{"merged", "issue 1 backlog in-progress\nhistory refused 1 no\npull 2 author=dev-opus closes=1 merged=now", ""},
		{"gone", "history refused 1 too large", ""},
	} {
		w := newScriptWorld(t)
		w.lines(releaseConfig + tt.world)
		var got Action
		if m := LabelBeforeRelease(w.s, w.ref("1")); m != nil {
			got = m.Action
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		w.s.Config = nil
		if m := LabelBeforeRelease(w.s, w.ref("1")); m != nil {
			t.Errorf("%s: got %+v without a configuration", tt.name, m)
		}
	}
}

// Between two plans Overspent stops the same sessions as the plan. LimitReached knows only the limits with which the
// session started.
func TestOverspentIsPlanned(t *testing.T) {
	spent := 0
	for _, script := range []string{"limits", "budget", "reconcile", "stops"} {
		playWith(t, "testdata/"+script+".txt", func(s *Snapshot) {
			planned := make(map[string]string)
			for _, stop := range Decide(*s).Stops {
				if stop.Reason.Code == StopOverLimit || stop.Reason.Code == StopOverBudget {
					planned[stop.RunID] = stop.Reason.Text()
				}
			}
			for _, stop := range Overspent(s.Config, &s.History, s.Sessions, s.Now) {
				spent++
				if planned[stop.RunID] != stop.Reason.Text() {
					t.Errorf("%s: %s is stopped: %s; in the plan: %q", script, stop.RunID, stop.Reason.Text(), planned[stop.RunID])
				}
				delete(planned, stop.RunID)
			}
			for run, why := range planned {
				t.Errorf("%s: %s is not stopped before the plan: %s", script, run, why)
			}
		})
	}
	if spent < 5 {
		t.Errorf("only %d sessions are over a limit", spent)
	}
}

func TestLimitReached(t *testing.T) {
	limit := agents.Budget{Tokens: 100}
	for _, tt := range []struct {
		session, issue int64
		want           bool
	}{{99, 99, false}, {100, 99, true}, {99, 100, true}} {
		s := Session{PerSession: limit, PerIssue: limit, Used: agents.Usage{InputTokens: tt.session}}
		h := NewHistory()
		Entry(h.Chains, s.Item.Chain).Used.Tokens = tt.issue
		if got := LimitReached(&h, &s); (got != nil) != tt.want {
			t.Errorf("session %d, issue %d: got %v, want a limit %v", tt.session, tt.issue, got, tt.want)
		}
	}
}

// Usage makes the supervisor plan again only where it reaches another limit: see ReachedBy.
func TestReachedBy(t *testing.T) {
	w := newScriptWorld(t)
	w.lines(`config
[threads.api]
backend = "anthropic"
agents = ["dev-opus", "dev-sonnet"]
windows = [{ length = "5h", tokens = 1000 }]
budget = { tokens_per_day = 100 }
[threads.other]
backend = "anthropic"
agents = ["dev-kimi"]
[agents.dev-opus]
budget = { tokens_per_day = 50 }
[roles.dev]
command = ["dev"]
max_tokens = { session = 10, issue = 20 }
----
issue 1 backlog in-progress assigned=dev-opus
session dev-opus api/0 issue 1
session dev-kimi other/0 issue 2`)
	x := &w.s.Sessions[0]
	last := ReachedBy(&w.s, x)
	if last != (Reached{}) {
		t.Errorf("at first: got %+v", last)
	}
	x.Used.InputTokens = 10
	if now := ReachedBy(&w.s, x); now == last {
		t.Errorf("its own limit makes no difference: %+v", now)
	}
	x.Used.InputTokens = 0
	for _, change := range []struct{ name, lines string }{
		{"its agent's budget", "history spent agent=dev-opus now 50 0 0"},
		{"its thread's budget", "history spent thread=api now 100 0 0"},
		{"its issue's limit", "history used 1 20/0"},
		{"its thread's window", "history use api issue now 1000 0"},
	} {
		w.lines(change.lines)
		now := ReachedBy(&w.s, x)
		if now == last {
			t.Errorf("%s makes no difference: %+v", change.name, now)
		}
		last = now
	}
	if now := ReachedBy(&w.s, &w.s.Sessions[1]); now != (Reached{}) {
		t.Errorf("a session on another thread: got %+v", now)
	}
	if now := ReachedBy(&w.s, &Session{Thread: "gone"}); now != (Reached{}) {
		t.Errorf("a thread that is gone: got %+v", now)
	}
}

// What was spent counts for its day, and for one that is ahead while the clock goes back.
func TestToday(t *testing.T) {
	spent := Spent{Day: Day(scriptStart), Tokens: 7}
	for after, want := range map[time.Duration]int64{-48 * time.Hour: 7, 0: 7, 24 * time.Hour: 0} {
		if got := spent.Today(scriptStart.Add(after)).Tokens; got != want {
			t.Errorf("after %s: got %d, want %d", after, got, want)
		}
	}
}
