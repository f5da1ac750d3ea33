package sim

import (
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// standing is a factory with some waiting issues.
func standing(config *threads.Config, issues int) threads.Snapshot {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	s := threads.Snapshot{Now: now, Config: config, History: threads.NewHistory()}
	s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: now, DefaultBranch: "main"}}
	s.History.Listens["o/r"] = now // every pull request may be from a session
	for i := range issues {
		at := now.Add(time.Duration(i-issues) * time.Minute)
		s.Facts.Issues = append(s.Facts.Issues, forge.Issue{
			Ref: forge.Ref{Repo: "o/r", Number: int64(i + 1)}, Author: "ada", Labels: []string{forge.LabelBacklog}, Created: at,
			Updated: at, BlockersKnown: true, AsOf: now,
		})
	}
	return s
}

// usualModel has learnt nothing.
func usualModel() *Model { return Learn(Journal{}) }

// TestForecast continues a moment with a running session, an issue in the queue, one that waits for another, and one
// that waits for a person.
func TestForecast(t *testing.T) {
	s := standing(fleet(1, 0, 1), 4)
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	issues := s.Facts.Issues
	issues[0].Labels, issues[0].Assignees = []string{forge.LabelBacklog, forge.LabelInProgress}, []string{"dev-0"}
	issues[2].Blockers = []forge.Blocker{{Ref: ref(2), State: forge.BlockerOpen}}
	issues[3].Labels = []string{forge.LabelBacklog, forge.LabelNeedsHuman}
	began := s.Now.Add(-30 * time.Minute)
	s.Sessions = []threads.Session{{
		RunID: "x", Thread: "write", Agent: "dev-0", Login: "dev-0", Role: "dev", State: threads.Running, Attempt: 1,
		Started: began, Item: threads.Item{Kind: agents.KindIssue, Ref: ref(1), Chain: ref(1)},
	}}
	turned := map[agents.Kind]time.Time{agents.KindIssue: began}
	s.History.Repos["o/r"] = &threads.RepoHistory{Turns: maps.Clone(turned)}
	f := NewForecast(s, usualModel())
	for seed := range uint64(20) {
		o := f.Run(seed, Ask{Horizon: 5 * 24 * time.Hour})
		one, two, three, four := o.Fate(ref(1)), o.Fate(ref(2)), o.Fate(ref(3)), o.Fate(ref(4))
		if !one.Start.Equal(began) || !one.Merged.After(s.Now) || !two.Start.After(s.Now) || !two.Merged.After(two.Start) {
			t.Errorf("seed %d: got %+v and %+v, want both merged", seed, one, two)
		}
		if three.Start.Before(two.Merged) || three.Code != threads.BlockerOpen {
			t.Errorf("seed %d: got the third issue %+v, want it to start after the second's merge %+v", seed, three, two)
		}
		if !four.Start.IsZero() || !four.Merged.IsZero() || four.Code != threads.SkipLabel {
			t.Errorf("seed %d: got %+v, want an issue that waits for a person", seed, four)
		}
		if again := f.Run(seed, Ask{Horizon: 5 * 24 * time.Hour}); !reflect.DeepEqual(o.Fates, again.Fates) {
			t.Errorf("seed %d: two runs differ", seed)
		}
		short := f.Run(seed, Ask{Refs: []forge.Ref{ref(2)}})
		if got := short.Fate(ref(2)); *got != *two || short.Decisions > o.Decisions {
			t.Errorf("seed %d: asked for one issue only: got %+v, want %+v", seed, got, two)
		}
	}
	if s.Facts.Issues[0].Assignees[0] != "dev-0" || len(s.History.Chains) > 0 ||
		!maps.Equal(s.History.Repos["o/r"].Turns, turned) {
		t.Error("a forecast changed its snapshot")
	}
}

// BenchmarkForecast requests the forecast of an issue at several places in a queue of 1,000.
func BenchmarkForecast(b *testing.B) {
	for _, at := range []int64{1, 20, 100} {
		b.Run(fmt.Sprint(at), func(b *testing.B) {
			s := standing(fleet(4, 2, 2), 1000)
			for b.Loop() {
				f := NewForecast(s, usualModel())
				n := 0
				for seed := range uint64(10) {
					o := f.Run(seed, Ask{Refs: []forge.Ref{{Repo: "o/r", Number: at}}, Decisions: 5000})
					n += o.Decisions
				}
				b.ReportMetric(float64(n)/10, "plans/run")
			}
		})
	}
}
