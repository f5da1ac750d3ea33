package services

import (
	"time"

	"codeberg.org/johba/disinto/threads"
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
	Done      Phase = "done"    // no process: a oneshot that has ended with 0, so it can be used
	Ended     Phase = "ended"   // no process: its program ended, and its Restart wants no other start
	Stopped   Phase = "stopped" // no process: a person stopped it
)

// runs reports whether a process of the service may exist.
func (p Phase) runs() bool {
	return p == Preparing || p == Starting || p == Ready || p == Silent || p == Ending
}

// State has the facts about a service that a decision needs. New returns the state of a service that never ran.
type State struct {
	Phase  Phase     `json:"phase"`
	Since  time.Time `json:"since"`            // of the phase
	Good   time.Time `json:"good,omitzero"`    // when this run of its program could first be used
	Starts int       `json:"starts"`           // starts of its program
	Fails  int       `json:"fails,omitempty"`  // failures in a row
	Until  time.Time `json:"until,omitzero"`   // end of its rest
	Why    string    `json:"why,omitempty"`    // cause of its last failure
	Said   string    `json:"said,omitempty"`   // why it cannot be used, as it or the check reported
	Misses int       `json:"misses,omitempty"` // failed checks in a row, while it was ready
	Held   bool      `json:"held,omitempty"`   // a person stopped it: it does not start until a person starts it
	// Failing is why it is being ended, if that end counts as a failure.
	Failing string `json:"failing,omitempty"`

	// The next supervisor checks again.
	asked  time.Time // when it was last checked
	asking bool      // a check has not answered yet

	share   Share // of a stop
	hurried bool  // its Kill was ordered
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

// Start records that the program is about to run.
func (s *State) Start(now time.Time) {
	s.Starts++
	s.Said, s.Misses, s.asked, s.asking = "", 0, time.Time{}, false
	s.turn(Starting, now)
}

// Kept returns the part of the state that the next supervisor needs. It checks again whether the service can be used.
func (s State) Kept() State {
	s.Said, s.Misses, s.asked, s.asking, s.share, s.hurried = "", 0, time.Time{}, false, Share{}, false
	return s
}

// Ask records that a check of the service has started.
func (s *State) Ask(now time.Time) { s.asked, s.asking = now, true }

// Answer records whether the service x can be used. why is empty if it can.
func (s *State) Answer(x *threads.Service, now time.Time, why string) {
	s.asking, s.Said = false, why
	switch {
	case s.Phase == Ready && why != "":
		if s.Misses++; s.Misses >= x.ReadyFailures {
			s.turn(Silent, now)
		}
	case why == "":
		if s.Misses = 0; s.Phase != Starting && s.Phase != Silent {
			return
		}
		if s.Good.IsZero() {
			s.Good = now
		}
		s.turn(Ready, now)
	}
}

// End records that the service is being ended. failing is the cause if the end counts as a failure, otherwise empty.
// The first End counts.
func (s *State) End(now time.Time, failing string) {
	if s.Phase != Ending {
		s.Failing = failing
	}
	s.turn(Ending, now)
}

// Hurry records that the service's grace is over.
func (s *State) Hurry() { s.hurried = true }

// Exit is how a run of a service ended, when none of its processes is left. The zero value means: as ordered by End.
type Exit struct {
	Zero bool   // its program ended by itself, with status 0
	Why  string // in words, for every end that nobody ordered
}

// Ended records the end of a run of the service x.
func (s *State) Ended(x *threads.Service, now time.Time, e Exit) {
	lasted := s.lasted(now)
	if e == (Exit{}) {
		e.Why = s.Failing
	}
	s.Good, s.Said, s.Misses, s.hurried, s.Failing = time.Time{}, "", 0, false, ""
	again := x.Again(e.Zero)
	if lasted || !again {
		s.Fails = 0
	}
	switch {
	case s.Held:
		s.turn(Stopped, now)
	case e == Exit{}:
		s.turn(Waiting, now)
	case e.Zero && !again && x.Oneshot:
		s.Why = ""
		s.turn(Done, now)
	case e.Zero && !again:
		s.Why = ""
		s.turn(Ended, now)
	default:
		s.Fails++
		s.Why = e.Why
		if !again {
			s.turn(Ended, now)
			return
		}
		s.Until = now.Add(rest(s.Fails))
		s.turn(Resting, now)
	}
}

// lasted reports whether this run of the program resets the count of failures.
func (s *State) lasted(now time.Time) bool { return !s.Good.IsZero() && now.Sub(s.Good) >= steady }

// Forgive lets the service start at once, and resets its failures, because a person asked for a start.
func (s *State) Forgive(now time.Time) {
	s.Held, s.Fails, s.Why, s.Until = false, 0, "", time.Time{}
	if !s.Phase.runs() {
		s.turn(Waiting, now)
	}
}

// Hold keeps the service from starting, because a person stops it. If it runs, it has to be ended as well.
func (s *State) Hold(now time.Time) {
	s.Held, s.Fails, s.Why, s.Until = true, 0, "", time.Time{}
	if !s.Phase.runs() {
		s.turn(Stopped, now)
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

// usable reports whether what needs the service can start.
func (x *Service) usable() bool { return x.Phase == Ready || x.Phase == Done }
