// Package services decides what becomes of the programs that run beside the agents: which one starts, which waits for
// another or rests after a failure, and which is ended. The supervisor tells by the methods of State what happened, and
// carries out the steps of a Plan.
package services

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// How long services rest, and how often they are asked.
const (
	restMin = time.Second // after a failure, doubled each time in a row
	restMax = 5 * time.Minute
	steady  = 10 * time.Minute // a service that has been ready for so long counts its failures anew

	askSoon  = time.Second      // between two questions to a service that cannot be used
	askLate  = 10 * time.Second // and to one that can
	hangTime = 2 * time.Minute  // a service that has stopped answering for so long is ended
)

// Phase says what a service does.
type Phase string

// The phases, in their order.
const (
	Waiting   Phase = "waiting"   // runs nothing: it is about to start, or waits for services that it needs
	Preparing Phase = "preparing" // a command runs that comes before its start
	Starting  Phase = "starting"  // its program runs, and could not be used yet
	Ready     Phase = "ready"
	Silent    Phase = "silent" // it could be used, and does not answer any more
	Ending    Phase = "ending"
	Resting   Phase = "resting" // runs nothing: it failed, and is started again later
)

// runs reports whether a process of the service may exist.
func (p Phase) runs() bool { return p != Waiting && p != Resting }

// State has the facts about a service that a decision needs. New makes that of one that never ran.
type State struct {
	Phase  Phase     `json:"phase"`
	Since  time.Time `json:"since"`           // of the phase
	Good   time.Time `json:"good,omitzero"`   // when this run of its program could be used first
	Starts int       `json:"starts"`          // of its program
	Fails  int       `json:"fails,omitempty"` // in a row
	Until  time.Time `json:"until,omitzero"`  // of its rest
	Why    string    `json:"why,omitempty"`   // how it failed last
	Said   string    `json:"said,omitempty"`  // why it cannot be used, as it, or asking it, says

	// The next image asks anew.
	asked  time.Time // when it was asked last whether it can be used
	asking bool      // there is no answer yet
}

// New is the state of a service that never ran.
func New(now time.Time) State { return State{Phase: Waiting, Since: now} }

func (s *State) turn(p Phase, now time.Time) {
	if s.Phase != p {
		s.Phase, s.Since = p, now
	}
}

// Prepare says that a command before the start is about to run.
func (s *State) Prepare(now time.Time) { s.turn(Preparing, now) }

// Start says that the program is about to run. asks is false for a service that can be used as soon as that runs.
func (s *State) Start(now time.Time, asks bool) {
	s.Starts++
	s.Said, s.asked, s.asking = "", time.Time{}, false
	s.turn(Starting, now)
	if !asks {
		s.Answer(now, "")
	}
}

// Ask says that the service is being asked whether it can be used.
func (s *State) Ask(now time.Time) { s.asked, s.asking = now, true }

// Answer says whether the service can be used: why is empty when it can.
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

// End says that it is being ended.
func (s *State) End(now time.Time) { s.turn(Ending, now) }

// Ended says that no process of it is left. why is how it failed; empty when it was to end.
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

// lasted reports whether this run of its program counts as a good one.
func (s *State) lasted(now time.Time) bool { return !s.Good.IsZero() && now.Sub(s.Good) >= steady }

// Forgive has it started without a rest: a person asked for it.
func (s *State) Forgive(now time.Time) {
	s.Fails, s.Why, s.Until = 0, "", time.Time{}
	if s.Phase == Resting {
		s.turn(Waiting, now)
	}
}

// rest is the time to the next start after so many failures in a row.
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
	Gone bool // it is no longer configured
}

// asks reports whether it is asked if it can be used.
func (s *Service) asks() bool { return s.ReadyURL != "" || len(s.ReadyCommand) > 0 }

// Snapshot holds all the facts that Decide decides on.
type Snapshot struct {
	Now      time.Time
	Services []Service // sorted by name
	Stopping bool      // all of them are to end
}

// Action is a thing to do with a service.
type Action string

// The actions.
const (
	Start Action = "start"
	Ask   Action = "ask" // whether it can be used
	End   Action = "end"
)

// Step is one thing to do now.
type Step struct {
	Name   string
	Do     Action
	Why    string // of an End
	Failed bool   // the End is for a failure, after which the service rests
}

// Plan says what to do now, and when to decide again if nothing happens before; zero when that is never.
type Plan struct {
	Steps []Step
	Next  time.Time
}

// Decide says what to do with each service, sorted by name.
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

// decide returns what to do with one service now, and when time alone changes that or what is said of it.
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
		return s.ask(x)
	case x.Until.After(s.Now):
		return step, x.Until
	case s.lacks(x) == "":
		return Step{Do: Start}, next
	}
	return step, next
}

// ask has a service that runs asked from time to time.
func (s *Snapshot) ask(x *Service) (step Step, next time.Time) {
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

// serves reports whether a service that runs needs the named one.
func (s *Snapshot) serves(name string) bool {
	return slices.ContainsFunc(s.Services, func(x Service) bool {
		return x.Phase.runs() && slices.Contains(x.Needs, name)
	})
}

// lacks is the first service that another one needs, and that cannot be used; empty when there is none.
func (s *Snapshot) lacks(x *Service) string {
	for _, need := range x.Needs {
		usable := func(y Service) bool { return y.Name == need && y.Phase == Ready && !y.Gone }
		if !slices.ContainsFunc(s.Services, usable) {
			return need
		}
	}
	return ""
}
