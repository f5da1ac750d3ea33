package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// actSteal moves an issue from a busy agent to an idle one. Like a mark it is retried until the forge says how it
// ended, if need be by the next supervisor.
const actSteal threads.Action = "steal"

// rebalanceLocked searches, whenever stealing's interval is over, for issues that should change hands. It reserves
// them at once, so that no tick starts them here.
func (s *Supervisor) rebalanceLocked(now time.Time, room *threads.Room) (moves []*chore, news []notice) {
	switch due := s.hub.Due(s.config, now); {
	case due && s.config.Fleet.Hub:
		s.hub.Wake() // it asks the other hosts first, which a tick must not wait for
		return nil, nil
	case !due || s.scans.err != nil:
		return nil, nil
	}
	return s.weighLocked(&fleet.Cycle{At: now}, now, room)
}

// weighLocked decides which issues change hands, and reserves them unless the cycle is a dry run.
func (s *Supervisor) weighLocked(c *fleet.Cycle, now time.Time, room *threads.Room) (moves []*chore, news []notice) {
	for i, m := range s.hub.Weigh(s.snapshotLocked(now, room), c) {
		if c.DryRun {
			break
		}
		steal := s.stealChore(m)
		c.Moves[i].State, c.Moves[i].Run = fleet.MovePending, steal.steal.Run
		if s.chores[steal.choreKey] == nil {
			moves = append(moves, s.choreLocked(steal, nil))
		}
	}
	if s.hub.Note(c) {
		news = append(news, notice{bad: true, words: stuckWords(s.config, c)})
	}
	return moves, news
}

// stuckWords says for each issue that could move why it does not.
func stuckWords(cfg *threads.Config, c *fleet.Cycle) string {
	var whys []string
	for i := range c.Stays {
		st := &c.Stays[i]
		whys = append(whys, wordsOf(cfg, forge.Ref{Repo: st.Repo, Number: st.Number}, "")+" "+st.Why)
	}
	const shown = 5
	if more := len(whys) - shown; more > 0 {
		whys = append(whys[:shown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s idle beside %s busy, and nothing can be moved: %s",
		strings.Join(c.Idle, ", "), strings.Join(c.Busy, ", "), strings.Join(whys, "; "))
}

func (s *Supervisor) stealChore(m threads.Move) *chore {
	return &chore{choreKey: choreKey{actSteal, m.Ref, ""}, steal: &ledger.Steal{
		Ref: ledger.Ref(m.Ref), Run: journal.NewRun(s.instance), From: m.From, To: m.To,
		FromLogin: m.FromLogin, ToLogin: m.ToLogin,
	}}
}

// stealsLocked returns the steals whose end is not known.
func (s *Supervisor) stealsLocked() []*chore {
	var list []*chore
	for _, item := range slices.SortedFunc(maps.Keys(s.history.Steals), forge.Ref.Compare) {
		r := s.history.Steals[item]
		list = append(list, &chore{choreKey: choreKey{actSteal, item, ""}, steal: &r})
	}
	return list
}

// steal journals what is to happen, changes the assignee on the forge in one step, and journals how that ended. After
// a crash or a lost answer the same steal is retried: it has happened already, or it still can, or an agent has begun
// the issue, which then stays. There is one issue with one assignee at every moment, so there is never a second copy.
func (s *Supervisor) steal(c *chore) error {
	s.mu.Lock()
	_, noted := s.history.Steals[c.ref]
	s.mu.Unlock()
	if !noted {
		if err := s.append(ledger.Record{At: time.Now(), Steal: c.steal}); err != nil {
			return err // nothing has happened, and the next cycle decides again
		}
	}
	err := s.reassign(c.ref, c.steal.FromLogin, c.steal.ToLogin, forge.LabelStolen, c.steal.Run)
	if errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || s.base.Err() != nil {
		s.hub.Settle(c.steal.Run, fleet.MovePending, text(err))
		return err
	}
	end, state := *c.steal, fleet.MoveDone
	end.Done = true
	if err != nil {
		end.Why, state = text(err), fleet.MoveStays
	}
	s.noteThen(ledger.Record{At: time.Now(), Steal: &end}, func() { s.hub.Settle(end.Run, state, end.Why) })
	if err != nil {
		c.said = "stays with " + end.From + ": " + end.Why
		return nil
	}
	c.said = "moved from " + end.From + " to " + end.To + ", who was idle"
	return nil
}

func (s *Supervisor) reassign(item forge.Ref, from, to, label, run string) error {
	return s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Reassign(ctx, item, from, to, label, run)
	})
}
