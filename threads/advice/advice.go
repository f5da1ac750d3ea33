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

	enough int // in place of enoughIssues; 0 means enoughIssues
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
	USD    Figure `json:"usd"`   // cost of the sessions, as far as it is known
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

// outcomeOf sums up the plays of one variant or, if base is not nil, their differences from those of base.
func outcomeOf(reports, base []sim.Report) (o Outcome) {
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
var student = map[int]float64{6: 4.032, 7: 3.707, 8: 3.499, 9: 3.355, 10: 3.250, 11: 3.169, 12: 3.106}

// Each variant is played at least leastPlays and at most mostPlays times.
const leastPlays, mostPlays = 6, 12

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

// enoughIssues is about how many issues are played in total. They take ten seconds of one processor.
const enoughIssues = 40_000

// plays returns how often each variant is played: as often as enoughIssues allows.
func (q *Question) plays(variants int) int {
	return max(leastPlays, min(mostPlays, cmp.Or(q.enough, enoughIssues)/max(1, variants*len(q.Trial.Load))))
}

// search plays variants of a question.
type search struct {
	Question
	loads []sim.Load // one for each play
	ended bool       // Play ended the search
}

func (q *Question) search(variants int) *search {
	s := &search{Question: *q, loads: []sim.Load{q.Trial.Load}}
	for n := 1; n < q.plays(variants); n++ {
		s.loads = append(s.loads, q.Trial.Load.Dealt(q.Trial.Seed+uint64(n)))
	}
	return s
}

// variant is one configuration in one kind of week.
type variant struct {
	config *threads.Config
	harms  []harm
}

// run plays each variant once with each load.
func (s *search) run(list []variant) [][]sim.Report {
	var trials []sim.Trial
	for i := range list {
		for n, load := range s.loads {
			t := s.Trial
			t.Load, t.Seed, t.Policy, t.Quiet = load, s.Trial.Seed+uint64(n), sim.Ours, true
			t.Config = list[i].config
			for _, h := range list[i].harms {
				h.befall(&t, s.Length)
			}
			t.Drain = max(1, s.Length-t.Load[len(t.Load)-1].At)
			trials = append(trials, t)
		}
	}
	reports := s.play(trials)
	if len(reports) < len(trials) {
		s.ended = true
		return make([][]sim.Report, len(list))
	}
	split := make([][]sim.Report, len(list))
	for i := range list {
		split[i] = reports[i*len(s.loads) : (i+1)*len(s.loads)]
	}
	return split
}

func (s *search) play(trials []sim.Trial) []sim.Report {
	if s.ended {
		return nil
	}
	if s.Play != nil {
		return s.Play(trials)
	}
	reports := make([]sim.Report, len(trials))
	for i := range trials {
		reports[i] = trials[i].Run()
	}
	return reports
}
