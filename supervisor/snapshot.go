package supervisor

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// probeTime is how long a session must run before its backend counts as working: a usage limit and a dead server show
// within the first request.
const probeTime = time.Minute

// view runs f on a current snapshot, which is invalid once f returns. It needs a configuration.
func (st *state) view(now time.Time, room *threads.Room, f func(threads.Snapshot)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f(st.snapshotLocked(now, room))
}

// snapshotLocked returns all that the state knows at now. Items that are being written to count as touched at this very
// moment, so that no facts are new enough to act on. That moment is read under the lock: a caller that waited for the
// lock brings a now from before it, and facts requested since would count as newer than a write that is still under
// way.
func (st *state) snapshotLocked(now time.Time, room *threads.Room) threads.Snapshot {
	locked := time.Now()
	for r := range st.busy {
		st.ledger.Touched[r] = locked
	}
	for r := range st.ledger.Steals { // the assignee is unknown until the steal ends
		st.ledger.Touched[r] = locked
	}
	for _, r := range st.ledger.Select(cancelled) { // treated as labelled, even after a restart
		st.ledger.Touched[r] = locked
	}
	snap := threads.Snapshot{
		Now: now, Began: st.life.started, Config: st.cfg, Facts: st.facts, History: st.ledger.History, Room: room,
		Rooms: st.rooms,
	}
	snap.History.Threads, snap.Typical = st.parkedLocked(now), st.ledger.Typical()
	snap.History.Agents = st.savingLocked(now)
	snap.Caches = st.cachesLocked()
	if st.outages != nil && st.cfg != nil {
		snap.Outages = st.outages(st.cfg, now)
	}
	for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
		snap.Sessions = append(snap.Sessions, st.sessions[run].Session)
	}
	return snap
}

// parkedLocked returns the histories of threads. A park lasts until a single session has probed the backend for
// probeTime.
func (st *state) parkedLocked(now time.Time) map[string]*threads.ThreadHistory {
	parked := make(map[string]*threads.ThreadHistory, len(st.ledger.Threads))
	for name, known := range st.ledger.Threads {
		t := *known
		if !t.ParkedUntil.IsZero() && !t.ParkedUntil.After(now) {
			if probe := st.probeLocked(name); probe != nil {
				t.ParkedUntil, t.ParkedWhy = probe.reserved.Add(probeTime), t.ParkedWhy+", "+probe.Agent+" tries it"
			}
		}
		if !t.ParkedUntil.After(now) {
			t.ParkedUntil, t.ParkedWhy = time.Time{}, ""
		}
		parked[name] = &t
	}
	return parked
}

// probeLocked returns the first session that a thread started after it was parked; nil if there is none.
func (st *state) probeLocked(thread string) *session {
	var first *session
	for _, x := range st.sessions {
		after := x.Thread == thread && !x.reserved.Before(st.ledger.Thread(thread).ParkedUntil)
		if after && (first == nil || x.reserved.Before(first.reserved)) {
			first = x
		}
	}
	return first
}

// mayProbeLocked reports whether a thread may start a session: a thread that was parked starts with a single one.
func (st *state) mayProbeLocked(thread string, now time.Time) bool {
	if st.ledger.Thread(thread).ParkedUntil.IsZero() {
		return true
	}
	probe := st.probeLocked(thread)
	return probe == nil || !now.Before(probe.reserved.Add(probeTime))
}
