package saved

import (
	"context"
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// Server saves and restores the caches of its slots. Both wait for a computing slot until ctx is done.
type Server interface {
	// Slots returns the present state of its slots.
	Slots(ctx context.Context) ([]agents.ServerSlot, error)
	// Save writes the cache of a slot to a file in the server's folder.
	Save(ctx context.Context, slot int, file string) (agents.Moved, error)
	// Restore fills the cache of a slot from a file there. After an error the next request starts cold.
	Restore(ctx context.Context, slot int, file string) (agents.Moved, error)
}

// near is how many tokens a conversation's size may differ from that of its last request, because a server may keep
// the end of its answer.
const near = 16

func isNear(a, b int64) bool { return a-b <= near && b-a <= near }

// Newest returns the number of a server's newest request.
func Newest(slots []agents.ServerSlot) int64 {
	newest := int64(-1)
	for _, s := range slots {
		newest = max(newest, s.Task)
	}
	return newest
}

// Find returns the idle slot with the conversation of a session that ended. since is Newest at the session's start.
// Find recognises the slot by the size of the session's last request in tokens, or because the session was alone on
// the server: then its conversation is the largest one, and smaller ones are titles and summaries.
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

// Using returns the slot with the conversation of a running session. That slot either is idle and holds about as many
// tokens as the session's last request with its answer, or computes a request that found about as many cached. If the
// size is unknown and the session is alone on the server, it is the only slot that has computed since.
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

// Unchanged returns the present state of a slot, if its newest request has not changed.
func Unchanged(slots []agents.ServerSlot, was agents.ServerSlot) (slot agents.ServerSlot, still bool) {
	for _, s := range slots {
		if s.ID == was.ID && s.Task == was.Task {
			return s, s.Busy || s.Held > 0
		}
	}
	return slot, false
}

// Place returns the least recently used idle slot, to restore a conversation of some tokens into. taken are slots
// that other conversations were restored into and have not used yet. If a slot still holds the conversation, there is
// nothing to restore.
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
