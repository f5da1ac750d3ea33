package supervisor

import (
	"errors"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// actCancel finishes a cancel on the forge. Like a mark it is retried until it is done, also by the next supervisor.
const actCancel threads.Action = "cancel"

func cancelChore(item forge.Ref) *chore { return &chore{choreKey: choreKey{actCancel, item, ""}} }

// cancelled reports whether a person cancelled a chain and the label is still to be written.
func cancelled(c *threads.ChainHistory) bool { return c.Cancel }

// cancelsLocked returns a chore for each cancel that is not on the forge yet and whose session has ended.
func (s *Supervisor) cancelsLocked() []*chore {
	var list []*chore
	for _, item := range s.history.Select(cancelled) {
		if !s.hasSessionLocked(item) {
			list = append(list, cancelChore(item))
		}
	}
	return list
}

// cancel labels the item, then takes the claim off. An item that has closed meanwhile stays as it is: there the label
// would block everything that depends on it.
func (s *Supervisor) cancel(c *chore) error {
	t, err := s.see(c.ref)
	if err != nil && !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	if err == nil && !t.closed {
		if !t.has(forge.LabelCancelled) {
			if err := s.label(c.ref, []string{forge.LabelCancelled}, nil); err != nil {
				return err
			}
			c.did = append(c.did, "labelled cancelled")
		}
		was, err := s.unclaim(t)
		if err != nil {
			return err
		}
		if was {
			c.did = append(c.did, "claim released")
		}
		if err := s.closeCancelled(c, t); err != nil {
			return err
		}
	}
	s.note(ledger.Record{At: time.Now(), Cancel: &ledger.Cancel{Refs: []ledger.Ref{ledger.Ref(c.ref)}, Done: true}})
	return nil
}

// closeCancelled closes an issue that was cancelled with --close. The forge refuses while one of its dependencies is
// open; then the chore is retried.
func (s *Supervisor) closeCancelled(c *chore, t *target) error {
	s.mu.Lock()
	wanted := s.history.Chain(c.ref).Close && !t.pull
	s.mu.Unlock()
	if !wanted {
		return nil
	}
	err := s.closeIssue(c.ref)
	if err == nil {
		c.did = append(c.did, "closed")
	}
	return err
}
