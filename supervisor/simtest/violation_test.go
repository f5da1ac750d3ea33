package simtest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// A broken scheduler starts nothing that a rule forbids. The forbidden parts of its plans are dropped, counted once
// and logged once; everything else is carried out.
func TestF7_MadScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		blocked := w.Forge.Issue("two")
		w.Forge.Edit(blocked, func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelNeedsHuman) })
		mad := func(s threads.Snapshot) threads.Plan {
			p := threads.Decide(s)
			for _, st := range p.Starts { // each start is duplicated for a second agent in the same slot
				if st.Agent == "dev-coder" {
					st.Agent = "dev-qwen"
					p.Starts = append(p.Starts, st)
				}
			}
			if is := s.Facts.Issue(Ref(blocked)); is != nil {
				p.Starts = append(p.Starts, threads.Start{
					Item:   threads.Item{Kind: agents.KindIssue, Ref: is.Ref, Chain: is.Ref, Title: is.Title},
					Thread: "llama", Slot: 1, Agent: "dev-qwen", Role: "dev", Attempt: 1,
				})
			}
			return p
		}
		l := w.Start(func(l *Life) { l.Decide = mad })
		w.Until(time.Hour, "the first issue is merged", func() bool { return w.Forge.Get(1).Closed })
		d := l.Document()
		l.Stop()
		w.Check()
		if n := len(w.Exec.RunsOf(agents.KindIssue, blocked)); n > 0 {
			t.Errorf("got %d sessions on the issue that needs a person, want none", n)
		}
		if d.Upkeep.Violations < 2 || d.Upkeep.Violations > 4 {
			t.Errorf("got %d violations, want 2 to 4", d.Upkeep.Violations)
		}
		if len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "a rule would have been broken, last: ") {
			t.Errorf("got problems %q, want one about the rules", d.Problems)
		}
		held := false
		for _, q := range d.Queue {
			held = held || q.Code == threads.RuleBroken && q.Number == blocked
		}
		if !held {
			t.Errorf("no hold of #%d in the queue %+v", blocked, d.Queue)
		}
		if n := strings.Count(w.Log.String(), "needs-human"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, w.Log.String())
		}
	})
}

// The status shows today's usage beside the budget, for the agent and its thread. On the next day it is zero.
func TestSpentIsShown(t *testing.T) {
	OnlyInStorms(t)
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Threads[1].Budget = agents.Budget{Tokens: 1000, USD: 2}
		w.Forge.Issue("one")
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindIssue {
				s.Outcome = agents.Outcome{Result: agents.Done, Usage: agents.Usage{
					InputTokens: 100, OutputTokens: 20, CachedTokens: 7, CostUSD: 0.5,
				}}
			}
			return s
		}
		l := w.Start()
		w.Until(time.Hour, "merged", w.Forge.Done)
		d := l.Document()
		had := new(0.065) // 7 of 107
		spent := control.SpentDocument{Tokens: 120, USD: 0.5, TokensPerDay: 1000, USDPerDay: 2, CacheHit: had}
		if diff := cmp.Diff(spent, d.Threads[1].Spent); diff != "" {
			t.Errorf("thread (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(control.SpentDocument{Tokens: 120, USD: 0.5, CacheHit: had}, d.Agents[0].Spent); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d.Agents[0].Name, diff)
		}
		time.Sleep(24 * time.Hour)
		d = l.Document()
		l.Stop()
		if diff := cmp.Diff(control.SpentDocument{TokensPerDay: 1000, USDPerDay: 2}, d.Threads[1].Spent); diff != "" {
			t.Errorf("a day later (-want +got):\n%s", diff)
		}
	})
}
