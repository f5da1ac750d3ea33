package sim

import (
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// A day is foretold from its issues and what the day before left; rework on an older issue is no issue of that day, and
// neither its sessions nor its outages are known.
func TestForetell(t *testing.T) {
	begin := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	session := func(kind agents.Kind, number int64, ready, start, took time.Duration, how agents.Result) ledger.Past {
		ref := ledger.Ref{Repo: "o/r", Number: number}
		p := ledger.Past{
			Agent: "dev-0", Kind: kind, Ref: ref, Chain: ref, Thread: "write", Outcome: how, Priority: 5,
			Start: begin.Add(start), End: begin.Add(start + took),
		}
		if ready != 0 {
			p.Ready = begin.Add(ready)
		}
		return p
	}
	const h = time.Hour
	j := Journal{Past: []ledger.Past{
		session(agents.KindIssue, 1, -30*h, -29*h, h, agents.Done), // longer ago than a day
		session(agents.KindIssue, 2, -3*h, -2*h, h, agents.Done),
		session(agents.KindIssue, 3, -2*h, 2*h, h, agents.Done), // was left
		session(agents.KindRework, 2, 3*h, 4*h, h, agents.Done),
		session(agents.KindIssue, 4, 5*h, 6*h, 5*h, agents.Done),
		session(agents.KindIssue, 5, 5*h, 12*h, h, agents.BackendDown),
		session(agents.KindIssue, 5, 5*h, 13*h, h, agents.Done),
		session(agents.KindIssue, 6, 23*h, 26*h, h, agents.Done), // began on the next day
		session(agents.KindIssue, 7, 25*h, 26*h, h, agents.Done), // filed on it
	}}
	trial, real := Foretell(j, Fleet(1, 1, 0), begin, begin.Add(24*h))
	var drawn, known []time.Duration
	for _, w := range trial.Load {
		at := trial.From.Add(w.At).Sub(begin)
		if w.drawn {
			drawn = append(drawn, at)
		} else {
			known = append(known, at)
		}
		if w.drawn && len(w.Steps)+len(w.Sessions) > 0 {
			t.Errorf("the sessions of an issue of that day are known: %+v", w)
		}
	}
	if want := []time.Duration{5 * h, 5 * h, 23 * h}; !slices.Equal(drawn, want) {
		t.Errorf("issues of that day at %v, want %v", drawn, want)
	}
	if want := []time.Duration{-3 * h, -2 * h}; !slices.Equal(known, want) {
		t.Errorf("issues from before at %v, want %v", known, want)
	}
	if real.N != 3 || real.P50 != 3*h || real.Max != 7*h {
		t.Errorf("they waited %+v", real)
	}
	if n := trial.Model.counts[peers{agent: "dev-0", kind: agents.KindIssue}]; n != 2 || len(trial.Outages) != 0 {
		t.Errorf("learnt from %d sessions, with outages %v", n, trial.Outages)
	}
	if r := trial.Run(); r.First.N != 3 {
		t.Errorf("the report has the waits of %d issues", r.First.N)
	}
	if later := j.After(begin.Add(6 * h)); len(later.Past) != 5 {
		t.Errorf("%d sessions began later", len(later.Past))
	}
}

// The times of a model are those that Learnt sums up.
func TestTimes(t *testing.T) {
	m := Learn(diary())
	times := m.Times()
	for _, l := range m.Learnt() {
		list := times[l.What]
		if l.Usual != (len(list) == 0) {
			t.Errorf("%s: %d times", l.What, len(list))
		}
		if !l.Usual && (len(list) != l.Sessions || !slices.IsSorted(list) || list[(len(list)-1)/2] != l.P50) {
			t.Errorf("%s: %v, and it says %+v", l.What, list, l)
		}
	}
}
