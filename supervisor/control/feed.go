package control

import "sync"

// EventType names the kind of an event.
type EventType string

// The events of GET /v1/events. The data of claimed and started is a SessionDocument, of ended a RecentDocument, of
// held a QueueDocument, of merged and closed a RefData.
const (
	EventClaimed EventType = "claimed"
	EventStarted EventType = "started"
	EventEnded   EventType = "ended"
	EventHeld    EventType = "held" // an item waits, for a new reason
	EventMerged  EventType = "merged"
	EventClosed  EventType = "closed" // a convoy was closed, because all its members are done
)

// Event is one event.
type Event struct {
	Type EventType
	Data any // encoded as JSON
}

// RefData names a pull request or a convoy.
type RefData struct {
	Repo   string `json:"repo"`
	Number int64  `json:"number"`
}

// backlog bounds the unread events of a reader. A reader that falls further behind is dropped.
const backlog = 256

// Feed sends events to its readers. The zero value has none. Its methods may be called from any goroutine and never
// block.
type Feed struct {
	mu      sync.Mutex // guards the fields below
	readers map[chan Event]bool
	closed  bool
}

// Read returns the events from now on. The channel is closed when the reader falls too far behind, by leave, and by
// Close. leave is idempotent.
func (f *Feed) Read() (events <-chan Event, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan Event, backlog)
	if f.closed {
		close(c)
		return c, func() {}
	}
	if f.readers == nil {
		f.readers = make(map[chan Event]bool)
	}
	f.readers[c] = true
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dropLocked(c)
	}
}

func (f *Feed) dropLocked(c chan Event) {
	if f.readers[c] {
		delete(f.readers, c)
		close(c)
	}
}

// Send sends an event to every reader, and drops the readers that are too far behind.
func (f *Feed) Send(t EventType, data any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.readers {
		select {
		case c <- Event{t, data}:
		default:
			f.dropLocked(c)
		}
	}
}

// HasReaders reports whether any reader would get an event, so that costly events can be skipped.
func (f *Feed) HasReaders() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.readers) > 0
}

// Close ends every Read, including later ones.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.readers {
		f.dropLocked(c)
	}
}
