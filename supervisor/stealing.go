package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// rebalance searches, whenever stealing's interval is over, for issues that should change hands. It reserves them at
// once, so that no tick starts them here.
func (s *Supervisor) rebalance(now time.Time) {
	cfg := s.books.config()
	if cfg == nil {
		return
	}
	switch due := s.hub.Due(cfg, now); {
	case due && cfg.Fleet.Hub:
		s.hub.Wake() // it asks the other hosts first, which a tick must not wait for
	case due && s.books.scanned().err == nil:
		for _, m := range s.weigh(&fleet.Cycle{At: now}) {
			s.inChore(&s.running, m)
		}
	}
}

// weigh decides which issues change hands, and reserves them unless the cycle is a dry run.
func (s *Supervisor) weigh(c *fleet.Cycle) (moves []*chore) {
	moves, stuck := s.books.weigh(s.hub, c, time.Now(), s.room())
	if stuck {
		s.log.Error(stuckWords(s.books.config(), c))
	}
	return moves
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

// steal journals what is to happen, changes the assignee on the forge in one step, and journals how that ended. After a
// crash or a lost answer the same steal is retried: it has happened already, or it still can, or an agent has begun the
// issue, which then stays. There is one issue with one assignee at every moment, so there is never a second copy.
func (s *Supervisor) steal(c *chore) error {
	if !s.books.stealing(c.ref) {
		if err := s.books.append(ledger.Record{At: time.Now(), Steal: c.steal}); err != nil {
			return err // nothing has happened, and the next cycle decides again
		}
	}
	err := s.reassign(c.ref, c.steal.FromLogin, c.steal.ToLogin, s.stolenLabels(c.steal), c.steal.Run)
	if errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || s.base.Err() != nil {
		s.hub.Settle(c.steal.Run, fleet.MovePending, text(err))
		return err
	}
	end, state := *c.steal, fleet.MoveDone
	end.Done = true
	if err != nil {
		end.Why, state = text(err), fleet.MoveStays
	}
	s.books.noteThen(ledger.Record{At: time.Now(), Steal: &end}, func(*books) { s.hub.Settle(end.Run, state, end.Why) })
	if err != nil {
		c.said = "stays with " + end.From + ": " + end.Why
		return nil
	}
	c.said = "moved from " + end.From + " to " + end.To + ", who was idle"
	return nil
}

// stolenLabels are the labels of an issue that is moved away from an agent of another host, or of ours.
func (s *Supervisor) stolenLabels(steal *ledger.Steal) []string {
	host, _, other := strings.Cut(steal.From, "/")
	if !other {
		host = s.Host
	}
	if host == "" {
		return []string{forge.LabelStolen}
	}
	return []string{forge.LabelStolen, forge.StolenFrom(host)}
}

func (s *Supervisor) reassign(item forge.Ref, from, to string, labels []string, run string) error {
	return s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Reassign(ctx, item, from, to, labels, run)
	})
}
