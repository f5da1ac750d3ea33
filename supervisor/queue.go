package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// queueLocked returns the items that wait, each with the reason: the queue in the order of the plan, and the other open
// issues. Sessions begin and end between two plans, so an issue that the last plan does not mention is listed too:
// every open issue has a session or a reason.
func (s *Supervisor) queueLocked() (queue, unqueued []control.QueueDocument) {
	queue, unqueued = []control.QueueDocument{}, []control.QueueDocument{}
	said := make(map[forge.Ref]bool, len(s.plan.Holds)+len(s.plan.Unqueued))
	for _, x := range s.sessions {
		said[x.Item.Ref] = true
	}
	for _, h := range s.plan.Holds {
		queue = append(queue, queueDocument(h))
		said[h.Ref] = true
	}
	for _, h := range s.plan.Unqueued {
		unqueued = append(unqueued, queueDocument(h))
		said[h.Ref] = true
	}
	for i := range s.facts.Issues {
		is := &s.facts.Issues[i]
		if is.Closed || said[is.Ref] {
			continue
		}
		q := queueDocument(&threads.Hold{
			Item:   threads.Item{Kind: agents.KindIssue, Ref: is.Ref, Title: is.Title, Priority: forge.Priority(is.Labels)},
			Reason: &threads.Reason{Code: threads.StaleFacts},
		})
		if is.Has(forge.LabelBacklog) {
			queue = append(queue, q)
		} else {
			unqueued = append(unqueued, q)
		}
	}
	return queue, unqueued
}

func queueDocument(h *threads.Hold) control.QueueDocument {
	return control.QueueDocument{
		Repo: h.Item.Ref.Repo, Number: h.Item.Ref.Number, Kind: h.Item.Kind, Title: h.Item.Title,
		Priority: h.Item.Priority, Code: h.Reason.Code, Why: h.Reason.Text(),
	}
}

// Events returns the events from now on to a reader in this process, until leave. It may be called before Run, so that
// no event is missed. The channel is closed when the reader falls behind, and when Run ends.
func (s *Supervisor) Events() (events <-chan control.Event, leave func()) { return s.events.Read() }

// heldLocked returns the items that wait for another reason than in the last plan. With ten thousand items the
// comparison is work, so it is left out while the feed has no readers.
func (s *Supervisor) heldLocked(holds []*threads.Hold) []*threads.Hold {
	if !s.events.HasReaders() {
		return nil
	}
	before := make(map[threads.Key]threads.Code, len(s.plan.Holds))
	for _, h := range s.plan.Holds {
		before[h.Key()] = h.Reason.Code
	}
	return slices.DeleteFunc(slices.Clone(holds), func(h *threads.Hold) bool { return before[h.Key()] == h.Reason.Code })
}

// explain returns every rule about an item and its answer.
func (s *Supervisor) explain(item forge.Ref) (ex threads.Explanation, err error) {
	s.view(func(snap threads.Snapshot) { ex, err = threads.Explain(snap, item) })
	return ex, err
}

// view runs f on a snapshot of this moment, under the lock. It needs a configuration.
func (s *Supervisor) view(f func(threads.Snapshot)) {
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.snapshotLocked(time.Now(), room))
}
