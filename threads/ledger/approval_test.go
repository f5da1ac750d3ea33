package ledger

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestApprovals checks that a review session's approval is known from its end on, the last one of each agent. Lost
// sessions and those of older versions approve nothing: their reviews are repeated. A retry keeps approvals, and a
// pull request that is gone loses them.
func TestApprovals(t *testing.T) {
	pull := forge.Ref{Repo: "o/r", Number: 7}
	review := func(run, agent string, e End) []Record {
		start := startRec(run, 7, 1)
		start.Start.Item.Kind, start.Start.Agent = agents.KindReview, agent
		e.Result = agents.Done
		return []Record{start, endRec(run, time.Minute, e)}
	}
	approves := func(head string) End {
		return End{Verdict: Approved, Approved: &threads.Approval{Head: head, Base: "main"}}
	}
	s := New()
	heads := func(records ...Record) (list string) {
		for _, r := range records {
			s.Apply(r)
		}
		for _, a := range s.Chain(pull).Approved {
			list += a.Agent + " " + a.Head + " " + a.Base + "; "
		}
		return list
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: approved %q, want %q", what, got, want)
		}
	}
	check("an older version", heads(review("a", "one", End{Verdict: Approved})...), "")
	check("changes", heads(review("b", "one", End{Verdict: ChangesRequested})...), "")
	lost := review("c", "one", approves("aa"))
	lost[1].End.Result, lost[1].End.Approved = agents.Lost, nil
	check("lost", heads(lost...), "")
	check("one", heads(review("d", "one", approves("aa"))...), "one aa main; ")
	check("two", heads(review("e", "two", approves("aa"))...), "one aa main; two aa main; ")
	check("one again", heads(review("f", "one", approves("bb"))...), "two aa main; one bb main; ")
	check("retry", heads(Record{At: noon, Retry: &Retry{Refs: []Ref{Ref(pull)}}}), "two aa main; one bb main; ")
	s = Fold(s.Compact(noon))
	check("compacted", heads(), "two aa main; one bb main; ")
	check("gone", heads(Record{At: noon, Forget: &Forget{Ref: Ref(pull)}}), "")
}
