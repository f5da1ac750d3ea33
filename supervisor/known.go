package supervisor

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
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

// notReadWords is in each reason of an item whose repository is not read now.
var notReadWords = threads.Reason{Code: threads.NotRead}.Text()

// readReminders sets the reminders from the status that the last supervisor wrote: what waited then. Without it, a
// restart in an outage would empty the queue.
func (st *state) readReminders(stateDir string) {
	var d control.Document
	text, at := control.ReadStatusFile(stateDir)
	if text == nil || json.Unmarshal(text, &d) != nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		if q.Number == 0 {
			continue
		}
		if !strings.Contains(q.Why, notReadWords) {
			q.Why += notRead(at)
		}
		st.reminders = append(st.reminders, q)
	}
}

// reminder explains an item as it waited before the start.
func (st *state) reminder(item forge.Ref) (threads.Explanation, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	i := slices.IndexFunc(st.reminders, func(q control.QueueDocument) bool {
		return q.Repo == item.Repo && q.Number == item.Number
	})
	if i < 0 {
		return threads.Explanation{}, false
	}
	q := &st.reminders[i]
	return threads.Explanation{
		Repo: q.Repo, Number: q.Number, Kind: q.Kind, Title: q.Title, Steps: []threads.Step{},
		Candidates: []threads.CandidateSteps{}, Verdict: threads.Waits(q.Why), Code: q.Code, Mend: q.Mend,
	}, true
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
	return " (as of " + at.UTC().Format(time.RFC3339) + ", " + notReadWords + ")"
}
