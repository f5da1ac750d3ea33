package main

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

// watched is a supervisor whose status and events the test controls.
type watched struct {
	path   string      // the path that it answers; empty means /v1/state
	tell   chan string // sends an event; closing it ends the stream
	deaf   bool        // has no events
	mu     sync.Mutex  // guards the fields below
	answer string      // the answer at path; empty when the supervisor is gone
	asked  int
}

func (s *watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.RequestURI() == cmp.Or(s.path, statePath):
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked++; s.answer == "" {
			w.WriteHeader(http.StatusBadGateway)
		}
		fmt.Fprint(w, s.answer)
	case s.deaf || r.URL.Path != "/v1/events":
		w.WriteHeader(http.StatusNotFound)
	default:
		w.(http.Flusher).Flush()
		for e := range s.tell {
			fmt.Fprintf(w, "event: %s\ndata: {}\n\n", e)
			w.(http.Flusher).Flush()
		}
	}
}

func (s *watched) set(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// output collects a command's output while a test reads it.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// In a pipe, status --watch prints the status again when it has changed, until the supervisor ends. It looks again at
// each event, and without events at intervals.
func TestStatusWatch(t *testing.T) {
	first := readTestdata(t, "status/busy.json")
	second := strings.ReplaceAll(first, `"v0.1.0"`, `"v0.2.0"`)
	text := readTestdata(t, "status/busy-pipe.txt")
	both := text + "\n" + strings.ReplaceAll(text, "v0.1.0", "v0.2.0")
	for name, tt := range map[string]struct {
		deaf bool
		pace pace
	}{
		"by events":      {false, pace{rest: 0, slow: time.Hour}},
		"without events": {true, pace{rest: time.Hour, slow: time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &watched{tell: make(chan string), deaf: tt.deaf, answer: first}
			out := &output{}
			q := &statusQuery{
				client: control.NewClient(serveSocket(t, s)),
				c:      &cli{stdout: out, now: func() time.Time { return noon }},
				path:   statePath, render: rendering(screen.View.Status),
			}
			ended := make(chan error, 1)
			go func() { ended <- q.watch(t.Context(), tt.pace) }()
			tell := func(e string) {
				if !tt.deaf {
					s.tell <- e
				}
			}
			eventually(t, "the first status", func() bool { return out.String() == text })
			tell("held") // the status is unchanged: nothing is printed
			s.set(second)
			tell("started")
			eventually(t, "the second status", func() bool { return out.String() == both })
			s.set("")
			if !tt.deaf {
				close(s.tell)
			}
			if err := <-ended; err == nil {
				t.Error("status --watch continues without a supervisor")
			}
			if out.String() != both {
				t.Errorf("got output %s", out.String())
			}
		})
	}
}
