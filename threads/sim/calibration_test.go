package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// nature generates the work of a factory, whose rules no forecast knows: some issues are harder than others in each
// session.
type nature struct {
	name   string
	config func() *threads.Config
	perDay float64 // mean number of issues
}

// natures are the factories in which TestCalibration compares forecasts with what happens.
var natures = []nature{
	{name: "one local thread", perDay: 85, config: func() *threads.Config {
		return polled(fleet(2, 2, 1))
	}},
	{name: "two API threads with reviewers", perDay: 135, config: func() *threads.Config {
		return polled(fleet(3, 0, 2))
	}},
	{name: "budgets and windows", perDay: 45, config: func() *threads.Config {
		cfg := polled(fleet(3, 0, 1))
		write := cfg.Thread("write")
		write.Budget = agents.Budget{USD: 22}
		write.Windows = []threads.Window{{Length: 5 * time.Hour, Budget: agents.Budget{USD: 8}}}
		return cfg
	}},
}

// polled sets the default intervals of factory.toml.
func polled(cfg *threads.Config) *threads.Config {
	for i := range cfg.Threads {
		cfg.Threads[i].Interval, cfg.Threads[i].IdleInterval = 5*time.Second, 30*time.Second
		cfg.Threads[i].BreakerInterval = 5 * time.Minute
	}
	cfg.Forge.MaxReviewRounds = 5
	return cfg
}

// load generates issues for some days, each with more sessions than it will need.
func (n *nature) load(rng *rand.Rand, days int) (load Load) {
	lognormal := func(sigma float64) float64 { return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2) }
	step := func(mean, hard float64) Step {
		took := seconds(60 * mean * hard * lognormal(0.6))
		s := Step{Took: took, Result: agents.Done, Usage: &agents.Usage{
			InputTokens: int64(took.Seconds() * 150), CostUSD: took.Hours() * 1.2,
		}}
		if rng.Float64() < 0.05 {
			s.Result = agents.Failed
		}
		return s
	}
	for at := 0.0; ; {
		if at += rng.ExpFloat64() / n.perDay * 24; at > float64(24*days) {
			return load
		}
		w := Work{At: time.Duration(at * float64(time.Hour)), Priority: 5, Pulls: true}
		if rng.IntN(10) == 0 {
			w.Priority = 2
		}
		hard := lognormal(0.4)
		for range 12 {
			w.Steps = append(w.Steps, step(18, hard))
			look := step(5, 1)
			if look.Verdict = ledger.Approved; rng.Float64() < 0.3 {
				look.Verdict = ledger.ChangesRequested
			}
			w.Looks = append(w.Looks, look)
		}
		load = append(load, w)
	}
}

// bands counts the real times before, within and after their bands.
type bands struct{ early, held, late int }

// count counts one time. Bands are read to the minute, as they are shown.
func (s *bands) count(b Band, was time.Time) {
	switch {
	case was.Before(b.Low.Truncate(time.Minute)):
		s.early++
	case b.High.IsZero() || !was.IsZero() && was.Before(b.High.Truncate(time.Minute).Add(time.Minute)):
		s.held++
	default:
		s.late++
	}
}

func (s *bands) add(o bands) { s.early, s.held, s.late = s.early+o.early, s.held+o.held, s.late+o.late }

func (s *bands) of() int { return s.early + s.held + s.late }

func (s *bands) percent() float64 { return 100 * float64(s.held) / float64(max(1, s.of())) }

func (s *bands) String() string {
	part := func(n int) int { return 100 * n / max(1, s.of()) }
	return fmt.Sprintf("%.1f %% of %d held, %d %% early, %d %% late", s.percent(), s.of(), part(s.early), part(s.late))
}

// foreseen is a forecast of some issues.
type foreseen struct {
	at   time.Time
	list []Expected
}

// live plays a factory for some days, and at random times forecasts the start and merge of some issues. On the days
// before, it only learns.
func (n *nature) live(seed uint64, before, days int, rest time.Duration) (starts, merges bands) {
	rng := rand.New(rand.NewPCG(seed, 99))
	load := n.load(rng, before+days)
	tr := newTrial(Trial{Config: n.config(), Load: load, Policy: Ours, Seed: seed, Model: Learn(Journal{})})
	tr.Quiet = true
	tr.open()
	asked := tr.Now.Add(time.Duration(before) * 24 * time.Hour)
	var said []foreseen
	for !tr.finished() && tr.Next() {
		released := func(x *trialRun) bool { return x.over } // a forecast would play another session of it
		if tr.Now.Before(asked) || tr.left == 0 || slices.ContainsFunc(tr.runs, released) {
			continue
		}
		asked = tr.Now.Add(time.Duration(rng.ExpFloat64() * float64(rest)))
		said = append(said, tr.foresee(rng))
	}
	began := make(map[forge.Ref][]time.Time)
	for i := range tr.books.Past {
		p := &tr.books.Past[i]
		began[forge.Ref(p.Chain)] = append(began[forge.Ref(p.Chain)], p.Start)
	}
	for _, f := range said {
		for _, e := range f.list {
			if !e.Merged.Low.IsZero() {
				merges.count(e.Merged, tr.at[e.Ref].ended)
			}
			next := slices.IndexFunc(began[e.Ref], func(t time.Time) bool { return t.After(f.at) })
			if e.Start.Low.After(f.at) && next >= 0 {
				starts.count(e.Start, began[e.Ref][next])
			}
		}
	}
	return starts, merges
}

// foresee forecasts three issues that run or wait, with the code of why --until.
func (tr *trial) foresee(rng *rand.Rand) foreseen {
	j := Journal{Past: slices.Clone(tr.books.Past)}
	for i := range j.Past { // adds what a supervisor would journal
		p := &j.Past[i]
		t := tr.at[forge.Ref(p.Chain)]
		if p.Priority = t.Work.Priority; p.Kind == agents.KindIssue && p.Attempt == 1 {
			p.Ready = t.Created
		}
	}
	for _, t := range tr.issues {
		if t.merged {
			j.Timeline.Merges = append(j.Timeline.Merges, ledger.Merged{
				Ref: ledger.Ref(t.pull.Ref), Chain: ledger.Ref(t.Issue.Ref), When: t.ended,
			})
		}
	}
	f := NewForecast(tr.snapshot(true), Learn(j))
	var refs []forge.Ref
	for range 20 {
		list := f.Front(40)
		if len(list) == 0 || len(refs) == 3 {
			break
		}
		if ref := f.chain(list[rng.IntN(len(list))]); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	near := f.Near(refs)
	var runs []Outcome
	for seed := range uint64(20) {
		runs = append(runs, near.Run(seed))
	}
	return foreseen{tr.Now, near.Expect(runs)}
}

// TestCalibration compares 80 % bands with what happened in months of simulated factories: 75 to 85 % must hold.
// Without DISINTO_STORMS, it only checks that a few days give forecasts, and that a third of them holds.
func TestCalibration(t *testing.T) {
	if !storms() {
		starts, merges := natures[0].live(0, 1, 1, 6*time.Hour)
		t.Logf("starts %s; merges %s", &starts, &merges)
		if all := starts.of() + merges.of(); all < 3 || 3*(starts.held+merges.held) < all {
			t.Errorf("got starts %s, merges %s, want at least 3 bands, a third of them held", &starts, &merges)
		}
		return
	}
	var starts, merges bands
	for i := range natures {
		n := &natures[i]
		for seed := range uint64(3) {
			s, m := n.live(seed, 3, 30, 36*time.Hour)
			t.Logf("%s, seed %d: starts %s; merges %s", n.name, seed, &s, &m)
			starts.add(s)
			merges.add(m)
		}
	}
	t.Logf("starts %s; merges %s", &starts, &merges)
	for _, s := range []bands{starts, merges} {
		if s.percent() < 75 || s.percent() > 85 || s.of() < 150 {
			t.Errorf("got %s, want 75 to 85 %% of at least 150 held", &s)
		}
	}
}
