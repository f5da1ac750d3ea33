package saved

import (
	"context"
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// Server saves and restores the caches of its slots. A slot that computes is waited for until ctx is done.
type Server interface {
	// Slots are its slots now.
	Slots(ctx context.Context) ([]agents.ServerSlot, error)
	// Save writes the cache of a slot to a file in the server's folder.
	Save(ctx context.Context, slot int, file string) (agents.Moved, error)
	// Restore fills the cache of a slot from a file there. An error means that the next request begins cold.
	Restore(ctx context.Context, slot int, file string) (agents.Moved, error)
}

// near is how far the size of a conversation may be from its last request's: a server may keep the end of its answer.
const near = 16

func isNear(a, b int64) bool { return a-b <= near && b-a <= near }

// Newest is the number of the newest request of a server.
func Newest(slots []agents.ServerSlot) int64 {
	newest := int64(-1)
	for _, s := range slots {
		newest = max(newest, s.Task)
	}
	return newest
}

// Find returns the idle slot that has the conversation of a session which ended. since is Newest at its beginning. The
// slot is known by the size of the session's last request in tokens, or because the session was alone on the server:
// then its conversation is the largest, and smaller ones are titles and summaries.
func Find(slots []agents.ServerSlot, since, size int64, alone bool) (slot agents.ServerSlot, known bool) {
	var fits, largest *agents.ServerSlot
	several, computes := false, false
	for i := range slots {
		s := &slots[i]
		switch {
		case s.Task <= since:
			continue
		case s.Busy:
			computes = true
			continue
		}
		if size > 0 && isNear(s.Held, size) {
			several = fits != nil
			fits = s
		}
		if s.Held > 0 && (largest == nil || s.Held > largest.Held) {
			largest = s
		}
	}
	switch {
	case fits != nil && !several:
		return *fits, true
	case alone && !computes && largest != nil:
		return *largest, true
	}
	return slot, false
}

// Using returns the slot that has the conversation of a session which runs. It is idle with the size of the session's
// last request and its answer, or its request found as much computed. Where the size is unknown and the session is
// alone on the server, it is the only slot that computed anything since.
func Using(slots []agents.ServerSlot, since, size int64, alone bool) (slot agents.ServerSlot, known bool) {
	n := 0
	for _, s := range slots {
		held := s.Held
		if s.Busy {
			held = s.Cached
		}
		if s.Task > since && (size > 0 && isNear(held, size) || size == 0 && alone && s.Held > 0) {
			slot = s
			n++
		}
	}
	return slot, n == 1
}

// Still returns a slot as it is now, if its newest request is the one that it had.
func Still(slots []agents.ServerSlot, was agents.ServerSlot) (slot agents.ServerSlot, still bool) {
	for _, s := range slots {
		if s.ID == was.ID && s.Task == was.Task {
			return s, s.Busy || s.Held > 0
		}
	}
	return slot, false
}

// Place returns the idle slot that was used least recently, to restore a conversation of some tokens into. taken
// are slots that others were restored into and have not used yet. None is needed where a slot still has the
// conversation.
func Place(slots []agents.ServerSlot, tokens int64, taken []int) (slot int, ok bool) {
	var best *agents.ServerSlot
	for i := range slots {
		s := &slots[i]
		switch {
		case tokens > 0 && s.Held == tokens:
			return 0, false
		case s.Busy, slices.Contains(taken, s.ID):
		case best == nil || s.Task < best.Task:
			best = s
		}
	}
	if best == nil {
		return 0, false
	}
	return best.ID, true
}
