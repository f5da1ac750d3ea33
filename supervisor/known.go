package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// known has what needed a person when its repository could be read last. A forge that does not answer must not empty
// the list of what waits for people.
type known map[threads.Key]need

// need is an item that needed a person, as of a time.
type need struct {
	hold *threads.Hold
	at   time.Time
}

// remember keeps what needs a person in a new plan, and what is not read now and needed one before.
func (k *known) remember(plan *threads.Plan, now time.Time) {
	was := *k
	*k = make(known)
	for _, list := range [][]*threads.Hold{plan.Holds, plan.Unqueued} {
		for _, h := range list {
			if old, ok := was[h.Key()]; ok && h.Reason.Code == threads.NotRead {
				(*k)[h.Key()] = old
			} else if h.Reason.NeedsPerson() {
				(*k)[h.Key()] = need{h, now}
			}
		}
	}
}
