package control

import (
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// RetryChoice chooses items to retry: all that a retry lets go on, or those of one agent or repository, or those
// labelled blocked. The zero value chooses none.
type RetryChoice struct {
	Blocked, All bool
	Agent, Repo  string // the agent whose session on the item failed last, and the item's repository
}

// Empty reports whether nothing chooses.
func (c RetryChoice) Empty() bool { return c == RetryChoice{} }

// From returns the chosen items of a status, in its order.
func (c RetryChoice) From(d *Document) (list []QueueDocument) {
	for i := range d.Queue {
		q := &d.Queue[i]
		if c.Empty() || q.Number == 0 || !q.retryHelps() || c.Blocked && !q.isBlocked() ||
			c.Agent != "" && q.FailedBy != c.Agent || c.Repo != "" && !strings.EqualFold(q.Repo, c.Repo) {
			continue
		}
		list = append(list, *q)
	}
	return list
}

// retryHelps reports whether the item failed, and waits for a person or for its next try.
func (q *QueueDocument) retryHelps() bool {
	switch q.Code {
	case threads.SkipLabel:
		return q.NeedsPerson
	case threads.CoolDown, threads.SetupFailed, threads.EgressRefused:
		return true
	}
	return q.Code.Class() == threads.Failed
}

// isBlocked reports whether it used up its attempts.
func (q *QueueDocument) isBlocked() bool {
	label := threads.Reason{Code: threads.SkipLabel, Note: forge.LabelBlocked}.Text()
	return q.Code == threads.GaveUp || q.Code == threads.SkipLabel && strings.HasPrefix(q.Why, label)
}
