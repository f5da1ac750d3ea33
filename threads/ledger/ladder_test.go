package ledger

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestSetbacks counts the failures of writing sessions on a chain since the last retry, and checks its highest rung.
// A failed review is not a setback for the writer, nor is a session that burnt no attempt.
func TestSetbacks(t *testing.T) {
	chain := forge.Ref{Repo: "o/r", Number: 1}
	session := func(run string, kind agents.Kind, rung int, end agents.Result) []Record {
		start := startRec(run, 1, 1)
		start.Start.Item.Kind, start.Start.Rung = kind, rung
		if kind != agents.KindIssue {
			start.Start.Item.Ref.Number = 9
		}
		return []Record{start, endRec(run, time.Minute, End{Result: end, Reason: "why"})}
	}
	var journal []Record
	for _, s := range []struct {
		kind           agents.Kind
		rung           int
		end            agents.Result
		failures, high int
	}{
		{agents.KindIssue, 0, agents.Failed, 1, 0},
		{agents.KindIssue, 0, agents.Limited, 1, 0},
		{agents.KindIssue, 0, agents.NoProgress, 2, 0},
		{agents.KindIssue, 1, agents.Done, 2, 1},
		{agents.KindReview, 0, agents.Failed, 2, 1},
		{agents.KindReview, 0, agents.Done, 2, 1},
		{agents.KindRework, 2, agents.TimedOut, 3, 2},
		{agents.KindRework, 1, agents.Lost, 3, 2},
	} {
		journal = append(journal, session("run", s.kind, s.rung, s.end)...)
		for what, state := range map[string]*State{
			"folded": fold(journal...), "compacted": fold(fold(journal...).Compact(noon.Add(time.Hour))...),
		} {
			if c := state.Chain(chain); c.Failures != s.failures || c.Rung != s.high {
				t.Errorf("%s, after a %s that was %s: %d failures and rung %d, want %d and %d",
					what, s.kind, s.end, c.Failures, c.Rung, s.failures, s.high)
			}
		}
	}
	journal = append(journal, Record{At: noon, Retry: &Retry{Refs: []Ref{Ref(chain)}}})
	if c := fold(journal...).Chain(chain); c.Failures != 0 || c.Rung != 0 || len(c.Writers) != 1 {
		t.Errorf("after retry: got %+v, want no failures, rung 0 and one writer", c)
	}
}

// TestPlanner checks that the planner of an issue is remembered until a retry, however the session ended.
func TestPlanner(t *testing.T) {
	start := startRec("run", 1, 1)
	start.Start.Cause = threads.CausePlan
	for _, result := range []agents.Result{agents.Planned, agents.Done, agents.Failed, agents.Question, agents.Lost} {
		journal := []Record{start, endRec("run", time.Minute, End{Result: result, Reason: "why", Words: "words"})}
		for what, state := range map[string]*State{
			"folded": fold(journal...), "compacted": fold(fold(journal...).Compact(noon.Add(time.Hour))...),
		} {
			if got := state.Chain(forge.Ref{Repo: "o/r", Number: 1}).Planner; got != start.Start.Agent {
				t.Errorf("%s, after %s: got planner %q, want %q", what, result, got, start.Start.Agent)
			}
		}
		again := fold(append(journal, Record{At: noon, Retry: &Retry{Refs: []Ref{{Repo: "o/r", Number: 1}}}})...)
		if got := again.Chain(forge.Ref{Repo: "o/r", Number: 1}).Planner; got != "" {
			t.Errorf("after %s and retry: got planner %q, want none", result, got)
		}
	}
}
