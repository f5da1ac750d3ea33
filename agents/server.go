package agents

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Server is an inference server of the operator, such as a llama-server, as it describes itself. Zero values are facts
// that it does not tell.
type Server struct {
	Model   string // its name for the model
	Path    string // of the model's file, on the server's machine
	Build   string // its version
	Slots   int    // requests that it computes at the same time
	Context int    // of one slot, in tokens
	Asleep  bool   // it has unloaded its model, and loads it for the next request
	// PerToken is the size of a token of a conversation in its memory, in bytes, with the default types.
	PerToken int64
	// Forgets says that its model has state that is not kept token by token: of a file nothing can be gone on with, and of
	// its memory only from the points that it saved.
	Forgets bool
	// At are its slots now; nil where it does not tell them.
	At []ServerSlot
	// Work counts since its start; nil where it does not count.
	Work *ServerWork
}

// ServerSlot is one slot of a server at one moment.
type ServerSlot struct {
	ID      int
	Task    int64 // grows with each request of the server; -1 before the first request of the slot
	Busy    bool
	Context int   // in tokens
	Held    int64 // tokens in its cache
	Read    int64 // tokens of the prompt that the request had computed so far
	Cached  int64 // tokens of the prompt that the request found computed; reads 0 after its end
	Written int64 // tokens that the request wrote so far
}

// ServerWork are a server's counters. They begin anew with the server.
type ServerWork struct {
	Read, Written               int64   // tokens; Read is without those that a cache had
	ReadSeconds, WrittenSeconds float64 // what that took, summed over slots
	Busy, Deferred              int     // requests: being computed, waiting for a slot
}

// Bounds of what a server says of itself. The largest numbers stand far above those of any real server: they keep
// products and sums of them in range.
const (
	MaxServerSlots  = 1024
	MaxServerTokens = 1 << 40
	maxPerToken     = 1 << 30
	maxServerName   = 200 // in bytes
)

// Emptied reports whether all of its idle slots but the one with the newest request hold nothing any more, and that
// one does: the slots share one cache, and idle ones are emptied for the next request.
func (s *Server) Emptied() bool {
	newest := slices.MaxFunc(append(s.At[:len(s.At):len(s.At)], ServerSlot{Task: -1}), func(a, b ServerSlot) int {
		return cmp.Compare(a.Task, b.Task)
	})
	served := func(slot ServerSlot) bool { return !slot.Busy && slot.Task >= 0 && slot.Task < newest.Task }
	held := func(slot ServerSlot) bool { return served(slot) && slot.Held > 0 }
	return newest.Held > 0 && slices.ContainsFunc(s.At, served) && !slices.ContainsFunc(s.At, held)
}

// Bounded is the server with each number between 0 and its bound, and with names that fit a line.
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
	if !(s >= 0) { // not a number either
		return 0
	}
	return min(s, MaxServerTokens)
}

// serverName is a name of a server's without control characters, and at most maxServerName bytes of it.
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

// Moved is a slot's cache that went to a file, or came from it.
type Moved struct {
	Tokens int64
	Bytes  int64
	Took   time.Duration // as the server measured it
}
