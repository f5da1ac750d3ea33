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

// Model describes how long things take in a factory, how sessions end, and how often issues are filed. Learn makes
// one from a journal. A model never changes, so trials may share it.
//
// A draw is a whole session of the past, so that a length, its outcome and its usage stay together. For the same
// session of the same issue, equal seeds draw the same sample whatever else a trial does, so a difference between two
// trials comes from their configurations.
type Model struct {
	sessions map[peers][]Step          // of at least leastSessions each
	counts   map[peers]int             // of all, including groups with too few
	delays   map[Delay][]time.Duration // sorted, of at least leastDelays each
	numbers  map[Delay]int
	red      share  // pushes whose checks fail
	filed    []Work // filed issues, without their sessions
	perHour  float64
}

// peers is the key of a group of similar sessions.
type peers struct {
	agent, thread string // at most one of them
	kind          agents.Kind
	role          string // for scheduled work only
}

// share counts how many of a number of cases have a property.
type share struct{ yes, of int }

// Delay is the name of a time outside sessions.
type Delay string

// The delays.
const (
	Handover Delay = "handover" // from the end of a session to the start of the next one, while work waits
	Notice   Delay = "notice"   // from filing to the start, while an agent and its slot are free
	Claim    Delay = "claim"    // from a start to the program
	Checks   Delay = "checks"   // from a push to the result of the checks
	Merging  Delay = "merge"    // from an approval to the merge
	People   Delay = "people"   // from a question, or needs-human, to a person's reaction
)

// Delays has all delays.
var Delays = []Delay{Handover, Notice, Claim, Checks, Merging, People}

// usualDelay is used where too few delays were seen.
var usualDelay = map[Delay]time.Duration{Handover: 2 * time.Second, Merging: 3 * time.Second, People: time.Hour}

// A group with fewer sessions or delays than these is not used. A wider group is used instead: the agent's, the
// thread's, all sessions of the kind, and finally the usual values.
const (
	leastSessions = 5
	leastDelays   = 3
	newestSamples = 200 // newest sessions of a group that are used, so that it follows changes
)

// The usual sessions, for work that is not in the journal: those of a load file without keys.
const (
	usualWriting = 8 * time.Minute
	usualReview  = 3 * time.Minute
	usualSigma   = 0.8
	usualReturn  = 0.5 // share of reviews that request changes
)

// lot seeds one draw.
type lot struct{ seed, number, part uint64 }

func (l lot) rand() *rand.Rand { return rand.New(rand.NewPCG(l.seed, l.number<<20|l.part)) }

// draw draws a session of an agent. If sofar is positive, the session has already taken that time.
func (m *Model) draw(l lot, agent, thread string, kind agents.Kind, role string, sofar time.Duration) Step {
	rng := l.rand()
	list := m.group(agent, thread, kind, role)
	if list == nil {
		return usualStep(rng, kind, sofar)
	}
	if sofar > 0 {
		from, _ := slices.BinarySearchFunc(list, sofar, func(s Step, d time.Duration) int { return cmp.Compare(s.Took, d) })
		if list = list[from:]; len(list) == 0 {
			return Step{Took: sofar + sofar/4, Result: agents.Done, Verdict: usualVerdict(rng, kind), Whole: true}
		}
	}
	return list[rng.IntN(len(list))]
}

// group returns the sessions of the narrowest group that has enough, or nil.
func (m *Model) group(agent, thread string, kind agents.Kind, role string) []Step {
	if m == nil {
		return nil
	}
	if kind != agents.KindSchedule {
		role = ""
	}
	groups := []peers{
		{agent: agent, kind: kind, role: role}, {thread: thread, kind: kind, role: role}, {kind: kind, role: role},
	}
	if kind == agents.KindRework { // a rework takes as long as a first session
		groups = append(groups, peers{agent: agent, kind: agents.KindIssue}, peers{kind: agents.KindIssue})
	}
	for _, g := range groups {
		if list := m.sessions[g]; len(list) > 0 {
			return list
		}
	}
	return nil
}

// usualStep draws a session of a kind that is not in the journal.
func usualStep(rng *rand.Rand, kind agents.Kind, sofar time.Duration) Step {
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
	return Step{Took: took, Result: agents.Done, Verdict: usualVerdict(rng, kind)}
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

// Learnt is one value of a model, learnt or usual.
type Learnt struct {
	What     string        `json:"what"` // such as "issue, dev-qwen" or "checks"
	P10      time.Duration `json:"p10"`
	P50      time.Duration `json:"p50"`
	P90      time.Duration `json:"p90"`
	Sessions int           `json:"sessions"` // number of samples
	Usual    bool          `json:"usual"`    // too few samples: the times are the usual ones
}

// what names an agent's kind of work.
func (g peers) what() string { return cmp.Or(g.role, string(g.kind)) + ", " + g.agent }

// took returns the sorted lengths of a group's sessions.
func (m *Model) took(g peers) (list []time.Duration) {
	for _, s := range m.sessions[g] {
		list = append(list, s.Took)
	}
	return list
}

// Learnt lists the model's values for the work of agents, by agent, and for delays.
func (m *Model) Learnt() (list []Learnt) {
	for g, n := range m.counts {
		if g.agent == "" {
			continue
		}
		l := Learnt{What: g.what(), Sessions: n}
		l.band(m.took(g), usualStep(lot{}.rand(), g.kind, 0).Took)
		if l.Usual {
			l.P10, l.P50, l.P90 = 0, 0, 0 // drawn from its thread or from all
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

// band sets the times from a sorted list, or to the usual time if the list is empty.
func (l *Learnt) band(d []time.Duration, usual time.Duration) {
	if l.Usual = len(d) == 0; l.Usual {
		l.P10, l.P50, l.P90 = usual, usual, usual
		return
	}
	at := func(p int) time.Duration { return d[(len(d)-1)*p/100] }
	l.P10, l.P50, l.P90 = at(10), at(50), at(90)
}
