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
func (b *books) view(now time.Time, room *threads.Room, f func(threads.Snapshot)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.snapshotLocked(now, room))
}

// snapshotLocked returns all that the books know at now. Items that are being written to count as touched at this very
// moment, so that no facts are new enough to act on. That moment is read under the lock: a caller that waited for the
// lock brings a now from before it, and facts requested since would count as newer than a write that is still under
// way.
func (b *books) snapshotLocked(now time.Time, room *threads.Room) threads.Snapshot {
	locked := time.Now()
	for r := range b.busy {
		b.ledger.Touched[r] = locked
	}
	for r := range b.ledger.Steals { // the assignee is unknown until the steal ends
		b.ledger.Touched[r] = locked
	}
	for _, r := range b.ledger.Select(cancelled) { // treated as labelled, even after a restart
		b.ledger.Touched[r] = locked
	}
	snap := threads.Snapshot{
		Now: now, Config: b.cfg, Facts: b.facts, History: b.ledger.History, Room: room, Rooms: b.rooms,
	}
	snap.History.Threads, snap.Typical = b.parkedLocked(now), b.ledger.Typical()
	snap.History.Agents = b.savingLocked(now)
	snap.Caches = b.cachesLocked()
	if b.outages != nil && b.cfg != nil {
		snap.Outages = b.outages(b.cfg, now)
	}
	for _, run := range slices.Sorted(maps.Keys(b.sessions)) {
		snap.Sessions = append(snap.Sessions, b.sessions[run].Session)
	}
	return snap
}

// parkedLocked returns the histories of threads. A park lasts until a single session has probed the backend for
// probeTime.
func (b *books) parkedLocked(now time.Time) map[string]*threads.ThreadHistory {
	parked := make(map[string]*threads.ThreadHistory, len(b.ledger.Threads))
	for name, known := range b.ledger.Threads {
		t := *known
		if probe := b.probeLocked(name); !t.ParkedUntil.IsZero() && !t.ParkedUntil.After(now) && probe != nil {
			t.ParkedUntil, t.ParkedWhy = probe.reserved.Add(probeTime), t.ParkedWhy+", "+probe.Agent+" tries it"
		}
		if !t.ParkedUntil.After(now) {
			t.ParkedUntil, t.ParkedWhy = time.Time{}, ""
		}
		parked[name] = &t
	}
	return parked
}

// probeLocked returns the first session that a thread started after it was parked; nil if there is none.
func (b *books) probeLocked(thread string) *session {
	var first *session
	for _, x := range b.sessions {
		after := x.Thread == thread && !x.reserved.Before(b.ledger.Thread(thread).ParkedUntil)
		if after && (first == nil || x.reserved.Before(first.reserved)) {
			first = x
		}
	}
	return first
}

// mayProbeLocked reports whether a thread may start a session: a thread that was parked starts with a single one.
func (b *books) mayProbeLocked(thread string, now time.Time) bool {
	if b.ledger.Thread(thread).ParkedUntil.IsZero() {
		return true
	}
	probe := b.probeLocked(thread)
	return probe == nil || !now.Before(probe.reserved.Add(probeTime))
}
