package agents

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Server describes an inference server of the operator, such as a llama-server, by the server's own reports. A zero
// value is a fact that the server does not report.
type Server struct {
	Model   string // the server's name for the model
	Path    string // of the model's file, on the server's machine
	Build   string // its version
	Slots   int    // how many requests it computes at the same time
	Context int    // of one slot, in tokens
	Asleep  bool   // it has unloaded its model, and loads it for the next request
	// PerToken is how many bytes of the server's memory a token of a conversation occupies, with the default types.
	PerToken int64
	// Forgets says that the model has state that the server does not store per token. A conversation can then not be
	// resumed from a file, and from memory only at the points that the server saved.
	Forgets bool
	// At holds the slots at this moment; nil if the server does not report them.
	At []ServerSlot
	// Work holds the counters since the server's start; nil if the server does not count.
	Work *ServerWork
}

// ServerSlot is one slot of a server at one moment.
type ServerSlot struct {
	ID      int
	Task    int64 // grows with each request of the server; -1 before the first request of the slot
	Busy    bool
	Context int   // in tokens
	Held    int64 // tokens in its cache
	Read    int64 // tokens of the prompt that are computed so far
	Cached  int64 // tokens of the prompt that the request found in the cache; 0 after the request's end
	Written int64 // tokens that the request has written so far
}

// ServerWork holds a server's counters, which restart at 0 with the server.
type ServerWork struct {
	Read, Written               int64   // tokens; Read excludes those that a cache held
	ReadSeconds, WrittenSeconds float64 // time spent, summed over slots
	Busy, Deferred              int     // requests: being computed, and waiting for a slot
}

// Bounds on what a server reports about itself. They are far above the numbers of any real server, and keep products
// and sums in range.
const (
	MaxServerSlots  = 1024
	MaxServerTokens = 1 << 40
	maxPerToken     = 1 << 30
	maxServerName   = 200 // in bytes
)

// Emptied reports whether the server empties idle slots for the next request, because all slots share one cache: the
// slot with the newest request holds tokens, and every other idle slot is empty.
func (s *Server) Emptied() bool {
	newest := slices.MaxFunc(append(s.At[:len(s.At):len(s.At)], ServerSlot{Task: -1}), func(a, b ServerSlot) int {
		return cmp.Compare(a.Task, b.Task)
	})
	served := func(slot ServerSlot) bool { return !slot.Busy && slot.Task >= 0 && slot.Task < newest.Task }
	held := func(slot ServerSlot) bool { return served(slot) && slot.Held > 0 }
	return newest.Held > 0 && slices.ContainsFunc(s.At, served) && !slices.ContainsFunc(s.At, held)
}

// Bounded returns the server with each number between 0 and its bound, and with names that fit on a line.
func (s Server) Bounded() Server {
	s.Model, s.Path, s.Build = serverName(s.Model), serverName(s.Path), serverName(s.Build)
	s.Slots = min(max(s.Slots, 0), MaxServerSlots)
	s.Context = int(bounded(int64(s.Context)))
	s.PerToken = min(max(s.PerToken, 0), maxPerToken)
	at := s.At[:min(len(s.At), MaxServerSlots)]
	s.At = nil
	for _, slot := range at {
		slot.ID = min(max(slot.ID, 0), MaxServerSlots)
		slot.Context = int(bounded(int64(slot.Context)))
		slot.Held, slot.Read = bounded(slot.Held), bounded(slot.Read)
		slot.Cached, slot.Written = bounded(slot.Cached), bounded(slot.Written)
		s.At = append(s.At, slot)
	}
	if s.Work != nil {
		w := *s.Work
		w.Read, w.Written = bounded(w.Read), bounded(w.Written)
		w.ReadSeconds, w.WrittenSeconds = boundedSeconds(w.ReadSeconds), boundedSeconds(w.WrittenSeconds)
		w.Busy, w.Deferred = min(max(w.Busy, 0), MaxServerSlots), min(max(w.Deferred, 0), 1_000_000)
		s.Work = &w
	}
	return s
}

func bounded(n int64) int64 { return min(max(n, 0), MaxServerTokens) }

func boundedSeconds(s float64) float64 {
	if !(s >= 0) { // also true of NaN
		return 0
	}
	return min(s, MaxServerTokens)
}

// serverName removes control characters from a server's name and cuts it to maxServerName bytes.
func serverName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if len(name) > maxServerName {
		name = strings.ToValidUTF8(name[:maxServerName], "")
	}
	return strings.TrimSpace(name)
}

// Moved reports a slot's cache that was saved to a file or restored from it.
type Moved struct {
	Tokens int64
	Bytes  int64
	Took   time.Duration // as the server measured it
}
