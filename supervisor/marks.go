package supervisor

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

func (k *clerk) route(c *chore) error {
	c.said = "routed to " + c.mark.Agent
	if c.from != "" {
		c.said = "goes from " + c.mark.From + ", whose thread starts nothing now, to " + c.mark.Agent
	}
	return k.reassign(c.ref, c.from, c.login, nil, journal.NewRun(k.Instance()))
}

func (k *clerk) releaseClaim(c *chore) error {
	c.said = "claim of " + c.mark.Agent + " released"
	err := k.call(k.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Release(ctx, c.ref, c.login) })
	return k.recordAfter(err, ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(c.ref)}})
}

func (k *clerk) unlabel(c *chore) error {
	return k.label(c.ref, nil, []string{forge.LabelInProgress})
}

func (k *clerk) close(c *chore) error {
	if base := c.mark.Reason.Note; base != "" { // a pull request
		c.said = "closed: its commits are in " + base + ", so it is merged, although the forge does not say so"
		if err := k.comment(c.ref, landedComment(base)); err != nil {
			return err
		}
	}
	return k.closeIssue(c.ref)
}

func (k *clerk) markBlocked(c *chore) error {
	err := k.askPerson(c, forge.LabelBlocked, gaveUpComment(c))
	it := &c.mark.Item
	return k.recordAfter(err, ledger.Record{Blocked: &ledger.Blocked{
		Chain: ledger.Ref(it.Chain), Kind: it.Kind, Why: c.gaveUp(),
	}})
}

func (k *clerk) markNeedsHuman(c *chore) error {
	err := k.askPerson(c, forge.LabelNeedsHuman, needsHumanComment(c))
	if c.mark.Reason.Once() {
		told := toldOf(c)
		told.Why = c.mark.Reason.Text()
		return k.recordAfter(err, ledger.Record{Told: told})
	}
	return k.recordAfter(err, ledger.Record{Handed: handedOf(c)})
}

// gaveUp returns in one line why agents gave up, with the line of factory.toml that allows the hosts that they were
// refused.
func (c *chore) gaveUp() string {
	why := c.mark.Reason.Text()
	if c.failure.Reason != "" {
		why += ": " + c.failure.Reason
	}
	if c.failure.Allow != "" {
		why += "; to allow them, add `" + c.failure.Allow + "` in factory.toml"
	}
	return why
}

func (k *clerk) tellPeople(c *chore) error {
	c.said = "told people: " + c.mark.Reason.Text()
	return k.recordAfter(k.comment(c.ref, toldComment(c)), ledger.Record{Told: toldOf(c)})
}

// recordAfter journals a chore's record unless the chore failed.
func (k *clerk) recordAfter(err error, r ledger.Record) error {
	if err == nil {
		r.At = time.Now()
		k.state.record(r)
	}
	return err
}

func toldOf(c *chore) *ledger.Told {
	return &ledger.Told{Ref: ledger.Ref(c.ref), Key: c.mark.Reason.Key()}
}

// handedOf returns the record of an item's hand-over to a person. Usage that it counts does not count again when the
// person sends the item back.
func handedOf(c *chore) *ledger.Handed {
	h := &ledger.Handed{Ref: ledger.Ref(c.ref), Why: c.mark.Reason.Text()}
	if c.mark.Reason.Code == threads.OverLimit {
		h.Used = ledger.Ref(c.mark.Item.Chain)
	}
	return h
}
