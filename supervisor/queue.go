package supervisor

import (
	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// queueLocked is what waits, and why: what is put up for work in the order of the plan, and the other open issues. Between
// two plans sessions end and begin, so what the last plan does not speak of is there as well: every open issue has a session
// or a reason.
func (s *Supervisor) queueLocked() (queue, unqueued []QueueDocument) {
	queue, unqueued = []QueueDocument{}, []QueueDocument{}
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

func queueDocument(h *threads.Hold) QueueDocument {
	return QueueDocument{
		Repo: h.Item.Ref.Repo, Number: h.Item.Ref.Number, Kind: h.Item.Kind, Title: h.Item.Title,
		Priority: h.Item.Priority, Code: h.Reason.Code, Why: h.Reason.Text(),
	}
}
