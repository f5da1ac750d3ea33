package sim

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Journal is the past as read from a journal: see ledger.ReadHistory.
type Journal struct {
	Past     []ledger.Past
	Timeline ledger.Timeline
}

// Learn returns a model of a journal.
func Learn(j Journal) *Model {
	m := &Model{
		sessions: make(map[peers][]Step), counts: make(map[peers]int),
		delays: make(map[Delay][]time.Duration), numbers: make(map[Delay]int),
	}
	past := possible(j.Past)
	for i := range past {
		m.learn(&past[i])
	}
	for g, list := range m.sessions {
		if m.counts[g] = len(list); len(list) < leastSessions {
			delete(m.sessions, g)
			continue
		}
		list = list[max(0, len(list)-newestSamples):]
		slices.SortStableFunc(list, func(a, b Step) int { return cmp.Compare(a.Took, b.Took) })
		m.sessions[g] = list
	}
	m.watch(past, j.Timeline.Merges)
	m.countFiled(past)
	return m
}

// byItself reports whether a session came to its own end. The length of the others says nothing about the work: the
// backend failed, a person ended them, or the supervisor died.
func byItself(s *ledger.Past) bool {
	switch s.Outcome {
	case agents.Lost, agents.Cancelled, agents.ClaimFailed, agents.BackendDown, agents.Limited, agents.NoRoom,
		agents.NoPlace, agents.TokenRejected, agents.Unanswered, agents.Killed, agents.SetupFailed:
		return false
	}
	return true
}

// learn adds a session to its groups.
func (m *Model) learn(s *ledger.Past) {
	if !byItself(s) || s.Outcome == agents.OverBudget { // the trial applies limits itself
		return
	}
	one := stepOf(s, s.End.Sub(s.Start))
	one.Whole = true
	g := peers{kind: s.Kind}
	if s.Kind == agents.KindSchedule {
		g.role = s.Role
	}
	m.sessions[g] = append(m.sessions[g], one)
	ofThread, ofAgent := g, g
	if ofThread.thread = s.Thread; s.Thread != "" {
		m.sessions[ofThread] = append(m.sessions[ofThread], one)
	}
	ofAgent.agent = s.Agent
	m.sessions[ofAgent] = append(m.sessions[ofAgent], one)
}

// stepOf returns a session of the past that took so long. A review without a recorded verdict approved.
func stepOf(s *ledger.Past, took time.Duration) Step {
	step := Step{Took: took, Result: cmp.Or(s.Outcome, agents.Done), Verdict: s.Verdict, Usage: s.Usage}
	if s.Kind == agents.KindReview && step.Result == agents.Done && step.Verdict == "" {
		step.Verdict = ledger.Approved
	}
	return step
}

// watch learns the delays between sessions.
func (m *Model) watch(past []ledger.Past, merges []ledger.Merged) {
	seen := make(map[Delay][]time.Duration)
	w := watcher{
		slots: make(map[slotOf]time.Time), agents: make(map[string]time.Time), chains: make(map[ledger.Ref]*ledger.Past),
	}
	for i := range past {
		s := &past[i]
		w.handover(s, seen)
		w.follow(m, s, seen)
		w.add(s)
	}
	seen[Merging] = mergeTimes(past, merges)
	typical := spread(slices.Clone(seen[Handover])).P50
	for i := range seen[Checks] { // the next session starts one handover after the checks
		seen[Checks][i] = max(0, seen[Checks][i]-typical)
	}
	if spread(slices.Clone(seen[Checks])).P50 < noChecks {
		seen[Checks] = slices.Repeat([]time.Duration{0}, len(seen[Checks]))
	}
	for of, list := range seen {
		m.numbers[of] = len(list)
		if len(list) >= leastDelays {
			slices.Sort(list)
			m.delays[of] = list
		}
	}
}

// noChecks is shorter than any checks take: a session that follows a push sooner has not waited for checks.
const noChecks = 10 * time.Second

// slotOf names a slot of a thread.
type slotOf struct {
	thread string
	slot   int
}

// watcher goes through the sessions of a journal by start, and remembers the latest ones.
type watcher struct {
	slots  map[slotOf]time.Time // end of the newest session
	agents map[string]time.Time
	chains map[ledger.Ref]*ledger.Past // the newest session, except scheduled ones
}

func (w *watcher) add(s *ledger.Past) {
	at := slotOf{s.Thread, s.Slot}
	w.slots[at], w.agents[s.Agent] = latest(w.slots[at], s.End), latest(w.agents[s.Agent], s.End)
	if s.Kind != agents.KindSchedule {
		w.chains[s.Chain] = s
	}
}

// handoverMost is longer than any handover: a session that starts later waited for something else.
const handoverMost = time.Minute

// handover learns Handover from a session whose item was ready before slot and agent were free, and Notice from an
// issue that was filed while both were free.
func (w *watcher) handover(s *ledger.Past, seen map[Delay][]time.Duration) {
	free := latest(w.slots[slotOf{s.Thread, s.Slot}], w.agents[s.Agent])
	if s.Ready.IsZero() {
		return
	}
	of, from := Handover, free
	if at := filed(s); at.After(free) {
		of, from = Notice, at
	}
	if d := s.Start.Sub(from); d >= 0 && d < handoverMost && (of == Handover || s.Kind == agents.KindIssue) {
		seen[of] = append(seen[of], d)
	}
}

// follow learns from a session and the previous one on its chain.
func (w *watcher) follow(m *Model, s *ledger.Past, seen map[Delay][]time.Duration) {
	before := w.chains[s.Chain]
	if before == nil || s.Kind == agents.KindSchedule {
		return
	}
	idle := !w.agents[s.Agent].After(before.End) && !w.slots[slotOf{s.Thread, s.Slot}].After(before.End)
	switch gap := s.Start.Sub(before.End); {
	case gap < 0:
	case asksPeople(before.Outcome):
		seen[People] = append(seen[People], gap)
	case before.Kind.Writes() && before.Outcome == agents.Done:
		m.red.of++
		if s.Kind == agents.KindRework {
			m.red.yes++
		}
		if s.Kind == agents.KindReview && idle {
			seen[Checks] = append(seen[Checks], gap)
		}
	}
}

// asksPeople reports whether after this result a person must act before the next session.
func asksPeople(r agents.Result) bool {
	switch r {
	case agents.Question, agents.Planned, agents.Refused, agents.PushRefused, agents.TooBig, agents.OverBudget:
		return true
	}
	return false
}

// mergeTimes returns the times from approvals to merges. Merges in a repository happen one at a time, so only the
// first merge after an approval measures how long one takes.
func mergeTimes(past []ledger.Past, merges []ledger.Merged) (list []time.Duration) {
	approved := make(map[ledger.Ref]time.Time)
	for i := range past {
		if s := &past[i]; s.Verdict == ledger.Approved {
			approved[s.Chain] = latest(approved[s.Chain], s.End)
		}
	}
	last := make(map[string]time.Time)
	merges = slices.Clone(merges)
	slices.SortStableFunc(merges, func(a, b ledger.Merged) int { return a.When.Compare(b.When) })
	for _, m := range merges {
		at := approved[m.Chain]
		if !at.IsZero() && !m.When.Before(at) && !last[m.Ref.Repo].After(at) {
			list = append(list, m.When.Sub(at))
		}
		last[m.Ref.Repo] = m.When
	}
	return list
}

// countFiled learns the rate and the kinds of the filed issues.
func (m *Model) countFiled(past []ledger.Past) {
	if len(past) == 0 {
		return
	}
	first, last := past[0].Start, past[len(past)-1].Start
	known := make(map[ledger.Ref]bool)
	for i := range past {
		s := &past[i]
		if s.Kind.Writes() && !known[s.Chain] {
			known[s.Chain] = true
			m.filed = append(m.filed, workOf(s))
		}
	}
	if hours := last.Sub(first).Hours(); hours > 1 {
		m.perHour = float64(len(m.filed)) / hours
	}
}
