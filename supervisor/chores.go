package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// do does a chore, and then allows decisions on its items again. A chore that panics has failed.
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

// actions has a row for each kind of chore. To add one, write its row.
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

// merge reads the pull request again before it merges, because the plan's scan does not read everything.
func (s *Supervisor) merge(c *chore) error {
	look, err := s.fetchItem(c.ref, time.Now())
	switch {
	case err != nil:
		return err
	case look.Pull == nil:
		return fmt.Errorf("%w: it is not a pull request", forge.ErrConflict)
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

// inChore runs a chore's goroutine in a wait group.
func (s *Supervisor) inChore(group *sync.WaitGroup, c *chore) {
	s.background(group, "the end of a chore of "+c.tag, func() { s.do(c) })
}
