package supervisor

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
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

// asOf ends the reason of an item whose repository is not read now.
const asOf = " (as of "

// readReminders sets the reminders from the status that the last supervisor wrote: what needed a person then. Without
// it, a restart in an outage would empty the list of what waits for people.
func (st *state) readReminders(stateDir string) {
	var d control.Document
	text, at := control.ReadStatusFile(stateDir)
	if text == nil || json.Unmarshal(text, &d) != nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		if !q.NeedsPerson || q.Number == 0 {
			continue
		}
		if !strings.Contains(q.Why, asOf) {
			q.Why += notRead(at)
		}
		st.reminders = append(st.reminders, q)
	}
}

// forgetRemindersLocked drops the reminders of repositories that were read, or are not configured any more.
func (st *state) forgetRemindersLocked() {
	st.reminders = slices.DeleteFunc(st.reminders, func(q control.QueueDocument) bool {
		r, known := st.facts.Repo(q.Repo)
		return known && !r.AsOf.IsZero() || st.cfg != nil && !slices.Contains(st.cfg.Forge.Repos, q.Repo)
	})
}

// notRead dates a reason.
func notRead(at time.Time) string {
	return asOf + at.UTC().Format(time.RFC3339) + ", the forge is not read)"
}
