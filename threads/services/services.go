// Package services decides about the programs that run beside the agents: which one starts, which waits for another
// or rests after a failure, and which is ended. The supervisor reports events by calling the methods of State, and
// carries out the steps of a Plan.
package services

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// How long services rest, and how often they are checked.
const (
	restMin = time.Second // after a failure, doubled each time in a row
	restMax = 5 * time.Minute
	steady  = 10 * time.Minute // a service that was ready for so long starts counting failures again

	askSoon  = time.Second      // between two checks of a service that cannot be used
	askLate  = 10 * time.Second // between two checks of a service that can be used
	hangTime = 2 * time.Minute  // a service that has not answered for so long is ended
)

// Phase is the present state of a service.
type Phase string

// The phases, in order.
const (
	Waiting   Phase = "waiting"   // no process: it is about to start, or waits for services that it needs
	Preparing Phase = "preparing" // a command before its start runs
	Starting  Phase = "starting"  // its program runs, and could not be used yet
	Ready     Phase = "ready"
	Silent    Phase = "silent" // it could be used, and no longer answers
	Ending    Phase = "ending"
	Resting   Phase = "resting" // no process: it failed, and is started again later
)

// runs reports whether a process of the service may exist.
func (p Phase) runs() bool { return p != Waiting && p != Resting }

// State has the facts about a service that a decision needs. New returns the state of a service that never ran.
type State struct {
	Phase  Phase     `json:"phase"`
	Since  time.Time `json:"since"`           // of the phase
	Good   time.Time `json:"good,omitzero"`   // when this run of its program could first be used
	Starts int       `json:"starts"`          // starts of its program
	Fails  int       `json:"fails,omitempty"` // failures in a row
	Until  time.Time `json:"until,omitzero"`  // end of its rest
	Why    string    `json:"why,omitempty"`   // cause of its last failure
	Said   string    `json:"said,omitempty"`  // why it cannot be used, as it or the check reported

	// The next image checks again.
	asked  time.Time // when it was last checked
	asking bool      // a check has not answered yet
}

// New returns the state of a service that never ran.
func New(now time.Time) State { return State{Phase: Waiting, Since: now} }

func (s *State) turn(p Phase, now time.Time) {
	if s.Phase != p {
		s.Phase, s.Since = p, now
	}
}

// Prepare records that a command before the start is about to run.
func (s *State) Prepare(now time.Time) { s.turn(Preparing, now) }

// Start records that the program is about to run. asks is false for a service that can be used as soon as it runs.
func (s *State) Start(now time.Time, asks bool) {
	s.Starts++
	s.Said, s.asked, s.asking = "", time.Time{}, false
	s.turn(Starting, now)
	if !asks {
		s.Answer(now, "")
	}
}

// Ask records that a check of the service has started.
func (s *State) Ask(now time.Time) { s.asked, s.asking = now, true }

// Answer records whether the service can be used. why is empty if it can.
func (s *State) Answer(now time.Time, why string) {
	s.asking = false
	switch {
	case s.Phase == Ready && why != "":
		s.turn(Silent, now)
	case (s.Phase == Starting || s.Phase == Silent) && why == "":
		if s.Good.IsZero() {
			s.Good = now
		}
		s.turn(Ready, now)
	}
	s.Said = why
}

// End records that the service is being ended.
func (s *State) End(now time.Time) { s.turn(Ending, now) }

// Ended records that none of its processes is left. why is the cause of a failure; empty if it was to end.
func (s *State) Ended(now time.Time, why string) {
	lasted := s.lasted(now)
	s.Good, s.Said = time.Time{}, ""
	if why == "" {
		s.turn(Waiting, now)
		return
	}
	if lasted {
		s.Fails = 0
	}
	s.Fails++
	s.Why, s.Until = why, now.Add(rest(s.Fails))
	s.turn(Resting, now)
}

// lasted reports whether this run of the program resets the count of failures.
func (s *State) lasted(now time.Time) bool { return !s.Good.IsZero() && now.Sub(s.Good) >= steady }

// Forgive ends a rest, and resets the failures, because a person asked for a start.
func (s *State) Forgive(now time.Time) {
	s.Fails, s.Why, s.Until = 0, "", time.Time{}
	if s.Phase == Resting {
		s.turn(Waiting, now)
	}
}

// rest returns the time to the next start after that many failures in a row.
func rest(fails int) time.Duration {
	d := restMin
	for range min(fails, 64) - 1 {
		d = min(2*d, restMax)
	}
	return d
}

// Service is a service with its state.
type Service struct {
	threads.Service // as it was started; while it does not run, as it is configured
	State
	Gone bool // no longer configured
}

// asks reports whether the service has a check.
func (s *Service) asks() bool { return s.ReadyURL != "" || len(s.ReadyCommand) > 0 }

// Snapshot has all the facts that Decide needs.
type Snapshot struct {
	Now      time.Time
	Services []Service // sorted by name
	Stopping bool      // all of them must end
}

// Action is a kind of step.
type Action string

// The actions.
const (
	Start Action = "start"
	Ask   Action = "ask" // start a check
	End   Action = "end"
)

// Step is one thing to do now.
type Step struct {
	Name   string
	Do     Action
	Why    string // of an End
	Failed bool   // the End is for a failure, so the service rests afterwards
}

// Plan says what to do now, and when to decide again if nothing happens before; zero means never.
type Plan struct {
	Steps []Step
	Next  time.Time
}

// Decide returns what to do with each service, sorted by name.
func Decide(s Snapshot) (p Plan) {
	for i := range s.Services {
		x := &s.Services[i]
		step, next := s.decide(x)
		if step.Do != "" {
			step.Name = x.Name
			p.Steps = append(p.Steps, step)
		}
		if next.After(s.Now) && (p.Next.IsZero() || next.Before(p.Next)) {
			p.Next = next
		}
	}
	return p
}

// decide returns what to do with one service now, and when time alone changes that or the words about it.
func (s *Snapshot) decide(x *Service) (step Step, next time.Time) {
	switch {
	case x.Phase == Ending:
	case x.Phase.runs() && s.Stopping:
		if !s.serves(x.Name) {
			return Step{Do: End, Why: "the supervisor stops"}, next
		}
	case x.Phase.runs() && x.Gone:
		return Step{Do: End, Why: "it is no longer configured"}, next
	case x.Gone, s.Stopping:
	case x.Phase == Silent && !s.Now.Before(x.Since.Add(hangTime)):
		return Step{Do: End, Why: "it has not answered for " + age(hangTime) + ": " + x.Said, Failed: true}, next
	case x.Phase == Preparing:
		return step, x.Since.Add(alarmTime)
	case x.Phase.runs():
		return s.checkReady(x)
	case x.Until.After(s.Now):
		return step, x.Until
	case s.lacks(x) == "":
		return Step{Do: Start}, next
	}
	return step, next
}

// checkReady checks a running service from time to time.
func (s *Snapshot) checkReady(x *Service) (step Step, next time.Time) {
	changes := map[Phase]time.Time{
		Starting: x.Since.Add(alarmTime), Ready: x.Good.Add(steady), Silent: x.Since.Add(hangTime),
	}[x.Phase]
	if !x.asks() || x.asking {
		return step, changes
	}
	every := askSoon
	if x.Phase == Ready {
		every = askLate
	}
	if next = x.asked.Add(every); next.After(s.Now) {
		if changes.After(s.Now) && changes.Before(next) {
			next = changes
		}
		return step, next
	}
	return Step{Do: Ask}, changes
}

// serves reports whether a running service needs the named one.
func (s *Snapshot) serves(name string) bool {
	return slices.ContainsFunc(s.Services, func(x Service) bool {
		return x.Phase.runs() && slices.Contains(x.Needs, name)
	})
}

// lacks returns the first service that another one needs and that cannot be used; empty without one.
func (s *Snapshot) lacks(x *Service) string {
	for _, need := range x.Needs {
		usable := func(y Service) bool { return y.Name == need && y.Phase == Ready && !y.Gone }
		if !slices.ContainsFunc(s.Services, usable) {
			return need
		}
	}
	return ""
}
