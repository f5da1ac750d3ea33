package supervisor

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// probeTime is how long a session has to run before its backend counts as found: a usage limit and a dead server show
// within the first request.
const probeTime = time.Minute

const (
	// panicRest is the pause of a thread after a panic where its own idle_interval is not known.
	panicRest = 30 * time.Second
	// forgetRest is the time between two looks for what needs to be remembered no more.
	forgetRest = 10 * time.Minute
)

// tick is one pass of a thread: scan, decide, act. It returns how long to wait for the next one. A mistake in one pass
// must not stop what the other threads do, so a panic ends here; the only other place is call.
func (s *Supervisor) tick(ctx context.Context, thread string, need time.Time) (delay time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked("a tick of "+thread, v, debug.Stack())
			delay = s.panicDelay(thread)
		}
	}()
	s.scan(ctx, need)
	if ctx.Err() != nil {
		return 0
	}
	todo := s.decide(thread)
	s.act(todo)
	return todo.delay
}

// panicDelay is how long a thread rests after a panic.
func (s *Supervisor) panicDelay(thread string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.threadLocked(thread); t != nil {
		return t.IdleInterval
	}
	return panicRest
}

// todo is what a tick decided to do, to be done outside the lock.
type todo struct {
	starts  []*session
	stops   []*session
	chores  []*chore
	dropped []forge.Ref     // claims in our books that are not on the forge
	gone    []forge.Ref     // what the journal can forget
	held    []*threads.Hold // for another reason than in the last plan
	news    []notice
	delay   time.Duration
}

// decide makes the plan of this moment and commits what a tick of one thread is to do of it: the sessions of its own.
func (s *Supervisor) decide(thread string) todo {
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil || s.until.Err() != nil || s.handing {
		return todo{}
	}
	now := time.Now()
	t := s.commitLocked(now, room, func(start *threads.Start) bool { return start.Thread == thread })
	if s.facts.More && s.scans.err == nil {
		s.kickLocked(thread, now)
	}
	t.delay = s.delayLocked(thread, now)
	return t
}

// commitLocked makes the plan of this moment and commits of it the starts that are ours to make, and all stops, merges and
// marks that nobody else is at. Whoever makes the other starts is kicked.
func (s *Supervisor) commitLocked(now time.Time, room *threads.Room, ours func(*threads.Start) bool) todo {
	var t todo
	t.dropped = s.dropClaimsLocked()
	if !now.Before(s.forgetAt) {
		s.forgetAt = now.Add(forgetRest)
		t.gone = s.forgetLocked()
	}
	plan, broken := s.planLocked(now, room)
	t.news = s.violatedLocked(broken)
	t.held = s.heldLocked(plan.Holds)
	s.plan = plan
	for i := range plan.Starts {
		start := &plan.Starts[i]
		switch {
		case !ours(start):
			s.kickLocked(start.Thread, s.scans.began)
		case s.mayProbeLocked(start.Thread, now):
			t.starts = append(t.starts, s.reserveLocked(start, now))
		}
	}
	t.stops = s.stopsLocked(plan.Stops)
	t.chores = s.choresLocked(&plan, now)
	moves, news := s.rebalanceLocked(now, room)
	t.chores, t.news = append(t.chores, moves...), append(t.news, news...)
	return t
}

// act does what decide committed.
func (s *Supervisor) act(t todo) {
	for _, x := range t.stops {
		x.cancel(stopped{x.stop})
		s.log.Info(fmt.Sprintf("%s stopping: %s", x.tag, x.stop.Text()))
	}
	for _, x := range t.starts {
		go s.run(x)
	}
	for _, c := range t.chores {
		go s.do(c)
	}
	for _, r := range t.dropped {
		s.note(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(r)}})
	}
	for _, r := range t.gone {
		s.note(ledger.Record{At: time.Now(), Forget: &ledger.Forget{Ref: ledger.Ref(r)}})
	}
	for _, h := range t.held {
		s.events.Send(control.EventHeld, queueDocument(h))
	}
	s.tell(t.news...)
	s.touchStatus()
}

// room is what the machine has left; nil when nobody measures it.
func (s *Supervisor) room() *threads.Room {
	if s.Room == nil {
		return nil
	}
	r := s.Room(s.StateDir)
	return &r
}

// snapshotLocked is all that is known now. What is being written to counts as touched this very moment, so that no facts
// are new enough to act on it.
func (s *Supervisor) snapshotLocked(now time.Time, room *threads.Room) threads.Snapshot {
	for r := range s.busy {
		s.history.Touched[r] = now
	}
	for r := range s.history.Steals { // whose it is shows when it has changed hands
		s.history.Touched[r] = now
	}
	for _, r := range s.history.Select(cancelled) { // as good as labelled, also after a restart
		s.history.Touched[r] = now
	}
	snap := threads.Snapshot{Now: now, Config: s.config, Facts: s.facts, History: s.history.History, Room: room}
	snap.History.Threads = s.parkedLocked(now)
	for _, run := range slices.Sorted(maps.Keys(s.sessions)) {
		snap.Sessions = append(snap.Sessions, s.sessions[run].Session)
	}
	return snap
}

// parkedLocked is what keeps threads from starting: a limit or an open breaker, and after it the one probe that has to
// find the backend before more is risked.
func (s *Supervisor) parkedLocked(now time.Time) map[string]*threads.ThreadHistory {
	parked := make(map[string]*threads.ThreadHistory, len(s.history.Threads))
	for name, known := range s.history.Threads {
		t := *known
		if probe := s.probeLocked(name); !t.ParkedUntil.IsZero() && !t.ParkedUntil.After(now) && probe != nil {
			t.ParkedUntil, t.ParkedWhy = probe.reserved.Add(probeTime), t.ParkedWhy+", "+probe.Agent+" tries it"
		}
		if !t.ParkedUntil.After(now) {
			t.ParkedUntil, t.ParkedWhy = time.Time{}, ""
		}
		parked[name] = &t
	}
	return parked
}

// probeLocked is the first session that a thread started after it was parked; nil when there is none.
func (s *Supervisor) probeLocked(thread string) *session {
	var first *session
	for _, x := range s.sessions {
		if x.Thread == thread && !x.reserved.Before(s.history.Thread(thread).ParkedUntil) && (first == nil || x.reserved.Before(first.reserved)) {
			first = x
		}
	}
	return first
}

// mayProbeLocked lets a thread that was parked begin with one session only.
func (s *Supervisor) mayProbeLocked(thread string, now time.Time) bool {
	if s.history.Thread(thread).ParkedUntil.IsZero() {
		return true
	}
	probe := s.probeLocked(thread)
	return probe == nil || !now.Before(probe.reserved.Add(probeTime))
}

// stopsLocked picks the sessions that are to end. The scheduler names none that was told so already.
func (s *Supervisor) stopsLocked(stops []threads.Stop) []*session {
	var list []*session
	for _, stop := range stops {
		if x := s.sessions[stop.RunID]; x != nil {
			x.State, x.stop = threads.Stopping, stop.Reason
			list = append(list, x)
		}
	}
	return list
}

// dropClaimsLocked forgets claims that the journal remembers and the forge does not show, such as one that never got
// there. If they stayed in the books, the claim of another host on the same item would be taken for ours.
func (s *Supervisor) dropClaimsLocked() []forge.Ref {
	var dropped []forge.Ref
	for _, r := range s.history.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" }) {
		repo, known := s.facts.Repo(r.Repo)
		fresh := known && s.busy[r] == 0 && repo.AsOf.After(s.history.Touched[r])
		if fresh && !s.claimShownLocked(r) && !s.hasSessionLocked(r) {
			s.history.Drop(r)
			dropped = append(dropped, r)
		}
	}
	return dropped
}

// claimShownLocked reports whether the forge shows a claim on an open item that may be ours: in-progress, and no other host's
// agent assigned.
func (s *Supervisor) claimShownLocked(r forge.Ref) bool {
	var labelled, closed bool
	var assignees []string
	if is := s.facts.Issue(r); is != nil {
		labelled, closed, assignees = is.Has(forge.LabelInProgress), is.Closed, is.Assignees
	} else if p := s.facts.Pull(r); p != nil {
		labelled, closed, assignees = p.Has(forge.LabelInProgress), p.Closed, p.Assignees
	}
	foreign := slices.ContainsFunc(assignees, func(login string) bool {
		_, bot := slices.BinarySearch(s.config.Forge.Bots, login)
		return bot && s.config.AgentByLogin(login) == nil
	})
	return labelled && !closed && !foreign
}

func (s *Supervisor) hasSessionLocked(r forge.Ref) bool {
	for _, x := range s.sessions {
		if x.Item.Ref == r {
			return true
		}
	}
	return false
}
