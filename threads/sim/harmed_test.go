package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

// issuesEach is a load of issues at equal distances, told apart by the time of their only session.
func issuesEach(n int, every time.Duration) (load Load) {
	for i := range n {
		d := time.Minute + time.Duration(i)*time.Second
		w := Work{At: time.Duration(i) * every, Priority: 5, Sessions: []time.Duration{d, d}, Review: time.Minute}
		load = append(load, w)
	}
	return load
}

// An outage that ends one session in three ends about so many, the same ones whatever else the configuration is, and
// what fails is tried again.
func TestOneInThree(t *testing.T) {
	failing := func(slots int) (failed map[int64]bool, r Report) {
		c := Fleet(4, slots, 1)
		tr := newTrial(Trial{
			Config: c, Load: issuesEach(80, 2*time.Minute), Policy: Ours, Seed: 3, Quiet: true,
			Outages: []Outage{{Thread: "write", Until: 1000 * time.Hour, After: time.Hour, Result: agents.Failed, OneIn: 3}},
		})
		failed = make(map[int64]bool)
		for tr.open(); !tr.finished() && tr.next(); tr.settle() {
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
		t.Errorf("with more slots other sessions fail: %s", diff)
	}
	if len(few) < 15 || len(few) > 40 {
		t.Errorf("%d of 80 first sessions fail", len(few))
	}
	// 160 that write, half of that again that fail, and 160 reviews.
	if r.Done != 80 || r.Sessions < 360 || r.Sessions > 440 {
		t.Errorf("%d of 80 issues are done, in %d sessions", r.Done, r.Sessions)
	}
}

// An issue is open until it is done, or to the end of the trial.
func TestOpen(t *testing.T) {
	trial := Trial{Config: Fleet(2, 2, 1), Load: issuesEach(4, time.Hour), Policy: Ours, Seed: 1}
	r := trial.Run()
	if r.Done != 4 || r.Open != r.Turn.Mean {
		t.Errorf("%d are done; open for %s, and done after %s", r.Done, r.Open, r.Turn.Mean)
	}
	trial.Outages, trial.Drain = []Outage{{Until: 100 * time.Hour}}, time.Hour
	r = trial.Run() // all wait to the fourth hour or, as the next event comes later, longer
	if want := 2*time.Hour + 30*time.Minute; r.Done != 0 || r.Open < want {
		t.Errorf("%d are done; open for %s, want %s", r.Done, r.Open, want)
	}
}

// A model is slower only in what it has learnt, and itself stays as it was.
func TestSlower(t *testing.T) {
	m := Learn(Journal{})
	m.delays[Checks] = []time.Duration{0, time.Minute, 2 * time.Minute}
	m.delays[Merging] = []time.Duration{0, 0, 0}
	slow := m.Slower(Checks, 2)
	if got := slow.delays[Checks]; !slices.Equal(got, []time.Duration{0, 2 * time.Minute, 4 * time.Minute}) {
		t.Errorf("checks take %v", got)
	}
	if m.delays[Checks][2] != 2*time.Minute {
		t.Error("the model was changed")
	}
	if m.Slower(Merging, 2) != nil || m.Slower(People, 2) != nil || (*Model)(nil).Slower(Checks, 2) != nil {
		t.Error("what takes no time, or is not known, got slower")
	}
}
