package supervisor

import (
	"errors"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// labelCancelled labels the item, then releases the claim. It does neither if the item was closed meanwhile, because
// then the label would block every dependent issue.
func (k *clerk) labelCancelled(c *chore) error {
	t, err := k.fetchTarget(c.ref)
	if err != nil && !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	if err == nil && !t.closed {
		if !t.has(forge.LabelCancelled) {
			if err := k.label(c.ref, []string{forge.LabelCancelled}, nil); err != nil {
				return err
			}
			c.did = append(c.did, "labelled cancelled")
		}
		was, err := k.unclaim(t)
		if err != nil {
			return err
		}
		if was {
			c.did = append(c.did, "claim released")
		}
		if err := k.closeCancelled(c, t); err != nil {
			return err
		}
	}
	done := &ledger.Cancel{Refs: []ledger.Ref{ledger.Ref(c.ref)}, Done: true}
	k.state.record(ledger.Record{At: time.Now(), Cancel: done})
	return nil
}

// closeCancelled closes an issue that was cancelled with --close. The forge refuses while one of its dependencies is
// open; the chore is then retried.
func (k *clerk) closeCancelled(c *chore, t *target) error {
	if known := k.state.chain(c.ref); !known.Close || t.pull {
		return nil
	}
	err := k.closeIssue(c.ref)
	if err == nil {
		c.did = append(c.did, "closed")
	}
	return err
}
