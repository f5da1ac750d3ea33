package services

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads"
)

const (
	alarmFails = 3                // so many failures in a row need a person
	alarmTime  = 10 * time.Minute // so does a start that takes so long
)

// Outages returns the configured services that cannot be used, by name, with the reasons.
func Outages(s Snapshot) map[string]threads.Outage {
	out := make(map[string]threads.Outage)
	for i := range s.Services {
		if x := &s.Services[i]; !x.usable() && !x.Gone {
			out[x.Name] = s.outage(x)
		}
	}
	return out
}

func (s *Snapshot) outage(x *Service) (out threads.Outage) {
	switch x.Phase {
	case Preparing:
		out.Why = "is prepared"
	case Starting:
		if out.Why = "is starting"; x.Oneshot {
			out.Why = "has not ended yet"
		}
	case Silent:
		out.Why = "does not answer: " + x.Said
	case Ending:
		out.Why = "is being ended"
	case Resting:
		out = threads.Outage{Why: "failed (" + x.Why + ") and rests", Until: x.Until}
	case Stopped:
		out.Why = "was stopped by hand (disinto start " + x.Name + ")"
	case Ended:
		if out.Why = "has ended"; x.Fails > 0 {
			out.Why = "failed (" + x.Why + ") and is not started again"
		}
	default:
		out.Why = "is about to start"
		if need := s.lacks(x); need != "" {
			out.Why = "waits for service " + need
			out.Why += s.ofNeed(need, ", which ")
		}
	}
	return out
}

// ofNeed returns, after a word, why a service that another one needs cannot be used.
func (s *Snapshot) ofNeed(name, after string) string {
	if x := s.named(name); x != nil && !x.Gone {
		return after + s.outage(x).Why
	}
	return after + "is no longer configured"
}

// Why returns why a service cannot be used, or which service it needs and no longer has; empty without such a cause.
func Why(s Snapshot, name string) string {
	x := s.named(name)
	switch {
	case x == nil:
	case x.Phase == Starting && x.Said != "":
		return "not ready yet: " + x.Said
	case x.Phase == Silent:
		return x.Said
	case x.Phase == Resting:
		return x.Why
	case x.Phase == Ended && x.Fails > 0:
		return x.Why + "; restart does not start it again"
	case x.Phase == Waiting && s.lacks(x) != "":
		return "waits for " + Lacks(s, name)
	case x.Phase.runs() && x.Phase != Ending && s.lacks(x) != "":
		return s.lacks(x) + ", which it needs, " + s.ofNeed(s.lacks(x), "")
	}
	return ""
}

// Alarm says what a person has to repair: a service that fails again and again, or does not become ready; empty
// without a cause. A service that failed keeps its alarm until it has been ready for ten minutes, or a person starts
// it.
func (x *Service) Alarm(now time.Time) string {
	mend := "; see disinto logs " + x.Name
	switch {
	case x.Gone, x.lasted(now):
	case x.Phase == Ended && x.Fails > 0:
		return fmt.Sprintf("service %s failed and is not started again: %s%s", x.Name, x.Why, mend)
	case x.Fails >= alarmFails:
		return fmt.Sprintf("service %s failed %d times in a row, last: %s%s", x.Name, x.Fails, x.Why, mend)
	case (x.Phase == Starting || x.Phase == Preparing) && !now.Before(x.Since.Add(alarmTime)):
		become := "become ready"
		if x.Oneshot {
			become = "ended"
		}
		words := fmt.Sprintf("service %s has not %s within %s", x.Name, become, age(alarmTime))
		if x.Said != "" {
			words += ": " + x.Said
		}
		return words + mend
	}
	return ""
}

// age formats whole minutes as people write them: 2m.
func age(d time.Duration) string { return strings.TrimSuffix(d.String(), "0s") }
