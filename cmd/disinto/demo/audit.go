package demo

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Audit finds violations of the scheduler's rules in a supervisor's events. The zero value is ready to use. It is not
// safe for concurrent use.
type Audit struct {
	sessions []*session // in the order of their claims
	byRun    map[string]*session
	merged   []int64 // pull requests, in the order of their merges
}

// session is one session, from the events. It held its slot and agent from began to ended.
type session struct {
	control.SessionDocument
	began, ended time.Time // ended is zero while it runs
}

// Record records one event.
func (a *Audit) Record(e control.Event) {
	switch data := e.Data.(type) {
	case control.SessionDocument:
		a.recordSession(data)
	case control.RecentDocument:
		if s := a.byRun[data.RunID]; s != nil {
			s.began, s.ended = data.StartedAt, data.EndedAt
		}
	case control.RefData:
		if e.Type == control.EventMerged {
			a.merged = append(a.merged, data.Number)
		}
	}
}

func (a *Audit) recordSession(d control.SessionDocument) {
	if a.byRun == nil {
		a.byRun = make(map[string]*session)
	}
	if a.byRun[d.RunID] != nil {
		return
	}
	s := &session{SessionDocument: d, began: d.StartedAt}
	a.byRun[d.RunID] = s
	a.sessions = append(a.sessions, s)
}

// Merged returns the number of pull requests merged so far.
func (a *Audit) Merged() int { return len(a.merged) }

// Done reports whether the demo is over: every issue that is due is merged, no agent works, and each waiting item waits
// for a person, for its schedule, or forever.
func (a *Audit) Done(d *control.Document) bool {
	waits := slices.ContainsFunc(d.Queue, func(q control.QueueDocument) bool {
		return q.Number > int64(len(backlog)) || q.Number != 0 && backlog[q.Number-1].due()
	})
	running := slices.ContainsFunc(a.sessions, func(s *session) bool { return s.ended.IsZero() })
	return a.Merged() >= Due() && !waits && !running && len(d.Sessions) == 0
}

// Agents returns the agents that ran a session, sorted.
func (a *Audit) Agents() []string {
	var names []string
	for _, s := range a.sessions {
		names = append(names, s.Agent)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Switches counts the sessions in which a slot of a sticky thread went to another agent than in its previous session.
// Each time a local server drops one conversation from its cache and reads another.
func (a *Audit) Switches(config *threads.Config) int {
	last := map[threads.SlotKey]string{}
	n := 0
	for _, s := range a.sessions {
		slot := threads.SlotKey{Thread: s.Thread, Slot: s.Slot}
		if !sticky(config, s.Thread) {
			continue
		}
		if before, ok := last[slot]; ok && before != s.Agent {
			n++
		}
		last[slot] = s.Agent
	}
	return n
}

// Violations returns one line for each violation of a rule. results are the results on the forge.
func (a *Audit) Violations(config *threads.Config, results []Result) []string {
	found := []string{} // not nil: JSON needs an empty list
	for i, s := range a.sessions {
		for _, o := range a.sessions[i+1:] {
			if s.overlaps(o) {
				found = append(found, a.collisions(config, s, o)...)
			}
		}
		switch s.Kind {
		case agents.KindReview:
			found = append(found, a.pairing(config, s, results)...)
		case agents.KindIssue:
			found = append(found, s.tooEarly(results)...)
		}
	}
	for i := range results {
		if r := &results[i]; r.Pull != 0 && len(r.Approvers) == 0 {
			found = append(found, fmt.Sprintf("#%d was merged without an approval", r.Pull))
		}
	}
	return found
}

func (s *session) String() string {
	return fmt.Sprintf("%s %s #%d", s.Agent, s.Kind, s.Number)
}

// overlaps reports whether two sessions existed at the same moment.
func (s *session) overlaps(o *session) bool {
	return (o.ended.IsZero() || s.began.Before(o.ended)) && (s.ended.IsZero() || o.began.Before(s.ended))
}

// collisions reports an agent, slot or item that two overlapping sessions must not share.
func (a *Audit) collisions(config *threads.Config, s, o *session) (found []string) {
	if s.Agent == o.Agent {
		found = append(found, fmt.Sprintf("one agent in two sessions: %s and %s", s, o))
	}
	if s.Thread == o.Thread && s.Slot == o.Slot && sticky(config, s.Thread) {
		found = append(found, fmt.Sprintf("two sessions in slot %d of %s: %s and %s", s.Slot, s.Thread, s, o))
	}
	if s.Number == o.Number && s.Number != 0 && s.Repo == o.Repo {
		found = append(found, fmt.Sprintf("two sessions on one item: %s and %s", s, o))
	}
	return found
}

// pairing reports violations of the pairing rule by a review.
func (a *Audit) pairing(config *threads.Config, review *session, results []Result) (found []string) {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Pull == review.Number })
	if i < 0 {
		return nil
	}
	for _, w := range a.sessions {
		implemented := w.Kind == agents.KindIssue && w.Number == results[i].Issue
		if !implemented && (w.Kind != agents.KindRework || w.Number != review.Number) {
			continue
		}
		switch config.Unpaired(config.Agent(review.Agent), []string{w.Agent}) {
		case threads.OwnWork:
			found = append(found, fmt.Sprintf("an agent reviewed its own work: %s after %s", review, w))
		case threads.LocalPair:
			found = append(found, fmt.Sprintf("local work was reviewed by a local model: %s after %s", review, w))
		}
	}
	return found
}

// tooEarly reports a start before the blockers were closed. The forge truncates times to whole seconds, so a start in
// the same second passes; but the agents fail if a file that they build on is missing.
func (s *session) tooEarly(results []Result) (found []string) {
	for _, n := range needs(s.Number) {
		i := slices.IndexFunc(results, func(r Result) bool { return r.Issue == n })
		if i < 0 || results[i].ClosedAt.IsZero() || s.began.Before(results[i].ClosedAt) {
			found = append(found, fmt.Sprintf("started while blocked: %s before #%d was closed", s, n))
		}
	}
	return found
}

func sticky(config *threads.Config, thread string) bool {
	t := config.Thread(thread)
	return t != nil && !t.Overlap
}
