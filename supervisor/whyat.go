package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// logAnswers logs when answers cannot be kept, and when they can again. Nothing waits for them.
func (s *Supervisor) logAnswers(err error) {
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
		return threads.Explanation{}, control.Invalid("cannot explain the future: %s has not passed yet", when)
	}
	ex, err := answers.Why(h.stateDir, said, at, true)
	if err != nil {
		return ex, control.NotFound("%s", err)
	}
	h.nameSubject(&ex, at)
	return ex, nil
}

// nameSubject adds what the file of answers leaves out, because it has no texts: the present title of the subject, and
// that a closed item had been merged by then. Where neither the last scan nor the forge knows them, it adds nothing.
func (h *history) nameSubject(ex *threads.Explanation, at time.Time) {
	if ex.Name != "" {
		h.view(func(snap threads.Snapshot) {
			if now, err := threads.ExplainName(snap, ex.Name); err == nil {
				ex.Kind, ex.Title = now.Kind, now.Title // older files lack the kind
			}
		})
		return
	}
	item := forge.Ref{Repo: ex.Repo, Number: ex.Number}
	if now, err := h.explain(item); err == nil && ex.Code != threads.Closed {
		ex.Title = now.Title
		return
	}
	d, err := h.life("explain", item)
	if err != nil {
		return
	}
	ex.Title = d.Title
	if ex.Code == threads.Closed && d.State == control.StateMerged && !d.EndedAt.After(at) {
		ex.Verdict = d.Verdict
	}
}
