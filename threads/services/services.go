// Package services decides about the programs that run beside the agents: which one starts, which waits for another
// or rests after a failure, and which is ended. The supervisor reports events by calling the methods of State, and
// carries out the steps of a Plan.
package services

import (
	"cmp"
	"slices"
	"time"
)

// How long services rest, and how often they are checked.
const (
	restMin = time.Second // after a failure, doubled each time in a row
	restMax = 5 * time.Minute
	steady  = 10 * time.Minute // a service that was ready for so long starts counting failures again

	askSoon = time.Second      // between two checks of a service that does not answer well
	askLate = 10 * time.Second // between two checks of a service that does
)

// The defaults of a service's thresholds.
const (
	runTime = time.Second // without a check, a service can be used when it has run for so long
	AskTime = 5 * time.Second
	hang    = 2 * time.Minute // a service that has not answered for so long is ended
)

// Snapshot has all the facts that Decide needs.
type Snapshot struct {
	Now      time.Time
	Services []Service // sorted by name
	Stopping bool      // all of them must end, each in its Share
}

// Action is a kind of step.
type Action string

// The actions.
const (
	Start Action = "start"
	Ask   Action = "ask"   // start a check
	Trust Action = "trust" // it has no check, and has run long enough to be used
	End   Action = "end"
	Kill  Action = "kill" // end the grace of an End
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
		decide := s.decide
		if s.Stopping {
			decide = s.stop
		}
		step, next := decide(x)
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
	case x.Phase.runs() && x.Gone:
		return Step{Do: End, Why: "it is no longer configured"}, next
	case x.Gone:
	case x.Phase == Silent && !s.Now.Before(x.Since.Add(x.hang())):
		return Step{Do: End, Why: "it has not answered for " + age(x.hang()) + ": " + x.Said, Failed: true}, next
	case x.Phase == Preparing:
		return step, x.Since.Add(alarmTime)
	case x.Phase.runs() && x.Asks():
		return s.checkReady(x)
	case x.Phase == Starting && !x.Oneshot:
		if next = x.Since.Add(cmp.Or(x.ReadyAfter, runTime)); !next.After(s.Now) {
			return Step{Do: Trust}, s.Now.Add(steady)
		}
	case x.Phase.runs():
		return step, x.changes()
	case x.Until.After(s.Now):
		return step, x.Until
	case (x.Phase == Waiting || x.Phase == Resting) && s.lacks(x) == "":
		return Step{Do: Start}, next
	}
	return step, next
}

// hang returns how long a service may be silent.
func (x *Service) hang() time.Duration { return cmp.Or(x.RestartAfter, hang) }

// changes returns when time alone changes the words about a running service.
func (x *Service) changes() time.Time {
	return map[Phase]time.Time{
		Starting: x.Since.Add(alarmTime), Ready: x.Good.Add(steady), Silent: x.Since.Add(x.hang()),
	}[x.Phase]
}

// checkReady checks a running service from time to time.
func (s *Snapshot) checkReady(x *Service) (step Step, next time.Time) {
	changes := x.changes()
	if x.asking {
		return step, changes
	}
	every := askSoon
	if x.Phase == Ready && x.Misses == 0 {
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

// needs returns the services that a service needs, also through those that do not run: if an app needs a migration that
// is done, it still needs the migration's database.
func (s *Snapshot) needs(x *Service) (names []string) {
	var add func(list []string)
	add = func(list []string) {
		for _, name := range list {
			if slices.Contains(names, name) {
				continue
			}
			names = append(names, name)
			if y := s.named(name); y != nil && !y.Phase.runs() {
				add(y.Needs)
			}
		}
	}
	add(x.Needs)
	return names
}

// named returns the service with a name; nil without one.
func (s *Snapshot) named(name string) *Service {
	for i := range s.Services {
		if s.Services[i].Name == name {
			return &s.Services[i]
		}
	}
	return nil
}

// lacks returns the first service that another one needs and that cannot be used; empty without one.
func (s *Snapshot) lacks(x *Service) string {
	for _, need := range s.needs(x) {
		if y := s.named(need); y == nil || y.Gone || !y.usable() {
			return need
		}
	}
	return ""
}

// Lacks returns why a service cannot start, after "it waits for "; empty if it can.
func Lacks(s Snapshot, name string) string {
	x := s.named(name)
	if x == nil || s.lacks(x) == "" {
		return ""
	}
	return s.lacks(x) + s.ofNeed(s.lacks(x), ", which ")
}

// Dependants returns the running services that need the named one, sorted.
func Dependants(s Snapshot, name string) (names []string) {
	for i := range s.Services {
		if x := &s.Services[i]; x.Phase.runs() && slices.Contains(s.needs(x), name) {
			names = append(names, x.Name)
		}
	}
	return names
}
