package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// commands are the POSTs of the control API: each takes a JSON document, and answers a Report or {"error": "..."}. To add
// one, write its method and its line.
var commands = map[string]func(*Supervisor, http.ResponseWriter, *http.Request){
	"POST /v1/cancel":  post((*Supervisor).Cancel),
	"POST /v1/retry":   post((*Supervisor).Retry),
	"POST /v1/release": post((*Supervisor).Release),
	"POST /v1/pause":   post((*Supervisor).Pause),
	"POST /v1/resume":  post((*Supervisor).Resume),

	"POST /v1/fleet/rebalance": post((*Supervisor).RebalanceNow),

	"POST /v1/sling":         post((*Supervisor).Sling),
	"POST /v1/convoy":        post((*Supervisor).MakeConvoy),
	"POST /v1/convoy/start":  post((*Supervisor).StartConvoy),
	"POST /v1/convoy/cancel": post((*Supervisor).CancelConvoy),
}

// maxCommand bounds the document of a command, in bytes. The longest is a plan: 200 tasks of 5 kB.
const maxCommand = 1 << 20

// post makes a handler of a command. What it takes is read strictly: a word that this version does not know might be the
// one that mattered.
func post[T, A any](do func(*Supervisor, context.Context, T) (A, error)) func(*Supervisor, http.ResponseWriter, *http.Request) {
	return func(s *Supervisor, w http.ResponseWriter, r *http.Request) {
		var asked T
		// Over TCP anybody may begin a request and never end it. A stream of events has no such limit, so the server has none.
		in := http.NewResponseController(w)
		_ = in.SetReadDeadline(time.Now().Add(requestTime))
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommand))
		d.DisallowUnknownFields()
		if err := d.Decode(&asked); err != nil && !errors.Is(err, io.EOF) {
			refuse(w, http.StatusBadRequest, fmt.Errorf("cannot read the command: %s", strings.TrimPrefix(err.Error(), "json: ")))
			return
		}
		_ = in.SetReadDeadline(time.Time{})
		answered, err := do(s, r.Context(), asked)
		if err != nil {
			status := http.StatusServiceUnavailable
			if no := (*control.Refusal)(nil); errors.As(err, &no) {
				status = no.Status
			}
			refuse(w, status, err)
			return
		}
		answer(w, http.StatusOK, answered)
	}
}

// enterCommand lets a command begin, and keeps the supervisor from ending under it until the answer is called.
func (s *Supervisor) enterCommand() (leave func(), err error) {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.looping:
		return nil, control.Refuse(http.StatusServiceUnavailable, "not now: the supervisor is still starting")
	case s.until.Err() != nil:
		return nil, control.Refuse(http.StatusServiceUnavailable, "not now: the supervisor stops")
	case s.config == nil:
		return nil, control.Refuse(http.StatusServiceUnavailable, "not now: there is no valid configuration")
	case s.handing:
		return nil, control.Refuse(http.StatusServiceUnavailable, "not now: an upgrade is under way")
	}
	s.running.Add(1)
	s.entered++
	return s.leaveCommand, nil
}

func (s *Supervisor) leaveCommand() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entered--
	s.running.Done()
}
