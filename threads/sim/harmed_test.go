package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

// issuesEach is a load of evenly spaced issues. Each has another length of its sessions.
func issuesEach(n int, every time.Duration) (load Load) {
	for i := range n {
		d := time.Minute + time.Duration(i)*time.Second
		w := Work{At: time.Duration(i) * every, Priority: 5, Sessions: []time.Duration{d, d}, Review: time.Minute}
		load = append(load, w)
	}
	return load
}

// An outage that fails one session in three fails about a third of the first sessions, the same ones in every
// configuration. Failed work is tried again.
func TestOneInThree(t *testing.T) {
	failing := func(slots int) (failed map[int64]bool, r Report) {
		c := Fleet(4, slots, 1)
		tr := newTrial(Trial{
			Config: c, Load: issuesEach(80, 2*time.Minute), Policy: Ours, Seed: 3, Quiet: true,
			Outages: []Outage{{Thread: "write", Until: 1000 * time.Hour, After: time.Hour, Result: agents.Failed, OneIn: 3}},
		})
		failed = make(map[int64]bool)
		for tr.open(); !tr.finished() && tr.Next(); tr.settle() {
			for _, x := range tr.runs {
				if x.cut != nil && x.issue.tries == 1 {
					failed[x.issue.Number] = true
				}
			}
		}
		return failed, tr.report()
	}
	few, r := failing(1)
	many, _ := failing(4)
	if diff := cmp.Diff(few, many); diff != "" {
		t.Errorf("with more slots, other sessions fail (-1 slot +4 slots):\n%s", diff)
	}
	if len(few) < 15 || len(few) > 40 {
		t.Errorf("%d of 80 first sessions fail, want about a third", len(few))
	}
	// 160 writing sessions succeed, half as many fail, and there are 160 reviews.
	if r.Done != 80 || r.Sessions < 360 || r.Sessions > 440 {
		t.Errorf("got %d of 80 issues done in %d sessions, want all in 360 to 440", r.Done, r.Sessions)
	}
}

// Open counts an issue until it is done, or to the end of the trial.
func TestOpen(t *testing.T) {
	trial := Trial{Config: Fleet(2, 2, 1), Load: issuesEach(4, time.Hour), Policy: Ours, Seed: 1}
	r := trial.Run()
	if r.Done != 4 || r.Open != r.Turn.Mean {
		t.Errorf("got %d done, open for %s and done after %s, want 4 and equal times", r.Done, r.Open, r.Turn.Mean)
	}
	trial.Outages, trial.Drain = []Outage{{Until: 100 * time.Hour}}, time.Hour
	r = trial.Run() // all wait to the fourth hour, or to the next event after it
	if want := 2*time.Hour + 30*time.Minute; r.Done != 0 || r.Open < want {
		t.Errorf("got %d done and open for %s, want none and at least %s", r.Done, r.Open, want)
	}
}

// Slower changes only a learnt delay, and not the given model.
func TestSlower(t *testing.T) {
	m := Learn(Journal{})
	m.delays[Checks] = []time.Duration{0, time.Minute, 2 * time.Minute}
	m.delays[Merging] = []time.Duration{0, 0, 0}
	slow := m.Slower(Checks, 2)
	if got := slow.delays[Checks]; !slices.Equal(got, []time.Duration{0, 2 * time.Minute, 4 * time.Minute}) {
		t.Errorf("got checks of %v, want twice the times", got)
	}
	if m.delays[Checks][2] != 2*time.Minute {
		t.Error("Slower changed the given model")
	}
	if m.Slower(Merging, 2) != nil || m.Slower(People, 2) != nil || (*Model)(nil).Slower(Checks, 2) != nil {
		t.Error("Slower of a zero or unknown delay is not nil")
	}
}
