package supervisor

import (
	"context"
	"errors"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads/ledger"
)

// steal journals the intended move, changes the assignee on the forge in one step, and journals the result. After a
// crash or a lost answer the same steal is retried: the move has happened, or is still possible, or an agent has
// started the issue, which then stays. At every moment there is one issue with one assignee, so there is never a
// second copy.
func (k *clerk) steal(c *chore) error {
	if !k.state.stealing(c.ref) {
		if err := k.state.append(ledger.Record{At: time.Now(), Steal: c.steal}); err != nil {
			return err // nothing has changed, and the next cycle decides again
		}
	}
	err := k.reassign(c.ref, c.steal.FromLogin, c.steal.ToLogin, k.stolenLabels(c.steal), c.steal.Run)
	if errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || k.base.Err() != nil {
		k.hub.RecordMoveEnd(c.steal.Run, fleet.MovePending, text(err))
		return err
	}
	end, move := *c.steal, fleet.MoveDone
	end.Done = true
	if err != nil {
		end.Why, move = text(err), fleet.MoveStays
	}
	k.state.recordThen(ledger.Record{At: time.Now(), Steal: &end},
		func(*state) { k.hub.RecordMoveEnd(end.Run, move, end.Why) })
	if err != nil {
		c.said = "stays with " + end.From + ": " + end.Why
		return nil
	}
	c.said = "moved from " + end.From + " to " + end.To + ", who was idle"
	return nil
}

// stolenLabels returns the labels of an issue that is stolen from an agent of this or another host.
func (k *clerk) stolenLabels(steal *ledger.Steal) []string {
	host, _, other := strings.Cut(steal.From, "/")
	if !other {
		host = k.host
	}
	if host == "" {
		return []string{forge.LabelStolen}
	}
	return []string{forge.LabelStolen, forge.StolenFrom(host)}
}

func (k *clerk) reassign(item forge.Ref, from, to string, labels []string, run string) error {
	return k.call(k.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Reassign(ctx, item, from, to, labels, run)
	})
}
