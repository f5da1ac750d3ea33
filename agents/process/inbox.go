package process

import (
	"fmt"
	"sync"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// inbox is the file with what people tell a session. It is in a folder of the agent, so it is written with the agent's
// own rights.
type inbox struct {
	mu      sync.Mutex // held while the file is written, so that no older text replaces a newer one
	written int        // messages in it
}

// Tell writes all messages to a session, oldest first, into the inbox of a run whose program has started. It is an
// error if no such run is known. A list that is shorter than the last one changes nothing.
func (e *Executor) Tell(runID string, list []agents.Message) error {
	e.mu.Lock()
	r := e.runs[runID]
	if r == nil {
		r = e.adopted[runID]
	}
	e.mu.Unlock()
	if r == nil || r.job.ResultPath == "" {
		return fmt.Errorf("nothing with an inbox runs as %s", runID)
	}
	text, err := agents.FormatInbox(list)
	if err != nil {
		return err
	}
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	if len(list) < r.inbox.written {
		return nil
	}
	err = r.account.do(func() error { return plainfile.Replace(agents.InboxPath(r.job.ResultPath), text) })
	if err != nil {
		return fmt.Errorf("cannot write the inbox of %s: %w", runID, err)
	}
	r.inbox.written = len(list)
	return nil
}
