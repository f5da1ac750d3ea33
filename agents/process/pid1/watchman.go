package pid1

import "time"

// The times of an init. Docker kills a container 10 s after its TERM: the sessions' grace of 7 s and stopSlack end
// before that.
const (
	// stopSlack is how long a supervisor may take to stop, beyond the sessions' grace: 2 s of it are for releases.
	stopSlack = 2500 * time.Millisecond
	// defaultGrace is the sessions' grace until a supervisor has reported another.
	defaultGrace = 7 * time.Second
	// silence is how long a supervisor may be silent before it gets CONT, and rousing how long after that, or again
	// within a minute, before it is killed. An agent with the same account can stop it.
	silence, rousing = 30 * time.Second, 10 * time.Second
	// trialTime is how long a program that was never ready may take, after an upgrade.
	trialTime = time.Minute
	// calm is how long a supervisor must be ready before its death counts as the first again.
	calm = time.Minute
	// longestRest bounds the rest before a restart: 0, 1, 2, 4 ... seconds.
	longestRest = time.Minute
	// orphanage is how long sessions go on without a supervisor that is ready.
	orphanage = 5 * time.Minute
)

// step is what an init must do next.
type step int

const (
	wait    step = iota
	begin        // start a supervisor
	rouse        // send CONT to the supervisor
	kill         // send KILL to the supervisor
	endAll       // order all shims to end within the grace; their sessions are lost
	leave        // the supervisor has ended, and none follows: end what is left, and exit
	killAll      // the time to stop is over
)

// watchman is what an init knows about its supervisor. It decides, and does nothing: it has no clock.
type watchman struct {
	begun   time.Time // the start of the present supervisor; zero while none runs
	heard   time.Time // its newest message
	ready   time.Time // when it first reported that it is ready; zero before
	roused  time.Time // when it got CONT, if it has said nothing since
	stopped time.Time // when it last got CONT; zero before
	killed  bool      // it got KILL
	ended   time.Time // the end of the last one
	settled bool      // a supervisor has been ready
	trial   bool      // the program has never been ready: it comes from an upgrade
	deaths  int       // in a row, none of which was long after the start
	early   bool      // the last one died before it was ready
	alone   time.Time // since when no supervisor has been ready; zero while one is
	lost    bool      // the shims were ordered to end, since nobody took care of them

	grace    time.Duration
	stopBy   time.Time // when a stop must be over; zero while there is none
	last     bool      // the supervisor was started to stop, or has stopped: none follows
	upgrades int
	crashes  int
}

// started records the start of a supervisor.
func (w *watchman) started(now time.Time) {
	w.begun, w.heard, w.ready, w.roused, w.stopped, w.killed = now, now, time.Time{}, time.Time{}, time.Time{}, false
	w.last = !w.stopBy.IsZero()
	if w.alone.IsZero() {
		w.alone = now
	}
}

// isRoused records that the supervisor gets CONT.
func (w *watchman) isRoused(now time.Time) { w.roused, w.stopped = now, now }

// got records a message of the supervisor.
func (w *watchman) got(now time.Time) { w.heard, w.roused = now, time.Time{} }

// isReady records that the supervisor is ready, and reports whether it is so for the first time.
func (w *watchman) isReady(now time.Time) (first bool) {
	first = w.ready.IsZero()
	if first {
		w.ready, w.settled, w.trial, w.alone, w.lost = now, true, false, time.Time{}, false
	}
	return first
}

// died records the end of the supervisor. clean says that it exited with status 0, and upgrade that it did so to be
// followed by another program.
func (w *watchman) died(now time.Time, clean, upgrade bool) {
	switch {
	case clean && !upgrade && !w.stopBy.IsZero():
		w.last = true
	case upgrade:
		w.deaths, w.trial, w.upgrades = 0, true, w.upgrades+1
	case !w.ready.IsZero() && now.Sub(w.ready) >= calm:
		w.deaths, w.crashes = 1, w.crashes+1
	default:
		w.deaths, w.crashes = w.deaths+1, w.crashes+1
	}
	w.early = !upgrade && w.ready.IsZero()
	w.begun, w.ready, w.ended = time.Time{}, time.Time{}, now
	if w.alone.IsZero() {
		w.alone = now
	}
}

// rolledBack records that the program before an upgrade is started again: there was no upgrade.
func (w *watchman) rolledBack() { w.trial, w.upgrades = false, w.upgrades-1 }

// stop records an order to stop. A second one leaves no grace.
func (w *watchman) stop(now time.Time) {
	if w.stopBy.IsZero() {
		w.stopBy = now.Add(w.grace + stopSlack)
		return
	}
	if soon := now.Add(stopSlack); soon.Before(w.stopBy) {
		w.stopBy = soon
	}
}

// rest returns the time between the last supervisor's end and the next one's start. A stop leaves no time for it.
func (w *watchman) rest() time.Duration {
	if w.deaths < 2 || !w.stopBy.IsZero() {
		return 0
	}
	return min(time.Second<<min(w.deaths-2, 6), longestRest)
}

// leaves reports whether no supervisor runs and none must follow. After an order to stop one more does, which releases
// the claims, unless supervisors die at their start.
func (w *watchman) leaves() bool {
	return w.begun.IsZero() && (w.last || !w.settled || !w.stopBy.IsZero() && w.early && w.deaths > 1)
}

// next returns what must be done now. With wait, it is when to ask again at the latest; zero means that only a signal
// or a message changes anything.
func (w *watchman) next(now time.Time) (step, time.Time) {
	over := func(at time.Time) bool { return !now.Before(at) }
	switch {
	case !w.stopBy.IsZero() && over(w.stopBy):
		return killAll, time.Time{}
	case w.leaves():
		return leave, time.Time{}
	}
	var soonest time.Time
	due := func(at time.Time) bool {
		if over(at) {
			return true
		}
		if soonest.IsZero() || at.Before(soonest) {
			soonest = at
		}
		return false
	}
	again := !w.stopped.IsZero() && now.Sub(w.stopped) < calm // somebody stops it again and again
	switch {
	case w.begun.IsZero() && due(w.ended.Add(w.rest())):
		return begin, time.Time{}
	case w.settled && !w.lost && !w.alone.IsZero() && due(w.alone.Add(orphanage)):
		return endAll, time.Time{}
	case !w.stopBy.IsZero() && due(w.stopBy):
	case w.begun.IsZero() || w.killed:
	case w.trial && due(w.begun.Add(trialTime)):
		return kill, time.Time{}
	case w.roused.IsZero() && again && due(w.heard.Add(rousing)):
		return kill, time.Time{}
	case w.roused.IsZero() && due(w.heard.Add(silence)):
		return rouse, time.Time{}
	case !w.roused.IsZero() && due(w.roused.Add(rousing)):
		return kill, time.Time{}
	}
	return wait, soonest
}
