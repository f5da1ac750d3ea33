package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// actSteal moves an issue from a busy agent to an idle one. Like a mark it is tried again until it is clear how it ended,
// also by the next supervisor.
const actSteal threads.Action = "steal"

// balancing is what is known of moving pinned issues. It is guarded by the supervisor's mu.
type balancing struct {
	next time.Time            // when agents are looked at
	seen map[string]time.Time // when each agent was first seen: since then it is idle, as far as we know
	// stuck counts the looks in a row that found somebody idle beside somebody busy, and nothing to move.
	stuck int
}

// stuckLooks is after how many such looks people are told. The scheduler that this follows had 56 of them in two days, and
// nobody noticed.
const stuckLooks = 2

// balanceLocked looks, each time that stealing's interval is over, for issues that should change hands. It takes hold of
// them at once: no tick starts them from here until they have.
func (s *Supervisor) balanceLocked(now time.Time, room *threads.Room) (moves []*chore, news []notice) {
	s.idleSinceLocked(now) // whoever is new is idle from now on
	due := s.config.Stealing.PerCycle > 0 && s.balancing.due(now, s.config.Stealing.Every)
	switch {
	case due && s.config.Fleet.Hub:
		s.wakeHub() // it has to ask the other hosts first, which nothing here may wait for
		return nil, nil
	case !due || s.scans.err != nil:
		return nil, nil
	}
	_, moves, news = s.lookLocked(now, room, false)
	return moves, news
}

// lookLocked weighs who has what to do, and takes hold of the issues that should change hands, unless it is a dry run.
func (s *Supervisor) lookLocked(now time.Time, room *threads.Room, dry bool) (cycle *CycleDocument, moves []*chore, news []notice) {
	b := &s.balancing
	snap := s.snapshotLocked(now, room)
	snap.History.IdleSince = s.idleSinceLocked(now)
	var unknown []string
	snap.Fleet, unknown = s.fleetLocked()
	snap.History.Writers = s.begunLocked()
	balance := threads.Weigh(snap)
	cycle = cycleDocument(now, &balance)
	cycle.DryRun, cycle.Unknown = dry, append(cycle.Unknown, unknown...)
	s.fleet.noteCycleLocked(cycle)
	if dry {
		return cycle, nil, nil
	}
	for i, m := range balance.Moves {
		c := s.stealChore(m)
		cycle.Moves[i].State, cycle.Moves[i].run = MovePending, c.steal.Run
		if s.chores[c.choreKey] == nil {
			moves = append(moves, s.choreLocked(c, nil))
		}
	}
	if !balance.Paired() || len(balance.Moves) > 0 {
		b.stuck = 0
		return cycle, moves, nil
	}
	if b.stuck++; b.stuck == stuckLooks {
		news = append(news, notice{bad: true, words: stuckWords(s.config, &balance)})
	}
	return cycle, moves, news
}

// due reports whether it is time, and when the next time is. That is counted from the last one as it should have been: a
// tick that comes late does not make the interval longer for ever.
func (b *balancing) due(now time.Time, every time.Duration) bool {
	if b.next.IsZero() || b.next.Sub(now) > every {
		b.next = now.Add(every)
	}
	if now.Before(b.next) {
		return false
	}
	b.next = b.next.Add(every * (1 + now.Sub(b.next)/every))
	return true
}

// stuckWords says why nothing moves, for each issue that could.
func stuckWords(cfg *threads.Config, b *threads.Balance) string {
	var whys []string
	for i := range b.Stays {
		st := &b.Stays[i]
		whys = append(whys, wordsOf(cfg, st.Ref, "")+" "+st.Reason.Text())
	}
	const shown = 5
	if more := len(whys) - shown; more > 0 {
		whys = append(whys[:shown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s idle beside %s busy, and nothing can be moved: %s",
		strings.Join(b.Idle, ", "), strings.Join(b.Busy, ", "), strings.Join(whys, "; "))
}

func (s *Supervisor) stealChore(m threads.Move) *chore {
	return &chore{choreKey: choreKey{actSteal, m.Ref, ""}, steal: &stealRecord{
		Ref: ref(m.Ref), Run: runID(s.instance), From: m.From, To: m.To, FromLogin: m.FromLogin, ToLogin: m.ToLogin,
	}}
}

// stealsLocked are the steals of which it is not clear how they ended.
func (s *Supervisor) stealsLocked() []*chore {
	var list []*chore
	for _, item := range sorted(s.history.steals, forge.Ref.Compare) {
		r := s.history.steals[item]
		list = append(list, &chore{choreKey: choreKey{actSteal, item, ""}, steal: &r})
	}
	return list
}

// steal journals what is to happen, lets it happen in one place, the forge, and journals that it is over. After a crash or a
// lost answer the same is tried again: it has happened already, or it still can, or somebody has begun the issue and it
// stays. There is one issue and one assignee at every moment, so there is never a second copy.
func (s *Supervisor) steal(c *chore) error {
	s.mu.Lock()
	_, noted := s.history.steals[c.ref]
	s.mu.Unlock()
	if !noted {
		if err := s.append(record{At: time.Now(), Steal: c.steal}); err != nil {
			return err // nothing has happened, and the next look decides anew
		}
	}
	err := s.reassign(c.ref, c.steal.FromLogin, c.steal.ToLogin, forge.LabelStolen, c.steal.Run)
	if errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || s.base.Err() != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fleet.settleLocked(c.steal.Run, MovePending, text(err))
		return err
	}
	end, state := *c.steal, MoveDone
	end.Done = true
	if err != nil {
		end.Why, state = text(err), MoveStays
	}
	s.noteThen(record{At: time.Now(), Steal: &end}, func() { s.fleet.settleLocked(end.Run, state, end.Why) })
	if err != nil {
		c.did = []string{"stays with " + end.From + ": " + end.Why}
		return nil
	}
	c.did = []string{"moved from " + end.From + " to " + end.To + ", who was idle"}
	return nil
}

func (s *Supervisor) reassign(item forge.Ref, from, to, label, run string) error {
	return s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Reassign(ctx, item, from, to, label, run)
	})
}
