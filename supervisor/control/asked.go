package control

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Asked knows which connections wait for an answer. The zero value knows none; a nil Asked watches nothing. It is safe
// for concurrent use.
type Asked struct {
	mu    sync.Mutex // guards since
	since map[net.Conn]time.Time
}

// watch makes the connections of a server known.
func (a *Asked) watch(s *http.Server) {
	if a != nil {
		s.ConnState = a.change
	}
}

func (a *Asked) change(c net.Conn, to http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch to {
	case http.StateNew, http.StateActive:
		if a.since == nil {
			a.since = make(map[net.Conn]time.Time)
		}
		a.since[c] = time.Now()
	default:
		delete(a.since, c)
	}
}

// Await waits until every connection since a time is answered, but no longer than most. Older ones, such as that of a
// client that follows the events, need not end.
func (a *Asked) Await(since time.Time, most time.Duration) {
	for late := time.Now().Add(most); a.owes(since) && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
}

func (a *Asked) owes(since time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.since {
		if at.After(since) {
			return true
		}
	}
	return false
}
