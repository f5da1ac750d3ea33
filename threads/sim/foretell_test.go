package sim

import (
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Foretell takes a day's issues and the work left from the day before. A rework on an older issue is not an issue of
// that day, and the day's sessions and outages are unknown.
func TestForetell(t *testing.T) {
	begin := time.Date(2026, 11, 3, 0, 0, 0, 1, time.UTC) // 1 ns: not the forge's whole second
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
		session(agents.KindIssue, 1, -30*h, -29*h, h, agents.Done), // more than a day before
		session(agents.KindIssue, 2, -3*h, -2*h, h, agents.Done),
		session(agents.KindIssue, 3, -2*h, 2*h, h, agents.Done), // left from the day before
		session(agents.KindRework, 2, 3*h, 4*h, h, agents.Done),
		session(agents.KindIssue, 4, 5*h, 6*h, 5*h, agents.Done),
		session(agents.KindIssue, 5, 5*h, 12*h, h, agents.BackendDown),
		session(agents.KindIssue, 5, 5*h, 13*h, h, agents.Done),
		session(agents.KindIssue, 6, 23*h, 26*h, h, agents.Done), // started on the next day
		session(agents.KindIssue, 7, 25*h, 26*h, h, agents.Done), // filed on the next day
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
			t.Errorf("got %+v, want an issue of that day without sessions", w)
		}
	}
	if want := []time.Duration{5 * h, 5 * h, 23 * h}; !slices.Equal(drawn, want) {
		t.Errorf("got issues of that day at %v, want %v", drawn, want)
	}
	if want := []time.Duration{-3 * h, -2 * h}; !slices.Equal(known, want) {
		t.Errorf("got earlier issues at %v, want %v", known, want)
	}
	if real.N != 3 || real.P50 != 3*h || real.Max != 7*h {
		t.Errorf("got waits %+v, want 3 with a median of 3h and a maximum of 7h", real)
	}
	if n := trial.Model.counts[peers{agent: "dev-0", kind: agents.KindIssue}]; n != 2 || len(trial.Outages) != 0 {
		t.Errorf("learnt from %d sessions with outages %v, want 2 sessions and no outage", n, trial.Outages)
	}
	if r := trial.Run(); r.First.N != 3 {
		t.Errorf("got a report with %d waits, want 3", r.First.N)
	}
	if later := j.After(begin.Add(6 * h)); len(later.Past) != 5 {
		t.Errorf("After returned %d sessions, want 5", len(later.Past))
	}
}

// Times has the times that Learnt sums up.
func TestTimes(t *testing.T) {
	m := Learn(diary())
	times := m.Times()
	for _, l := range m.Learnt() {
		list := times[l.What]
		if l.Usual != (len(list) == 0) {
			t.Errorf("Times has %[2]d times for %[1]s, and Learnt disagrees", l.What, len(list))
		}
		if !l.Usual && (len(list) != l.Sessions || !slices.IsSorted(list) || list[(len(list)-1)/2] != l.P50) {
			t.Errorf("%s: times %v, but Learnt has %+v", l.What, list, l)
		}
	}
}
