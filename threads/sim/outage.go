package sim

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Outage is a time in which a thread or an agent does not work, as offsets from the start of the trial. Without
// either, nothing starts, as while the forge is down.
type Outage struct {
	Thread, Agent string // at most one of them
	From, Until   time.Duration
	// Result ends each session that starts in this time, such as BackendDown or Limited, at the latest After its start.
	// Empty: no session starts.
	Result agents.Result
	After  time.Duration
	// OneIn applies Result to one session in this many, at random; 0 and 1 mean every session.
	OneIn int
}

// outagesOf returns the times in which a thread's sessions met no backend, or a usage limit: from the start of the
// first to the end of the last, or to the start of the next session that met neither.
func outagesOf(past []ledger.Past, from time.Time) (list []Outage) {
	open := make(map[string]int) // index of the thread's outage in the list, plus 1
	for i := range past {
		s := &past[i]
		down := s.Outcome == agents.BackendDown || s.Outcome == agents.Limited
		at := open[s.Thread] - 1
		switch start, end := s.Start.Sub(from), s.End.Sub(from); {
		case !down:
			if at >= 0 && byItself(s) {
				list[at].Until = max(list[at].From+time.Second, min(list[at].Until, start))
				delete(open, s.Thread)
			}
		case at >= 0 && list[at].Result == s.Outcome:
			list[at].Until = max(list[at].Until, end)
		default:
			list = append(list, Outage{Thread: s.Thread, From: start, Until: end, Result: s.Outcome, After: end - start})
			open[s.Thread] = len(list)
		}
	}
	return list
}

// fails returns the outage that a session which starts now meets, or nil.
func (tr *trial) fails(x *trialRun) *Outage {
	at := tr.Now.Sub(tr.origin)
	for i := range tr.Outages {
		o := &tr.Outages[i]
		theirs := (o.Thread == "" || o.Thread == x.Thread) && (o.Agent == "" || o.Agent == x.Agent)
		if o.Result != "" && theirs && at >= o.From && at < o.Until && (o.OneIn <= 1 || tr.unlucky(x, o.OneIn)) {
			return o
		}
	}
	return nil
}

// unlucky draws whether a session is the one in oneIn that fails. The draw for one attempt at one issue is equal
// in every configuration.
func (tr *trial) unlucky(x *trialRun, oneIn int) bool {
	l := lot{tr.Seed, uint64(tr.seen.Sessions), lotOutage}
	if t := x.issue; t != nil {
		t.tries++
		l.number, l.part = uint64(t.seed()), l.part+uint64(t.tries)
	}
	return l.rand().IntN(oneIn) == 0
}

// openOutages schedules the outages in which nothing starts, as pauses.
func (tr *trial) openOutages() {
	for i := range tr.Outages {
		o := &tr.Outages[i]
		if o.Result != "" {
			continue
		}
		turn := func(off bool) func() {
			return func() {
				tr.note(ledger.Record{Pause: &ledger.Pause{Thread: o.Thread, Agent: o.Agent, Off: off}})
				tr.change()
			}
		}
		tr.After(o.From, turn(false))
		tr.After(o.Until, turn(true))
	}
}
