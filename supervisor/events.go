package supervisor

import (
	"sync"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// EventType says what happened.
type EventType string

// The events of GET /v1/events. The data of claimed and started is a SessionDocument, of ended a RecentDocument, of held a
// QueueDocument, of merged and closed a RefData.
const (
	EventClaimed EventType = "claimed"
	EventStarted EventType = "started"
	EventEnded   EventType = "ended"
	EventHeld    EventType = "held" // an item waits, for another reason than before
	EventMerged  EventType = "merged"
	EventClosed  EventType = "closed" // a convoy, because all its members are done
)

// Event is one thing that happened.
type Event struct {
	Type EventType
	Data any // encoded as JSON
}

// RefData names a pull request or a convoy.
type RefData struct {
	Repo   string `json:"repo"`
	Number int64  `json:"number"`
}

// eventBacklog is how many events a reader may be behind. One that falls further back is dropped, not waited for.
const eventBacklog = 256

// hub hands events to whoever listens. The zero value has no listeners.
type hub struct {
	mu        sync.Mutex // guards what follows
	listeners map[chan Event]bool
	closed    bool
}

// listen returns a channel of what happens from now on; it is closed when the reader was too slow, or by shut.
func (h *hub) listen() chan Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan Event, eventBacklog)
	if h.closed {
		close(c)
		return c
	}
	if h.listeners == nil {
		h.listeners = make(map[chan Event]bool)
	}
	h.listeners[c] = true
	return c
}

// leave ends a listen; it may be called after the channel was closed.
func (h *hub) leave(c chan Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(c)
}

func (h *hub) dropLocked(c chan Event) {
	if h.listeners[c] {
		delete(h.listeners, c)
		close(c)
	}
}

// send never blocks.
func (h *hub) send(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.listeners {
		select {
		case c <- e:
		default:
			h.dropLocked(c)
		}
	}
}

// heard reports whether anybody listens.
func (h *hub) heard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) > 0
}

// shut ends every listen.
func (h *hub) shut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.listeners {
		h.dropLocked(c)
	}
}

// Events returns what happens from now on, to a reader in this process; leave ends that. It may be called before Run, so
// that nothing is missed. The channel is closed when the reader falls too far behind, and when Run ends.
func (s *Supervisor) Events() (events <-chan Event, leave func()) {
	c := s.events.listen()
	return c, func() { s.events.leave(c) }
}

func sessionEvent(t EventType, d SessionDocument) Event { return Event{Type: t, Data: d} }

func endedEvent(x *session, e *endRecord, at time.Time) Event {
	return Event{Type: EventEnded, Data: RecentDocument{
		RunID: x.RunID, Agent: x.Agent, Repo: x.Item.Ref.Repo, Number: x.Item.Ref.Number, Kind: x.Item.Kind,
		Outcome: e.Result, Reason: e.Reason, LastLine: e.LastLine, StartedAt: x.reserved, EndedAt: at,
	}}
}

// heldLocked are the items that wait for another reason than in the last plan. With ten thousand items the comparison is
// work, and is left out while nobody listens.
func (s *Supervisor) heldLocked(holds []*threads.Hold) []Event {
	if !s.events.heard() {
		return nil
	}
	before := make(map[threads.Key]threads.Code, len(s.plan.Holds))
	for _, h := range s.plan.Holds {
		before[h.Key()] = h.Reason.Code
	}
	var events []Event
	for _, h := range holds {
		if before[h.Key()] != h.Reason.Code {
			events = append(events, Event{Type: EventHeld, Data: queueDocument(h)})
		}
	}
	return events
}
