package threads

import "codeberg.org/johba/disinto/agents"

// draining holds new work while the factory drains. What is begun goes on, to the merge.
func draining(v *view, w *work) *Reason {
	if len(v.History.Paused) == 0 {
		return nil
	}
	by, drains := v.History.Paused[Pause{Drain: true}]
	if !drains || !v.History.IsNew(&w.Item) {
		return nil
	}
	return &Reason{Code: Draining, Note: by.Words()}
}

// IsNew reports whether an item is new work, which a drain does not start: an issue on which no session has written, or
// scheduled work.
func (h *History) IsNew(it *Item) bool {
	return it.Kind == agents.KindSchedule || it.Kind == agents.KindIssue && len(h.Chain(it.Chain).Writers) == 0
}

// Unfinished reports whether a drain waits for a waiting item: it is begun, and needs neither a person nor new work to
// go on. A branch that is red may need a new issue.
func (h *History) Unfinished(w *Hold) bool {
	switch w.Reason.Code {
	case HasPull, MainRed, BlockerOpen, NotLast: // the pull request counts itself
		return false
	}
	ends := w.Reason.Code.Ends()
	return !h.IsNew(&w.Item) && !w.Reason.NeedsPerson() && (ends == ByItself || ends == ByScan)
}
