package simtest

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Tell tells a session in this life only.
func (x *executor) Tell(runID string, list []agents.Message) error {
	return x.p.use("tell", func() error { return x.e.Tell(runID, list) })
}

// shimsClient is the interface of an engine on this machine.
type shimsClient struct{ engineClient }

// Tell is Tell of the world's executor.
func (c *shimsClient) Tell(runID string, list []agents.Message) error {
	return c.p.use("tell", func() error { return c.e.Exec.Tell(runID, list) })
}

// Tell makes the messages the inbox of a run, which hears them after a while, if at all.
func (e *Executor) Tell(runID string, list []agents.Message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.runs, func(r *Run) bool { return r.Job.RunID == runID && r.End.IsZero() })
	if i < 0 {
		return fmt.Errorf("nothing runs as %s", runID)
	}
	if e.inboxes == nil {
		e.inboxes = map[string][]agents.Message{}
	}
	e.inboxes[runID] = list
	if e.Hears > 0 {
		time.AfterFunc(e.Hears, func() { e.runs[i].Job.Doing(agents.Doing{Heard: len(list)}) })
	}
	return nil
}

// Inbox returns what a run was told.
func (e *Executor) Inbox(runID string) (texts []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.inboxes[runID] {
		texts = append(texts, m.Text)
	}
	return texts
}
