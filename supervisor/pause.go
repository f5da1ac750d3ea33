package supervisor

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// pause keeps everything, a thread or an agent from starting sessions. What runs goes on, and so do merges. It holds
// until resume, also over restarts.
func (s *Supervisor) pause(_ context.Context, r control.PauseRequest, report *control.Report) error {
	s.mu.Lock()
	named := s.pausesLocked(r.Name)
	todo := slices.DeleteFunc(slices.Clone(named), func(p threads.Pause) bool { _, is := s.history.Paused[p]; return is })
	s.mu.Unlock()
	if len(named) == 0 {
		return control.Refuse(http.StatusNotFound, "cannot pause %s: no thread or agent has that name", r.Name)
	}
	report.Subject = subject(r.Name)
	if err := s.setPauses(todo, false); err != nil {
		return err
	}
	reportPauses(report, todo, "paused")
	if len(todo) == 0 {
		report.Note = "paused already"
	}
	return nil
}

// unpause takes pauses back: with a name those of that name, without one all of them.
func (s *Supervisor) unpause(_ context.Context, r control.PauseRequest, report *control.Report) error {
	s.mu.Lock()
	var todo []threads.Pause
	for _, p := range slices.SortedFunc(maps.Keys(s.history.Paused), ledger.ComparePauses) {
		if r.Name == "" || p.Thread == r.Name || p.Agent == r.Name {
			todo = append(todo, p)
		}
	}
	known := len(todo) > 0 || len(s.pausesLocked(r.Name)) > 0
	s.mu.Unlock()
	if !known {
		return control.Refuse(http.StatusNotFound, "cannot resume %s: no thread or agent has that name", r.Name)
	}
	report.Subject = subject(r.Name)
	if err := s.setPauses(todo, true); err != nil {
		return err
	}
	reportPauses(report, todo, "resumed")
	if len(todo) == 0 {
		report.Note = "not paused"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, all := s.history.Paused[threads.Pause{}]; all {
		report.Note = "everything is still paused: say disinto resume"
	}
	return nil
}

// setPauses journals pauses, or their end, and has every thread look what that means. Without a journal record there is
// no pause: it would be gone after a restart, which is when it matters most.
func (s *Supervisor) setPauses(list []threads.Pause, off bool) error {
	for _, p := range list {
		if err := s.append(ledger.Record{At: time.Now(), Pause: &ledger.Pause{Thread: p.Thread, Agent: p.Agent, Off: off}}); err != nil {
			return err
		}
		words := " paused"
		if off {
			words = " resumed"
		}
		s.log.Info(pauseWords(p) + words)
	}
	if len(list) > 0 {
		s.kickAll(time.Time{})
		s.touchStatus()
	}
	return nil
}

// pausesLocked is what a name stands for: everything, a thread, an agent, or a thread and an agent of the same name.
func (s *Supervisor) pausesLocked(name string) (list []threads.Pause) {
	switch {
	case name == "":
		return []threads.Pause{{}}
	case s.config.Thread(name) != nil:
		list = append(list, threads.Pause{Thread: name})
	}
	if s.config.Agent(name) != nil {
		list = append(list, threads.Pause{Agent: name})
	}
	return list
}

// pausedLocked reports whether a thread starts nothing because somebody said so.
func (s *Supervisor) pausedLocked(thread string) bool {
	_, own := s.history.Paused[threads.Pause{Thread: thread}]
	_, all := s.history.Paused[threads.Pause{}]
	return own || all
}

// reportPauses says what was done to each, and which where that is not the subject.
func reportPauses(r *control.Report, list []threads.Pause, done string) {
	for _, p := range list {
		if p == (threads.Pause{}) || len(list) == 1 && cmp.Or(p.Thread, p.Agent) == r.Subject {
			r.Add("%s", done)
		} else {
			r.Add("%s %s", pauseWords(p), done)
		}
	}
}

func subject(name string) string { return cmp.Or(name, "everything") }

func pauseWords(p threads.Pause) string {
	switch {
	case p.Thread != "":
		return "thread " + p.Thread
	case p.Agent != "":
		return "agent " + p.Agent
	}
	return "everything"
}
