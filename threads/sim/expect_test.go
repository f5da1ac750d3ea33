package sim

import (
	"fmt"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestBandOf checks how many runs are on each side of a band.
func TestBandOf(t *testing.T) {
	at := func(i int) time.Time { return epoch.Add(time.Duration(i) * time.Minute) }
	for _, test := range []struct {
		runs, never       int
		low, middle, high int // minutes; 0 for no time
	}{
		{runs: 1, low: 1, middle: 1, high: 1},
		{runs: 10, low: 1, middle: 6, high: 10},
		{runs: 20, low: 2, middle: 11, high: 19},
		{runs: 40, low: 4, middle: 21, high: 37},
		{runs: 40, never: 3, low: 4, middle: 21, high: 37},
		{runs: 40, never: 4, low: 4, middle: 21},
		{runs: 40, never: 30, low: 4},
		{runs: 40, never: 40},
	} {
		var times []time.Time
		for i := test.runs; i > 0; i-- { // in descending order
			if i > test.runs-test.never {
				times = append(times, time.Time{})
				continue
			}
			times = append(times, at(i))
		}
		want := Band{}
		for _, x := range []struct {
			to *time.Time
			at int
		}{{&want.Low, test.low}, {&want.Middle, test.middle}, {&want.High, test.high}} {
			if x.at > 0 {
				*x.to = at(x.at)
			}
		}
		if got := bandOf(times); got != want {
			t.Errorf("bandOf(%d runs, %d without the event) = %v, want %v", test.runs, test.never, got, want)
		}
	}
}

// expect plays an outlook with the seeds below runs, and returns the result for its first item.
func expect(o *Outlook, runs int) Expected {
	var list []Outcome
	for seed := range uint64(runs) {
		list = append(list, o.Run(seed))
	}
	return o.Expect(list)[0]
}

// whole returns an outlook that keeps the whole forecast.
func whole(f *Forecast, ref forge.Ref) *Outlook {
	return &Outlook{near: f, refs: []forge.Ref{ref}, ask: Ask{Refs: []forge.Ref{ref}}}
}

// TestNear compares the bands of Near with those of whole forecasts: for the first issues, one that waits for the
// last, and one far behind, which is extrapolated.
func TestNear(t *testing.T) {
	s := standing(fleet(2, 1, 2), 200)
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	s.Facts.Issues[4].Blockers = []forge.Blocker{{Ref: ref(200), State: forge.BlockerOpen}}
	f := NewForecast(s, usualModel())
	for _, test := range []struct {
		number   int64
		most     int     // largest number of kept issues
		off      float64 // tolerance of the middle
		expected bool    // extrapolated
	}{{5, 172, 0.25, true}, {12, 76, 0.1, false}, {1, 54, 0.1, false}, {150, 172, 0.25, true}}[:sized(4, 2)] {
		o := f.Near([]forge.Ref{ref(test.number)})
		if len(o.near.issues) > test.most || len(o.far) > 0 != test.expected {
			t.Errorf("#%d: Near kept %d issues and extrapolates %v", test.number, len(o.near.issues), o.far)
		}
		runs := sized(10, 2)
		got, want := expect(o, runs), expect(whole(f, ref(test.number)), runs)
		for _, x := range []struct {
			name      string
			got, want time.Time
		}{{"start", got.Start.Middle, want.Start.Middle}, {"merge", got.Merged.Middle, want.Merged.Middle}} {
			is, was := x.got.Sub(s.Now).Seconds(), x.want.Sub(s.Now).Seconds()
			if is < was*(1-test.off) || is > was*(1+test.off) {
				t.Errorf("#%d: got %s after %.0f s, want %.0f s as in the whole forecast", test.number, x.name, is, was)
			}
		}
	}
}

// TestForecastOwnsItsHistory changes the ledger after NewForecast. The forecast must not change.
func TestForecastOwnsItsHistory(t *testing.T) {
	s := standing(fleet(1, 0, 1), 3)
	s.History.Agents["dev-0"] = &threads.AgentHistory{}
	ref := forge.Ref{Repo: "o/r", Number: 3}
	f := NewForecast(s, usualModel())
	before := expect(f.Near([]forge.Ref{ref}), 5)
	s.History.Agents["dev-0"].HeldUntil = s.Now.Add(100 * time.Hour)
	s.History.Agents["dev-0"].HeldWhy = "held"
	if after := expect(f.Near([]forge.Ref{ref}), 5); after != before {
		t.Errorf("got %v, want %v as before", after, before)
	}
}

// TestOutlookEnds requests the outlook of an issue that waits for a person. No run may continue to the horizon because
// of it.
func TestOutlookEnds(t *testing.T) {
	s := standing(fleet(4, 2, 2), 400)
	s.Facts.Issues[0].Labels = append(s.Facts.Issues[0].Labels, forge.LabelNeedsHuman)
	refs := []forge.Ref{s.Facts.Issues[0].Ref, s.Facts.Issues[1].Ref}
	o := NewForecast(s, usualModel()).Near(refs)
	runs := []Outcome{o.Run(1), o.Run(2)}
	for _, r := range runs {
		if r.Decisions > runPlans {
			t.Errorf("got a run of %d plans, want at most the limit", r.Decisions)
		}
	}
	list, until := o.Expect(runs), o.Until(runs)
	if !list[0].Start.Low.IsZero() || list[1].Merged.High.IsZero() || !until.After(list[1].Merged.High) {
		t.Errorf("got %+v until %s, want only the second issue merged", list, until)
	}
	o = NewForecast(s, usualModel()).Near(refs[1:])
	if until := o.Until([]Outcome{o.Run(1)}); !until.IsZero() {
		t.Errorf("Until = %s after a run in which all is merged, want zero", until)
	}
}

// TestFront expects items of running sessions before waiting ones.
func TestFront(t *testing.T) {
	s := standing(fleet(1, 0, 1), 9)
	s.Sessions = []threads.Session{{
		RunID: "x", Thread: "write", Agent: "dev-0", Login: "dev-0", Role: "dev", State: threads.Running, Attempt: 1,
		Started: s.Now, Item: threads.Item{Kind: "issue", Ref: s.Facts.Issues[8].Ref, Chain: s.Facts.Issues[8].Ref},
	}}
	if got, want := fmt.Sprint(NewForecast(s, usualModel()).Front(2)), "[o/r#9 o/r#1 o/r#2]"; got != want {
		t.Errorf("Front(2) = %s, want %s", got, want)
	}
}

// BenchmarkExpect requests the times of an issue at several places in a queue of 1,000.
func BenchmarkExpect(b *testing.B) {
	for _, at := range []int64{1, 20, 60, 900} {
		b.Run(fmt.Sprint(at), func(b *testing.B) {
			s := standing(fleet(4, 2, 2), 1000)
			ref := forge.Ref{Repo: "o/r", Number: at}
			for b.Loop() {
				expect(NewForecast(s, usualModel()).Near([]forge.Ref{ref}), 20)
			}
		})
	}
}

// TestExpectPull requests the times of a pull request, which are those of its issue.
func TestExpectPull(t *testing.T) {
	s := standing(fleet(1, 1, 1), 60)
	is := &s.Facts.Issues[3]
	s.Facts.Pulls = []forge.Pull{{
		Ref: forge.Ref{Repo: "o/r", Number: 1000}, Author: "dev-0", Created: is.Created, Updated: is.Created, AsOf: s.Now,
		Closes: []forge.Ref{is.Ref}, Head: "fix/issue-4", HeadSHA: "1", Base: "main", Mergeable: forge.MergeClean,
	}}
	f := NewForecast(s, usualModel())
	pull, issue := expect(f.Near([]forge.Ref{s.Facts.Pulls[0].Ref}), 8), expect(f.Near([]forge.Ref{is.Ref}), 8)
	if pull.Ref.Number != 1000 || pull.Merged.High.IsZero() || pull.Merged != issue.Merged || pull.Code != issue.Code {
		t.Errorf("got %+v for the pull request, want the fate of its issue %+v", pull, issue)
	}
}

// TestNewIssueOfAPullsNumber: issues and pull requests of a forge share their numbers, so an issue filed in a run
// must not get a pull request's number.
func TestNewIssueOfAPullsNumber(t *testing.T) {
	s := standing(fleet(2, 0, 1), 3)
	is := &s.Facts.Issues[2]
	s.Facts.Pulls = []forge.Pull{{
		Ref: forge.Ref{Repo: "o/r", Number: 4}, Author: "dev-0", Created: is.Created, Updated: is.Created, AsOf: s.Now,
		Closes: []forge.Ref{is.Ref}, Head: "fix/issue-3", HeadSHA: "1", Base: "main", Mergeable: forge.MergeClean,
	}}
	m := usualModel()
	m.perHour, m.filed = 10, []Work{{Priority: 5}}
	f := NewForecast(s, m)
	for seed := range uint64(5) {
		if o := f.Run(seed, Ask{Refs: []forge.Ref{is.Ref}, Decisions: 2000}); o.Fate(is.Ref).Merged.IsZero() {
			t.Errorf("seed %d: not merged after %d plans", seed, o.Decisions)
		}
	}
}
