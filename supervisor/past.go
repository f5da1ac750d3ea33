package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// unanswered logs when answers cannot be kept, and when they can again. Nothing waits for them.
func (s *Supervisor) unanswered(err error) {
	if err != nil {
		s.log.Warn(text(err) + ": disinto why --at lacks the answers of this time")
		return
	}
	s.log.Info("answers are kept again")
}

// whyAt returns the answer of a time (RFC 3339).
func (h *history) whyAt(said, when string) (threads.Explanation, error) {
	at, err := time.Parse(time.RFC3339, when)
	switch {
	case err != nil:
		return threads.Explanation{}, control.Invalid("cannot read %q as a time: write it as 2026-01-31T12:00:00Z", when)
	case at.After(time.Now()):
		return threads.Explanation{}, control.Invalid("cannot explain a future decision: %s has not passed yet", when)
	}
	ex, err := answers.Why(h.stateDir, said, at, true)
	if err != nil {
		return ex, control.NotFound("%s", err)
	}
	return ex, nil
}
