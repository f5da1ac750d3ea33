package hindsight

import (
	"os"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// look searches the first days of a journal for drift. The journal is of a factory with two slots.
func look(j sim.Journal, days float64) Drift {
	now := monday.Add(time.Duration(days * float64(day)))
	return LookForDrift(j.Before(now), now, func(time.Time) *threads.Config { return fleet(2) }, never)
}

// The sessions of one agent, checks, merges, failures or outages change after the fourth day. changes names each.
func TestDriftNamed(t *testing.T) {
	const days, since = 6, 4 * day
	later := monday.Add(since)
	work := load(days, 27, 3, nil)
	same, _ := diary(t, fleet(2), work)
	slow, _ := diary(t, fleet(2), load(days, 27, 3, func(w *sim.Work) {
		for i := range w.Steps {
			if w.At > since && w.Pin == "dev-1" {
				w.Steps[i].Took *= 2
			}
		}
	}))
	for name, tt := range map[string]struct {
		journal sim.Journal
		change  func(j *sim.Journal)
		kind    Kind
		what    string
	}{
		"nothing":  {same, func(*sim.Journal) {}, "", ""},
		"an agent": {slow, func(*sim.Journal) {}, Slower, "issue, dev-1"},
		"checks": {same, func(j *sim.Journal) {
			for i := range j.Past { // checks take one minute, and six after the change
				late := time.Minute
				p := &j.Past[i]
				if p.Start.After(later) {
					late *= 6
				}
				if p.Kind == agents.KindReview {
					p.Start, p.End = p.Start.Add(late), p.End.Add(late)
				}
			}
		}, Checks, "checks"},
		"the forge": {same, func(j *sim.Journal) {
			for i := range j.Timeline.Merges {
				if m := &j.Timeline.Merges[i]; m.When.After(later) {
					m.When = m.When.Add(time.Minute)
				}
			}
		}, Forge, "merge"},
		"failures": {same, spoil(later, agents.Failed), Failures, "failures"},
		"outages":  {same, spoil(later, agents.BackendDown), Outages, "outages"},
	} {
		t.Run(name, func(t *testing.T) {
			j := sim.Journal{Past: slices.Clone(tt.journal.Past)}
			j.Timeline.Merges = slices.Clone(tt.journal.Timeline.Merges)
			tt.change(&j)
			list := changes(j, later)
			for i, c := range list {
				if c.Kind != tt.kind || i == 0 && c.What != tt.what || c.Is < 1.4*c.Was || c.Times < leastNow {
					t.Errorf("got change %+v, want kind %q first, at 1.4 times the earlier value", c, tt.kind)
				}
			}
			if (len(list) > 0) != (tt.what != "") {
				t.Errorf("got %d changes, want some: %t", len(list), tt.what != "")
			}
		})
	}
}

// From the seventh day on, all writers take twice as long: the waits are longer than predicted.
func TestDriftOfWaits(t *testing.T) {
	if os.Getenv("DISINTO_STORMS") == "" {
		t.Skip("takes ten seconds")
	}
	j, _ := diary(t, fleet(2), load(10, 55, 3, func(w *sim.Work) {
		for i := range w.Steps {
			if w.At > 7*day {
				w.Steps[i].Took *= 2
			}
		}
	}))
	if d := look(j, 10); d.Misses != 1 || len(d.Changes) < 2 || d.Fits() {
		t.Errorf("got %+v, want waits longer than predicted and at least 2 changes", d)
	}
}

// A wait misses a band only if it is beyond it by more than a fifth and a minute.
func TestBand(t *testing.T) {
	b := Band{Low: 10 * time.Minute, Middle: 12 * time.Minute, High: 20 * time.Minute}
	for real, want := range map[time.Duration]int{
		0: -1, 7 * time.Minute: -1, 8 * time.Minute: 0, 20 * time.Minute: 0, 25 * time.Minute: 0, 26 * time.Minute: 1,
	} {
		if got := b.misses(real); got != want {
			t.Errorf("misses(%s) = %d, want %d", real, got, want)
		}
	}
}

// spoil gives every third session that starts after a time another result.
func spoil(since time.Time, how agents.Result) func(j *sim.Journal) {
	return func(j *sim.Journal) {
		for i := range j.Past {
			if p := &j.Past[i]; i%3 == 0 && p.Start.After(since) {
				p.Outcome, p.Verdict = how, ledger.Verdict("")
			}
		}
	}
}

// An unchanged factory hardly ever shows drift. A run of ten minutes over 30 days of each of five seeds had 4 false
// alarms in 150 days, and 14 days outside their bands. This test takes every fourth day of two seeds, and in make
// test one day.
func TestNoDrift(t *testing.T) {
	seeds, first, days, judged, perDay := uint64(1), 2, 3, 1, 16.0
	if os.Getenv("DISINTO_STORMS") != "" {
		seeds, first, days, judged, perDay = 2, 4, 34, driftDays, 50
	}
	looked, alarms, missed := 0, 0, 0
	for seed := range seeds {
		j, _ := diary(t, fleet(2), load(float64(days), perDay, seed+11, nil))
		for n := first; n < days; n += 4 {
			d := look(j, float64(n))
			looked++
			if !d.Fits() {
				alarms++
				t.Logf("seed %d, day %d: %d, %+v", seed, n, d.Misses, d.Changes)
			}
			if len(d.Days) != judged {
				t.Errorf("seed %d, day %d: got %d judged days, want %d", seed, n, len(d.Days), judged)
			}
			if len(d.Days) > 0 && d.Days[0].Misses != 0 {
				missed++
			}
		}
	}
	t.Logf("%d false alarms in %d days, %d of them outside their bands", alarms, looked, missed)
	if alarms*20 > looked {
		t.Errorf("%d false alarms in %d days, want at most one in twenty", alarms, looked)
	}
}

// Foretell does not judge a young factory, or a day without work.
func TestForetoldYoung(t *testing.T) {
	j, _ := diary(t, fleet(2), load(1.5, 50, 5, nil))
	if d := look(j, 1); len(d.Days) != 0 || !d.Fits() {
		t.Errorf("first day: got %+v, want no judged day", d)
	}
	if d := look(j, 6); len(d.Days) != 0 || !d.Fits() {
		t.Errorf("long after the work: got %+v, want no judged day", d)
	}
	asked := 0
	f := Foretell(j, fleet(2), monday.Add(12*time.Hour), func() bool { asked++; return asked > 100 })
	if f != nil {
		t.Errorf("Foretell without time returned %+v, want nil", f)
	}
}
