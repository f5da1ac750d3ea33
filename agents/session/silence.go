package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama"
)

const (
	// firstAnswer is the time limit for the first answer of a paid API's model. After a refused request, codex, qwen and
	// opencode wait silently until its retry time, up to hours. The supervisor would treat that as a stall and count an
	// attempt. A local backend has no usage limits and may read a long prompt for minutes, so it has no time limit.
	firstAnswer = 5 * time.Minute
	// nextAnswer is the time limit for each later answer of a paid API's model: less than the stall of 15 minutes.
	nextAnswer = 14 * time.Minute
	// lastWord is how long a CLI may be silent after its last event. Some CLIs wait for a background tool, or for a
	// connection that is never closed. Their work is done, and the slot is needed.
	lastWord = 30 * time.Second
	// lastTask is the same while a CLI waits for its background tasks and the agent has not written its answer yet: it
	// may wait for its tests. A server that it started never ends. Less than the stall, which would count as an attempt.
	lastTask = 10 * time.Minute
	// probeEvery and downTime: while a CLI waits in silence for its model, the backend is probed. If it has been down for
	// downTime, the CLI is ended. qwen sent 81 requests in 300 s to a server that reset each of them.
	probeEvery = 15 * time.Second
	downTime   = time.Minute
	// idleTime is how long a CLI may wait for a llama-server that computes nothing. claude has stopped after the result
	// of a tool and never sent its next request. The supervisor would call that a stall, and count an attempt.
	idleTime = 5 * time.Minute
)

// errIdle means that the backend computes nothing, so that it will not answer.
var errIdle = errors.New("the server computes nothing")

// silentError is the cause for which a run that waits for its model in silence is ended.
type silentError struct{ words string }

func (e *silentError) Error() string { return e.words }

// silence ends a run whose CLI waits in silence for a model that will not answer.
type silence struct {
	local  bool // without a time limit for answers: the backend is local, or the program says nothing of answers
	cancel context.CancelCauseFunc
	handed func() bool // the agent has written its answer or its verdict
	timer  *time.Timer
	heard  atomic.Int64 // when the last event came, in Unix nanoseconds
	works  atomic.Bool  // the CLI does not wait for its model: it runs a tool, or has ended
}

// listen starts to watch a run. probe reports why the backend is down, and nil if it may be up; a nil probe knows
// nothing.
func (r *run) listen(ctx context.Context, cancel context.CancelCauseFunc, probe func(context.Context) error) *silence {
	s := &silence{local: r.Local || r.own() != nil, cancel: cancel, handed: r.hasAnswered}
	s.heard.Store(r.Now().UnixNano())
	s.timer = time.AfterFunc(firstAnswer, func() {
		words := "no answer from the model for minutes; %s may be waiting for a usage limit, in silence"
		cancel(&silentError{fmt.Sprintf(words, r.CLI)})
	})
	if s.local {
		s.timer.Stop()
	}
	if probe != nil {
		go s.watch(ctx, r, probe)
	}
	return s
}

// watch probes the backend while the CLI is silent.
func (s *silence) watch(ctx context.Context, r *run, probe func(context.Context) error) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var since time.Time // the backend has been down since then; zero while it may be up
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := r.Now()
		if s.works.Load() || now.Sub(time.Unix(0, s.heard.Load())) < probeEvery {
			since = time.Time{}
			continue
		}
		err := probe(ctx)
		switch {
		case err == nil:
			since = time.Time{}
		case since.IsZero():
			since = now
		case errors.Is(err, errIdle) && now.Sub(since) >= idleTime:
			s.cancel(&silentError{fmt.Sprintf("%s, and %s waits in silence", err, r.CLI)})
			return
		case !errors.Is(err, errIdle) && now.Sub(since) >= downTime:
			s.cancel(&silentError{fmt.Sprintf("%s, and %s retries in silence", err, r.CLI)})
			return
		}
	}
}

// event records an event of the CLI.
func (s *silence) event(said *report) {
	s.heard.Store(said.now.UnixNano())
	s.works.Store(said.Ended || len(said.repeats.open) > 0)
	switch {
	case said.Ended && said.background > 0 && !s.handed():
		s.timer.Reset(lastTask)
	case said.Ended:
		s.timer.Reset(lastWord)
	case s.local || s.works.Load():
		s.timer.Stop()
	case said.Answered:
		s.timer.Reset(nextAnswer)
	}
}

// backend returns the address of the run's backend; empty if the CLI chooses it itself.
func (c *call) backend() string {
	return cmp.Or(c.BaseURL, agents.Getenv(c.environ, "ANTHROPIC_BASE_URL"), agents.Getenv(c.environ, "OPENAI_BASE_URL"))
}

// probe returns a function that sends the backend a small request, and reports that it is down if it refuses the
// connection, resets it, or answers with a server's error, and errIdle if no slot of a local server computes. A backend
// that answers late may be busy. nil if the address is unknown.
func (c *call) probe() func(context.Context) error {
	address := (&call{BaseURL: c.backend()}).v1()
	if address == "" {
		return nil
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, propsTime)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/models", nil)
		if err != nil {
			return nil
		}
		answer, err := http.DefaultTransport.RoundTrip(req)
		for _, known := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, io.EOF, io.ErrUnexpectedEOF} {
			if errors.Is(err, known) {
				return fmt.Errorf("the backend does not answer: %w", err)
			}
		}
		if err != nil { // late, or a certificate that only the CLI knows
			return nil
		}
		_ = answer.Body.Close()
		if answer.StatusCode >= http.StatusInternalServerError {
			return fmt.Errorf("the backend answers %s", answer.Status)
		}
		if !c.Local {
			return nil
		}
		slots, err := llama.New(c.host()).Slots(ctx)
		if err != nil || slices.ContainsFunc(slots, func(s agents.ServerSlot) bool { return s.Busy }) {
			return nil
		}
		return errIdle
	}
}
