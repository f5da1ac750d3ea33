// Package advice asks the simulator what would hurt a factory most, and what would help it most.
//
// Break plays a week with each harm (harms.go) and with pairs of the worst ones. It then plays the worst week with
// each change of the configuration that may help (changes.go). Advise plays the unharmed week with each of these
// changes: the worth of one more slot, agent or dollar.
//
// Each variant is played several times. The first play has the work of the trial; in the others, the issues swap
// their sessions (sim.Load.Dealt). All variants share the loads and seeds, so their differences come from what is
// varied, and the spread of these differences says how sure an answer is. The same question has the same answer on
// every machine.
package advice

import (
	"cmp"
	"math"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// Question is a factory, its work, and how to play them.
type Question struct {
	// Trial has the configuration, the load and the model.
	Trial sim.Trial
	// Length is the length of the trial: an issue that is not done by its end counts as undone.
	Length time.Duration
	// Play plays trials and returns their reports in the same order; it may play several at once. Fewer reports end the
	// search without an answer. Nil plays one trial after the other.
	Play func([]sim.Trial) []sim.Report

	enough int // in place of enoughSessions; 0 means enoughSessions
}

// Figure is the mean over all plays of a variant, and its 99 % confidence interval.
type Figure struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Sure reports whether a difference exceeds chance.
func (f Figure) Sure() bool { return f.Low > 0 || f.High < 0 }

// Outcome sums up the plays of a variant: its numbers, or their differences from another variant's.
type Outcome struct {
	Issues Figure `json:"issues"`
	Done   Figure `json:"done"`
	Undone Figure `json:"undone"`
	Waits  Figure `json:"waits"` // an issue's mean seconds from filing to its first session
	Open   Figure `json:"open"`  // an issue's mean seconds from filing to done, or to the end if it is undone
	USD    Figure `json:"usd"`   // cost of the sessions, as far as known
}

// measures maps each number of an Outcome to its number in a report.
var measures = []struct {
	of  func(*Outcome) *Figure
	get func(*sim.Report) float64
}{
	{func(o *Outcome) *Figure { return &o.Issues }, func(r *sim.Report) float64 { return float64(r.Issues) }},
	{func(o *Outcome) *Figure { return &o.Done }, func(r *sim.Report) float64 { return float64(r.Done) }},
	{func(o *Outcome) *Figure { return &o.Undone }, func(r *sim.Report) float64 { return float64(r.Issues - r.Done) }},
	{func(o *Outcome) *Figure { return &o.Waits }, func(r *sim.Report) float64 { return r.First.Mean.Seconds() }},
	{func(o *Outcome) *Figure { return &o.Open }, func(r *sim.Report) float64 { return r.Open.Seconds() }},
	{func(o *Outcome) *Figure { return &o.USD }, func(r *sim.Report) float64 { return r.CostUSD }},
}

// outcomeOf sums up the plays of one variant or, if base is not nil, their differences from those of base. It takes the
// plays that both have.
func outcomeOf(reports, base []sim.Report) (o Outcome) {
	if base != nil {
		reports = reports[:min(len(reports), len(base))]
	}
	list := make([]float64, len(reports))
	for _, m := range measures {
		for i := range reports {
			if list[i] = m.get(&reports[i]); base != nil {
				list[i] -= m.get(&base[i])
			}
		}
		*m.of(&o) = figureOf(list)
	}
	return o
}

// student has the two-sided 99 % quantiles of Student's distribution, by the number of plays.
var student = map[int]float64{
	4: 5.841, 5: 4.604, 6: 4.032, 7: 3.707, 8: 3.499, 9: 3.355, 10: 3.250, 11: 3.169, 12: 3.106,
}

// Each variant is played firstPlays times. Unless the sign of its difference is then certain, it is played once with
// each load of the search. A search has leastPlays to mostPlays loads.
const firstPlays, leastPlays, mostPlays = 4, 6, 12

func figureOf(list []float64) Figure {
	n := float64(len(list))
	var sum, squares float64
	for _, x := range list {
		sum += x
	}
	mean := sum / n
	for _, x := range list {
		squares += (x - mean) * (x - mean)
	}
	off := student[len(list)] * math.Sqrt(squares/(n-1)/n)
	return Figure{Mean: mean, Low: mean - off, High: mean + off}
}

// enoughSessions is about how many sessions are played in total. They take ten seconds of one processor.
const enoughSessions = 250_000

// plays returns how often each variant is played, by the sessions of one play: as often as enoughSessions allows.
func (q *Question) plays(variants, sessions int) int {
	return max(leastPlays, min(mostPlays, cmp.Or(q.enough, enoughSessions)/max(1, variants*sessions)))
}

// search plays variants of a question.
type search struct {
	Question
	loads []sim.Load   // one for each play
	plain []sim.Report // plays of the unchanged configuration without harms
	ended bool         // Play ended the search
}

// search plays the unchanged configuration, for comparison with the given number of variants.
func (q *Question) search(variants int) *search {
	s := &search{Question: *q, loads: []sim.Load{q.Trial.Load}}
	as := variant{config: q.Trial.Config}
	s.plain = s.play(s.trials(nil, &as, 0))
	if s.ended {
		return s
	}
	for n := 1; n < q.plays(1+variants, s.plain[0].Sessions); n++ {
		s.loads = append(s.loads, q.Trial.Load.Dealt(q.Trial.Seed+uint64(n)))
	}
	s.plain = append(s.plain, s.play(s.trials(nil, &as, 1))...)
	return s
}

// variant is one configuration in one kind of week.
type variant struct {
	config *threads.Config
	harms  []harm
}

// trials appends the trials of a variant, from the given play on.
func (s *search) trials(list []sim.Trial, v *variant, from int) []sim.Trial {
	for n := from; n < len(s.loads); n++ {
		t := s.Trial
		t.Load, t.Seed, t.Policy, t.Quiet = s.loads[n], s.Trial.Seed+uint64(n), sim.Ours, true
		t.Config = v.config
		for _, h := range v.harms {
			h.befall(&t, s.Length)
		}
		t.Drain = max(1, s.Length-t.Load[len(t.Load)-1].At)
		list = append(list, t)
	}
	return list
}

// run plays each variant until its difference from beside is settled, at most once with each load.
func (s *search) run(list []variant, beside []sim.Report) [][]sim.Report {
	played := make([][]sim.Report, len(list))
	loads := s.loads
	defer func() { s.loads = loads }()
	for _, upTo := range []int{firstPlays, len(loads)} {
		s.loads = loads[:upTo]
		var trials []sim.Trial
		for i := range list {
			if len(played[i]) == 0 || !outcomeOf(played[i], beside).settled() {
				trials = s.trials(trials, &list[i], len(played[i]))
			}
		}
		reports := s.play(trials)
		if s.ended {
			return make([][]sim.Report, len(list))
		}
		for i := range list {
			if from := len(played[i]); from == 0 || !outcomeOf(played[i], beside).settled() {
				played[i], reports = append(played[i], reports[:upTo-from]...), reports[upTo-from:]
			}
		}
	}
	return played
}

// whole plays a variant with the loads that it has not been played with.
func (s *search) whole(w *tried) {
	w.played = append(w.played, s.play(s.trials(nil, &w.variant, len(w.played)))...)
}

// settled reports whether more plays are needless. Either nothing differs, or the signs are certain: that of the time
// that issues are open, and those of done and undone issues unless these hardly differ.
func (o Outcome) settled() bool {
	const smallest = 0.5 // issues
	alike := o.Waits == Figure{} && o.Open == Figure{} && o.Done == Figure{} && o.Undone == Figure{} && o.USD == Figure{}
	return alike || o.Open.surer() && (o.Done.surer() || math.Abs(o.Done.Mean) < smallest) &&
		(o.Undone.surer() || math.Abs(o.Undone.Mean) < smallest)
}

// surer is Sure with 99.5 % instead of 99 % after firstPlays, because a search that tests twice errs more often.
func (f Figure) surer() bool {
	const wider = 7.453 / 5.841
	return math.Abs(f.Mean) > wider*(f.High-f.Mean)
}

// play plays trials. It returns nothing if Play ends the search.
func (s *search) play(trials []sim.Trial) []sim.Report {
	if s.ended {
		return nil
	}
	var reports []sim.Report
	if s.Play != nil {
		reports = s.Play(trials)
	} else {
		for i := range trials {
			reports = append(reports, trials[i].Run())
		}
	}
	if s.ended = len(reports) < len(trials); s.ended {
		return nil
	}
	return reports
}
