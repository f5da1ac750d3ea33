package threads

import (
	"maps"

	"codeberg.org/johba/disinto/agents"
)

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

// withDrain returns the snapshot of a factory that drains as a steal sees it: its agents start nothing, and what is
// pinned to them waits for nothing else, so that agents of other hosts can take it.
func (s Snapshot) withDrain() Snapshot {
	by, drains := s.History.Paused[Pause{Drain: true}]
	if !drains {
		return s
	}
	s.History.Paused, s.History.Agents = maps.Clone(s.History.Paused), maps.Clone(s.History.Agents)
	delete(s.History.Paused, Pause{Drain: true})
	if s.History.Agents == nil {
		s.History.Agents = make(map[string]*AgentHistory)
	}
	for i := range s.Config.Agents {
		name := s.Config.Agents[i].Name
		known := *s.History.Agent(name)
		known.HoldAs(Draining, s.Now.Add(StealEvery), by.Words())
		s.History.Agents[name] = &known
	}
	return s
}

// IsNew reports whether an item is new work, which a drain does not start: an issue on which no session has written, or
// scheduled work.
func (h *History) IsNew(it *Item) bool {
	return it.Kind == agents.KindSchedule || it.Kind == agents.KindIssue && len(h.Chain(it.Chain).Writers) == 0
}

// Unfinished reports whether a drain waits for a waiting item: it is begun, and needs neither a person nor new work to
// go on. A branch that is red may need a new issue.
func (h *History) Unfinished(w *Hold) bool { return !h.IsNew(&w.Item) && w.GoesOn() }

// GoesOn reports whether a waiting item needs neither a person nor other work to go on.
func (w *Hold) GoesOn() bool {
	switch w.Reason.Code {
	case HasPull, MainRed, BlockerOpen, NotLast: // the pull request, or the blocker, counts itself
		return false
	}
	ends := w.Reason.Code.Ends()
	return !w.Reason.NeedsPerson() && (ends == ByItself || ends == ByScan)
}
