package simtest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// limit sets the tokens that one session of the role dev may use, and all sessions on an issue.
func limit(w *World, session, issue int64) {
	dev := w.Config.Role("dev")
	dev.PerSession.Tokens, dev.PerIssue.Tokens = session, issue
}

// spender is a session of ten minutes that uses 100 tokens every ten seconds.
var spender = Script{
	Takes: 10 * time.Minute, Turn: 10 * time.Second,
	Uses: agents.Usage{InputTokens: 90, OutputTokens: 10},
}

// A session that reaches its limit ends within that turn, even while the forge is down. No attempt is burnt, nothing
// starts again, and a person gets a comment with the figures and the key.
func TestSessionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		limit(w, 350, 0)
		issue := w.Forge.Issue("costly")
		always(w, agents.KindIssue, spender)
		l := w.Start()
		w.Until(time.Minute, "a session", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, issue)) == 1 })
		w.Forge.Fail(func(context.Context, string) error { return forge.ErrUnavailable })
		time.Sleep(2 * time.Minute)
		w.Forge.Fail(nil)
		time.Sleep(2 * time.Hour)
		runs := w.Exec.RunsOf(agents.KindIssue, issue)
		if len(runs) != 1 || runs[0].Outcome.Usage.Tokens() != 400 || runs[0].End.Sub(runs[0].Begin) > 41*time.Second {
			t.Errorf("got sessions %+v, want one that ended at 400 tokens", runs)
		}
		if is := w.Forge.Get(issue); !is.Has(forge.LabelNeedsHuman) || len(is.Assignees) > 0 ||
			is.Has(forge.LabelInProgress) {
			t.Errorf("afterwards: got labels %v, assignees %v, want needs-human, and no claim", is.Labels, is.Assignees)
		}
		comments := w.Forge.Comments()
		want := "This costs more than it may: the session has used 400 of 350 tokens (max_tokens per session of role dev). " +
			"Its work so far is kept.\n\nTo let agents use as much again, remove the label `needs-human`, or comment " +
			"`/disinto retry`. To let them use more, raise that limit in factory.toml first."
		if len(comments) != 1 || comments[0].Body != want {
			t.Errorf("got comments %q, want %q", comments, want)
		}
		const label = "waits: labelled needs-human: the session has used 400 of 350 tokens"
		if why := w.say(issue, "johba", "/disinto why"); !strings.Contains(why, label) {
			t.Errorf("got answer %q, want %q", why, label)
		}
		// A person removes the label: a second session starts, still in the first attempt.
		w.Forge.SendBack()
		w.Until(time.Hour, "a second session", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, issue)) == 2 })
		if got := variable(w.Exec.RunsOf(agents.KindIssue, issue)[1].Job, "DISINTO_ATTEMPT"); got != "1" {
			t.Errorf("got attempt %s after a limit, want 1", got)
		}
		l.Stop()
		w.Check()
	})
}

// The usage of all sessions on an issue is summed, also over a kill of the supervisor. The program gets the rest.
func TestIssueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Minutely()
		limit(w, 0, 1500)
		issue := w.Forge.Issue("costly")
		failing := spender
		failing.Takes, failing.Outcome = time.Minute, agents.Outcome{Result: agents.Failed, Reason: "exit status 1"}
		w.Exec.Script = func(_ agents.Job, n int) Script {
			if n == 1 {
				return failing // uses 600
			}
			return spender
		}
		l := w.Start()
		w.Until(10*time.Minute, "a second session", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, issue)) == 2 })
		if got := variable(w.Exec.RunsOf(agents.KindIssue, issue)[1].Job, "DISINTO_MAX_TOKENS"); got != "900" {
			t.Errorf("got limit %q for the second session, want 900", got)
		}
		time.Sleep(75 * time.Second) // uses 700, of which the journal has at least 600
		l.Kill()
		l.Bury()
		l = w.Start()
		w.Until(time.Hour, "needs-human", func() bool {
			is := w.Forge.Get(issue)
			return is.Has(forge.LabelNeedsHuman)
		})
		third := variable(w.Exec.RunsOf(agents.KindIssue, issue)[2].Job, "DISINTO_MAX_TOKENS")
		if left, err := strconv.Atoi(third); err != nil || left > 900-500 {
			t.Errorf("got limit %q for the third session, want at most 400: the kill lost the second's usage", third)
		}
		total := int64(0)
		for _, r := range w.Exec.RunsOf(agents.KindIssue, issue) {
			total += r.Outcome.Usage.Tokens()
		}
		if total < 1500 || total > 1500+100+700 { // one turn, and a minute's usage that the kill lost
			t.Errorf("got usage of %d tokens, limit 1500, want up to 800 more", total)
		}
		if c := w.Forge.Comments(); len(c) != 1 ||
			!strings.Contains(c[0].Body, "of 1500 tokens (max_tokens per issue of role dev)") {
			t.Errorf("got comments %q, want one with the issue's limit", c)
		}
		l.Stop()
		w.Check()
	})
}

// The day's budget ends running sessions. The issue waits for the next day, without a person.
func TestBudgetEndsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		for i := range w.Config.Threads {
			w.Config.Threads[i].Budget.Tokens = 500
		}
		issue := w.Forge.Issue("costly")
		always(w, agents.KindIssue, spender)
		time.Sleep(Size(0, 22*time.Hour)) // in make check, the supervisor starts late on the first day
		l := w.Start()
		w.Until(time.Hour, "an end", func() bool {
			runs := w.Exec.RunsOf(agents.KindIssue, issue)
			return len(runs) > 0 && !runs[len(runs)-1].End.IsZero() && strings.Contains(w.Log.String(), "over-budget")
		})
		today := threads.Day(time.Now())
		time.Sleep(time.Until(today.Add(24*time.Hour)) - time.Minute)
		runs := w.Exec.RunsOf(agents.KindIssue, issue)
		for _, r := range runs {
			if r.Outcome.Usage.Tokens() != 500 {
				t.Errorf("got a session with %d tokens, want 500", r.Outcome.Usage.Tokens())
			}
		}
		if is := w.Forge.Get(issue); forge.SkipLabel(is.Labels) != "" || len(w.Forge.Comments()) > 0 {
			t.Errorf("got labels %v and comments %q, want no skip label and none", is.Labels, w.Forge.Comments())
		}
		time.Sleep(5 * time.Minute)
		if again := w.Exec.RunsOf(agents.KindIssue, issue); len(again) == len(runs) {
			t.Error("nothing started on the next day")
		} else if got := variable(again[len(again)-1].Job, "DISINTO_ATTEMPT"); got != "1" {
			t.Errorf("got attempt %s after a budget, want 1", got)
		}
		l.Stop()
		w.Check()
	})
}

// A program that reports over-budget below its limit has failed; otherwise it would never run out of attempts. A
// program that has reached its limit and stops by itself counts as ended by the supervisor.
func TestSaysOverBudget(t *testing.T) {
	for name, used := range map[string]int64{"a lie": 349, "true": 350} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				limit(w, 350, 0)
				issue := w.Forge.Issue("costly")
				says := reports(time.Minute, agents.OverBudget, "enough")
				says.Outcome.Usage.InputTokens = used
				always(w, agents.KindIssue, says)
				l := w.Start()
				time.Sleep(time.Hour)
				runs, is := w.Exec.RunsOf(agents.KindIssue, issue), w.Forge.Get(issue)
				lied := used < 350
				if lied && (len(runs) != 5 || !is.Has(forge.LabelBlocked)) || !lied &&
					(len(runs) != 1 || !is.Has(forge.LabelNeedsHuman)) {
					t.Errorf("got %d sessions and labels %v, want 5 and blocked for a lie, 1 and needs-human otherwise", len(runs),
						is.Labels)
				}
				l.Stop()
				w.Check()
			})
		})
	}
}
