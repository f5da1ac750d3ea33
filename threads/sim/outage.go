package sim

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Outage is a time in which a thread's sessions fail, as offsets from the start of the trial.
type Outage struct {
	Thread      string
	From, Until time.Duration
	// Result ends each session that starts in this time, such as BackendDown or Limited, at the latest After its start.
	Result agents.Result
	After  time.Duration
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
		if o.Thread == x.Thread && at >= o.From && at < o.Until {
			return o
		}
	}
	return nil
}
