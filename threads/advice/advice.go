// Package advice asks the simulator what would hurt a factory most, and what would help it most.
//
// Break plays a week with each thing that may go wrong (harms.go), and with the worst of them in pairs, and then the
// worst week with each change of the configuration that may help (changes.go). Advise plays the time as it was with
// each of these changes: what one more slot, agent or dollar would have been worth.
//
// Each question is played several times, each time with other luck: the first time has the work of the trial, and in
// the others the issues have each other's sessions (sim.Load.Dealt). All variants of one time meet the same luck, so
// the differences between them come from what they differ in, and how much these differences differ tells how sure an
// answer is. The same question has the same answer on every machine.
package advice

import (
	"cmp"
	"math"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// Question says which factory and which work is asked about.
type Question struct {
	// Trial has the configuration, the load, and all that they are played with.
	Trial sim.Trial
	// Length is how long the trial goes on: what is not done by then counts as not done.
	Length time.Duration
	// Play plays trials and returns their reports in the same order. Fewer of them end the search without an answer. It
	// may play several at once. Nil plays one after the other.
	Play func([]sim.Trial) []sim.Report

	enough int // in place of enoughIssues; 0 for that
}

// Figure is a mean of all plays of a question, and the range that the true one is in, which is as sure as 99 of 100.
type Figure struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Sure reports whether a difference can be told from chance.
func (f Figure) Sure() bool { return f.Low > 0 || f.High < 0 }

// Outcome sums up plays: what became of the work or, beside another one, the differences.
type Outcome struct {
	Issues Figure `json:"issues"`
	Done   Figure `json:"done"`
	Undone Figure `json:"undone"`
	Waits  Figure `json:"waits"` // seconds from filing to the first session, of an issue
	Open   Figure `json:"open"`  // seconds from filing to done or, of an issue that is not, to the end
	USD    Figure `json:"usd"`   // what the sessions cost, where that is known
}

// measures has the numbers of an outcome in a report.
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

// outcomeOf sums up the plays of one variant or, if base is not nil, how they differ from those of another.
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

// The least and the most plays of a variant.
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

// enoughIssues is about how many issues are played in all: ten seconds of one processor.
const enoughIssues = 40_000

// plays is how often each of several variants is played: as often as takes seconds.
func (q *Question) plays(variants int) int {
	return max(leastPlays, min(mostPlays, cmp.Or(q.enough, enoughIssues)/max(1, variants*len(q.Trial.Load))))
}

// search plays variants of a question.
type search struct {
	Question
	loads []sim.Load // one for each play
	ended bool       // it was told to stop
}

func (q *Question) search(variants int) *search {
	s := &search{Question: *q, loads: []sim.Load{q.Trial.Load}}
	for n := 1; n < q.plays(variants); n++ {
		s.loads = append(s.loads, q.Trial.Load.Dealt(q.Trial.Seed+uint64(n)))
	}
	return s
}

// variant is one factory in one kind of week.
type variant struct {
	config *threads.Config
	harms  []harm
}

// run plays variants, each as often as there are loads.
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
