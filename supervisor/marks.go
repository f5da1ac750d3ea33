package supervisor

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

func (s *Supervisor) route(c *chore) error {
	c.said = "routed to " + c.mark.Agent
	if c.from != "" {
		c.said = "goes from " + c.mark.From + ", whose thread is parked, to " + c.mark.Agent
	}
	return s.reassign(c.ref, c.from, c.login, nil, journal.NewRun(s.instance))
}

func (s *Supervisor) releaseClaim(c *chore) error {
	c.said = "claim of " + c.mark.Agent + " released"
	err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Release(ctx, c.ref, c.login) })
	return s.noteAfter(err, ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(c.ref)}})
}

func (s *Supervisor) unlabel(c *chore) error {
	return s.label(c.ref, nil, []string{forge.LabelInProgress})
}

func (s *Supervisor) close(c *chore) error {
	if base := c.mark.Reason.Note; base != "" { // a pull request
		c.said = "closed: its commits are in " + base + ", so it is merged, although the forge does not say so"
		if err := s.comment(c.ref, landedComment(base)); err != nil {
			return err
		}
	}
	return s.closeIssue(c.ref)
}

func (s *Supervisor) markBlocked(c *chore) error {
	err := s.askPerson(c, forge.LabelBlocked, gaveUpComment(c))
	it := &c.mark.Item
	return s.noteAfter(err, ledger.Record{Blocked: &ledger.Blocked{
		Chain: ledger.Ref(it.Chain), Kind: it.Kind, Why: c.gaveUp(),
	}})
}

func (s *Supervisor) markNeedsHuman(c *chore) error {
	err := s.askPerson(c, forge.LabelNeedsHuman, needsHumanComment(c))
	if c.mark.Reason.Code == threads.BlockerCancelled {
		told := toldOf(c)
		told.Why = c.mark.Reason.Text()
		return s.noteAfter(err, ledger.Record{Told: told})
	}
	return s.noteAfter(err, ledger.Record{Handed: handedOf(c)})
}

// gaveUp returns in one line why agents gave up.
func (c *chore) gaveUp() string {
	why := c.mark.Reason.Text()
	if c.failure.Reason != "" {
		why += ": " + c.failure.Reason
	}
	return why
}

func (s *Supervisor) tellPeople(c *chore) error {
	c.said = "told people: " + c.mark.Reason.Text()
	return s.noteAfter(s.comment(c.ref, toldComment(c)), ledger.Record{Told: toldOf(c)})
}

// noteAfter journals a chore's record unless the chore failed.
func (s *Supervisor) noteAfter(err error, r ledger.Record) error {
	if err == nil {
		r.At = time.Now()
		s.books.note(r)
	}
	return err
}

func toldOf(c *chore) *ledger.Told {
	return &ledger.Told{Ref: ledger.Ref(c.ref), Key: c.mark.Reason.Key()}
}

// handedOf returns the record of an item's hand-over to a person. What it counts does not count again when the person
// sends the item back.
func handedOf(c *chore) *ledger.Handed {
	h := &ledger.Handed{Ref: ledger.Ref(c.ref), Why: c.mark.Reason.Text()}
	if c.mark.Reason.Code == threads.OverLimit {
		h.Used = ledger.Ref(c.mark.Item.Chain)
	}
	if c.mark.Reason.Code == threads.TooManyRounds {
		if c.mark.Item.Cause == threads.CauseCI {
			h.Fixes = true
		} else if c.mark.Item.Kind != agents.KindReview { // the limit does not count reviews
			h.Rounds = c.mark.Reason.Count
		}
	}
	return h
}
