package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Model says how long things take in a factory, how sessions end and how often issues are filed. Learn makes one from
// a journal. It never changes, so trials may share one.
//
// Draws are whole sessions of the past, so that a time, its outcome and its use stay together. The same seed draws the
// same for the same session of the same issue, whatever else a trial does: two configurations meet the same luck.
type Model struct {
	sessions map[peers][]Sample        // of at least leastSessions each
	counts   map[peers]int             // of all, also where there are too few
	delays   map[Delay][]time.Duration // sorted, of at least leastDelays each
	numbers  map[Delay]int
	red      share  // pushes whose checks fail
	filed    []Work // what was filed, without its sessions
	perHour  float64
}

// peers groups sessions that are alike.
type peers struct {
	agent, thread string // at most one of them
	kind          agents.Kind
	role          string // of scheduled work
}

// Sample is one session.
type Sample struct {
	Took    time.Duration
	Result  agents.Result
	Verdict ledger.Verdict // of a review
	Usage   *agents.Usage  // nil: unknown

	usual bool // not of a journal: without the time in which it reads its context
}

// share counts how often something is so.
type share struct{ yes, of int }

// Delay is a time that something beside sessions takes.
type Delay string

// The delays.
const (
	Handover Delay = "handover" // from the end of a session to the start of the next one, while work waits
	Notice   Delay = "notice"   // from filing to the start, while an agent and its slot are free
	Claim    Delay = "claim"    // from a start to the program
	Checks   Delay = "checks"   // from a push to the result of the checks
	Merging  Delay = "merge"    // from an approval to the merge
	People   Delay = "people"   // from a question, or needs-human, to what a person does about it
)

// Delays are all delays.
var Delays = []Delay{Handover, Notice, Claim, Checks, Merging, People}

// usualDelay has the delay where too few were seen.
var usualDelay = map[Delay]time.Duration{Handover: 2 * time.Second, Merging: 3 * time.Second, People: time.Hour}

// With fewer than these a group says nothing, and a wider one counts: an agent's kind of work, its thread's, that of
// all, and at last the usual one.
const (
	leastSessions = 5
	leastDelays   = 3
	newestSamples = 200 // of a group, so that it follows what changes
)

// The usual sessions, where a journal does not tell: those of a load file without keys.
const (
	usualWriting = 8 * time.Minute
	usualReview  = 3 * time.Minute
	usualSigma   = 0.8
	usualReturn  = 0.5 // of reviews: those that request changes
)

// lot is a source of luck for one draw.
type lot struct{ seed, number, part uint64 }

func (l lot) rand() *rand.Rand { return rand.New(rand.NewPCG(l.seed, l.number<<20|l.part)) }

// draw returns a session of an agent that has taken a time so far.
func (m *Model) draw(l lot, agent, thread string, kind agents.Kind, role string, sofar time.Duration) Sample {
	rng := l.rand()
	list := m.group(agent, thread, kind, role)
	if list == nil {
		return usualSample(rng, kind, sofar)
	}
	if sofar > 0 {
		from, _ := slices.BinarySearchFunc(list, sofar, func(s Sample, d time.Duration) int { return cmp.Compare(s.Took, d) })
		if list = list[from:]; len(list) == 0 {
			return Sample{Took: sofar + sofar/4, Result: agents.Done, Verdict: usualVerdict(rng, kind)}
		}
	}
	return list[rng.IntN(len(list))]
}

// group returns the sessions that say most about one; nil when there are too few of any kind.
func (m *Model) group(agent, thread string, kind agents.Kind, role string) []Sample {
	if m == nil {
		return nil
	}
	if kind != agents.KindSchedule {
		role = ""
	}
	groups := []peers{
		{agent: agent, kind: kind, role: role}, {thread: thread, kind: kind, role: role}, {kind: kind, role: role},
	}
	if kind == agents.KindRework { // as long as to begin with
		groups = append(groups, peers{agent: agent, kind: agents.KindIssue}, peers{kind: agents.KindIssue})
	}
	for _, g := range groups {
		if list := m.sessions[g]; len(list) > 0 {
			return list
		}
	}
	return nil
}

// usualSample is a session of which no journal tells.
func usualSample(rng *rand.Rand, kind agents.Kind, sofar time.Duration) Sample {
	mean := usualWriting
	switch kind {
	case agents.KindReview:
		mean = usualReview
	case agents.KindSchedule:
		mean = scheduledTime
	}
	took := seconds(mean.Seconds() * math.Exp(usualSigma*rng.NormFloat64()-usualSigma*usualSigma/2))
	if took <= sofar {
		took = sofar + sofar/4
	}
	return Sample{Took: took, Result: agents.Done, Verdict: usualVerdict(rng, kind), usual: true}
}

func usualVerdict(rng *rand.Rand, kind agents.Kind) ledger.Verdict {
	switch {
	case kind != agents.KindReview:
		return ""
	case rng.Float64() < usualReturn:
		return ledger.ChangesRequested
	}
	return ledger.Approved
}

// delay draws a delay.
func (m *Model) delay(l lot, of Delay) time.Duration {
	if m == nil {
		return 0
	}
	if list := m.delays[of]; len(list) > 0 {
		return list[l.rand().IntN(len(list))]
	}
	return usualDelay[of]
}

// turnsRed draws whether the checks of a push fail.
func (m *Model) turnsRed(l lot) bool {
	return m != nil && m.red.of >= leastSessions && l.rand().IntN(m.red.of) < m.red.yes
}

// Learnt is one thing that a model knows, or takes from what is usual.
type Learnt struct {
	What     string        `json:"what"` // such as "issue, dev-qwen" or "checks"
	P10      time.Duration `json:"p10"`
	P50      time.Duration `json:"p50"`
	P90      time.Duration `json:"p90"`
	Sessions int           `json:"sessions"` // that it was learnt from
	Usual    bool          `json:"usual"`    // too few: the times are those that are usual
}

// what names the work of an agent.
func (g peers) what() string { return cmp.Or(g.role, string(g.kind)) + ", " + g.agent }

// took are the times of a group's sessions, sorted.
func (m *Model) took(g peers) (list []time.Duration) {
	for _, s := range m.sessions[g] {
		list = append(list, s.Took)
	}
	return list
}

// Times are the times from which a model was learnt, sorted, by Learnt.What.
func (m *Model) Times() map[string][]time.Duration {
	all := make(map[string][]time.Duration)
	for g := range m.sessions {
		if g.agent != "" {
			all[g.what()] = m.took(g)
		}
	}
	for of, list := range m.delays {
		all[string(of)] = list
	}
	return all
}

// Learnt lists what a model knows of the work of agents, by agent, and of delays.
func (m *Model) Learnt() (list []Learnt) {
	for g, n := range m.counts {
		if g.agent == "" {
			continue
		}
		l := Learnt{What: g.what(), Sessions: n}
		l.band(m.took(g), usualSample(lot{}.rand(), g.kind, 0).Took)
		if l.Usual {
			l.P10, l.P50, l.P90 = 0, 0, 0 // of its thread, or of all
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b Learnt) int { return strings.Compare(a.What, b.What) })
	for _, of := range Delays {
		l := Learnt{What: string(of), Sessions: m.numbers[of]}
		l.band(m.delays[of], usualDelay[of])
		list = append(list, l)
	}
	return list
}

// band sets the times from a sorted list, or to the usual one where it is empty.
func (l *Learnt) band(d []time.Duration, usual time.Duration) {
	if l.Usual = len(d) == 0; l.Usual {
		l.P10, l.P50, l.P90 = usual, usual, usual
		return
	}
	at := func(p int) time.Duration { return d[(len(d)-1)*p/100] }
	l.P10, l.P50, l.P90 = at(10), at(50), at(90)
}
