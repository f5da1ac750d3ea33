package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Levels are present counts for metrics. They cost much less than the status document of a large tracker.
type Levels struct {
	// Document is the status without queue, sessions and ended sessions.
	Document *control.Document
	// Queue counts the waiting items.
	Queue map[Waiting]int
	// NeedPerson counts those of them that wait for a person.
	NeedPerson int
	// Unmerged is since when work waited or ran that needs no person, and nothing was merged; zero without such work.
	Unmerged time.Time
}

// Waiting identifies waiting items that are counted together.
type Waiting struct {
	Kind string
	Code threads.Code
}

// Levels returns the present counts.
func (s *Supervisor) Levels() Levels {
	s.init()
	l := s.state.levels(time.Now())
	l.Document.Problems, l.Document.Alarms = s.problems.lines(), s.alarms(time.Now())
	s.inference.addServers(l.Document)
	s.services.addServices(l.Document)
	return l
}

func (st *state) levels(now time.Time) Levels {
	st.mu.Lock()
	defer st.mu.Unlock()
	l := Levels{Document: st.summaryLocked(now), Queue: make(map[Waiting]int), Unmerged: st.working}
	if all := st.ledger.Merges; len(all) > 0 && !l.Unmerged.IsZero() && all[len(all)-1].When.After(l.Unmerged) {
		l.Unmerged = all[len(all)-1].When
	}
	for _, q := range st.reminders {
		if q.NeedsPerson {
			l.NeedPerson++
		}
	}
	for _, h := range st.plan.Holds {
		l.Queue[Waiting{string(h.Kind), h.Reason.Code}]++
		if _, old := st.known[h.Key()]; old || h.Reason.NeedsPerson() {
			l.NeedPerson++
		}
	}
	return l
}
