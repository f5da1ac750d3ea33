package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// do does a chore, and then lets its items be decided on again. One that panics has failed.
func (s *Supervisor) do(c *chore) {
	row, err, began := actions[c.action], errors.New(internalError), time.Now()
	s.safely("a chore of "+c.tag, func() { err = row.do(s, c) })
	s.done(c, began, err)
	touched := c.grip.letGo()
	if err == nil {
		s.problems.repaired(c.action)
	}
	s.tell(s.books.choreDone(c, row, err))
	s.kicks.all(touched)
	s.touchStatus()
}

// actions are all kinds of chores. To add one, write its row.
var actions = map[threads.Action]action{
	ActMerge:              {"merge", "merged", (*Supervisor).merge},
	actCancel:             {"label cancelled", "cancelled by hand", (*Supervisor).cancel},
	actSteal:              {"move", "", (*Supervisor).steal},
	threads.ActRoute:      {"assign", "", (*Supervisor).route},
	threads.ActRelease:    {"release the claim", "", (*Supervisor).releaseClaim},
	threads.ActUnlabel:    {"remove in-progress", "in-progress removed: no agent is assigned", (*Supervisor).unlabel},
	threads.ActClose:      {"close", "closed, its pull request is merged", (*Supervisor).close},
	threads.ActBlocked:    {"label blocked", "", (*Supervisor).markBlocked},
	threads.ActNeedsHuman: {"label needs-human", "", (*Supervisor).markNeedsHuman},
	threads.ActAsk:        {"ask people", "", (*Supervisor).askPeople},
	threads.ActAnswered:   {"note the answer", "", (*Supervisor).noteAnswer},
	threads.ActPlanFirst:  {"label plan-first", "", (*Supervisor).labelPlanFirst},
	threads.ActTell:       {"comment", "", (*Supervisor).tellPeople},
	threads.ActEndConvoy:  {"close the convoy", "", (*Supervisor).endConvoy},
}

// merge reads the pull request once more before it merges: the plan is from a scan, which does not read everything.
func (s *Supervisor) merge(c *chore) error {
	look, err := ask(s, func(ctx context.Context, f Forge) (forge.Look, error) { return f.Look(ctx, c.ref, time.Now()) })
	switch {
	case err != nil:
		return err
	case look.Pull == nil:
		return fmt.Errorf("%w: it is no pull request", forge.ErrConflict)
	}
	c.chain = threads.ChainOf(look.Pull)
	why := ""
	s.view(func(snap threads.Snapshot) {
		why = threads.StillMerges(snap, threads.Merge{Ref: c.ref, HeadSHA: c.head, Base: c.base}, *look.Pull)
	})
	if why != "" {
		return fmt.Errorf("%w: %s", forge.ErrConflict, why)
	}
	err = s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Merge(ctx, c.ref, c.head, c.base)
	})
	if err == nil {
		at, chain := time.Now(), ledger.Ref(threads.ChainOf(look.Pull))
		s.books.note(ledger.Record{At: at, Merged: &ledger.Merged{Ref: ledger.Ref(c.ref), Chain: chain, When: at}})
		s.deleteSaved(s.books.config(), func(_ string, over forge.Ref) bool { return over == forge.Ref(chain) })
		s.events.Send(control.EventMerged, control.RefData{Repo: c.ref.Repo, Number: c.ref.Number})
		if s.Notify != nil {
			s.Notify.Merged(c.ref, look.Pull.Title)
		}
	}
	return err
}

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

// gaveUp says in one line why agents gave up.
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

// noteAfter journals what a chore did, unless it failed.
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

// handedOf records what a person now looks at, so that it does not count again when they send it back.
func handedOf(c *chore) *ledger.Handed {
	h := &ledger.Handed{Ref: ledger.Ref(c.ref), Why: c.mark.Reason.Text()}
	if c.mark.Reason.Code == threads.OverLimit {
		h.Used = ledger.Ref(c.mark.Item.Chain)
	}
	if c.mark.Reason.Code == threads.TooManyRounds {
		if c.mark.Item.Cause == threads.CauseCI {
			h.Fixes = true
		} else if c.mark.Item.Kind != agents.KindReview { // reviews are not counted on
			h.Rounds = c.mark.Reason.Count
		}
	}
	return h
}
