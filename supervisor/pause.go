package supervisor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// pausing pauses and resumes everything, a thread, an agent or a repository.
type pausing struct {
	*core
	stop   func()      // ends the supervisor as a person would; nil if nothing can
	paused bool        // start nothing until a person resumes the factory
	ask    bool        // do the same if there is no journal and the first scan finds work
	again  bool        // an earlier supervisor of the same init has done so
	asking atomic.Bool // the first scan decides whether a person must resume the factory
}

// pause starts no sessions any more, or none on a thread, of an agent or in a repository, until resume, even across
// restarts. Running sessions and merges continue. The command may be repeated.
func (ps *pausing) pause(_ context.Context, r control.PauseRequest, report *control.Report) error {
	named, paused := ps.pauses(r.Name)
	if len(named) == 0 {
		return ps.unknownName("pause", r.Name)
	}
	todo := slices.DeleteFunc(named, func(p threads.Pause) bool { return slices.Contains(paused, p) })
	return ps.setPauses(report, &r, todo, false)
}

// resume ends the pauses of a name, or all pauses without one. The command may be repeated.
func (ps *pausing) resume(_ context.Context, r control.PauseRequest, report *control.Report) error {
	if r.Name == "" && ps.state.hasTwin() {
		return control.Conflict("cannot resume: a second supervisor works with a copy of the state directory: end one of " +
			"the two, then disinto adopt-state lets the other go on")
	}
	named, paused := ps.pauses(r.Name)
	todo := slices.Clone(paused)
	if r.Name != "" {
		todo = slices.DeleteFunc(todo, func(p threads.Pause) bool {
			return p.Name() != r.Name && !slices.Contains(named, p)
		})
	}
	if len(named)+len(todo) == 0 {
		return ps.unknownName("resume", r.Name)
	}
	if err := ps.setPauses(report, &r, todo, true); err != nil {
		return err
	}
	if r.Name != "" && slices.Contains(paused, threads.Pause{}) {
		report.Note = "everything is still paused: use disinto resume"
	}
	return nil
}

// unknownName refuses a command about an unknown thread, agent or repository.
func (ps *pausing) unknownName(verb, name string) error {
	c := ps.state.config()
	return control.NotFound("cannot %s %s: no thread, agent or repository has that name%s", verb, name,
		cmp.Or(c.SuggestName(name), threads.Suggest(name, c.Forge.Repos)))
}

// pauses returns the pauses that a name may mean, and those in force. A thread and an agent may share a name.
func (ps *pausing) pauses(name string) (named, inForce []threads.Pause) {
	config := ps.state.config()
	if name == "" || config.Thread(name) != nil {
		named = append(named, threads.Pause{Thread: name})
	}
	if name != "" && config.Agent(name) != nil {
		named = append(named, threads.Pause{Agent: name})
	}
	if repo, err := config.Repo(name); err == nil {
		named = append(named, threads.Pause{Repo: repo})
	}
	return named, ps.state.paused()
}

// setPauses journals pauses, or their end, and reports them. It refuses a pause that cannot be journalled: a restart
// would drop the pause just when it matters most.
func (ps *pausing) setPauses(
	report *control.Report, r *control.PauseRequest, list []threads.Pause, off bool,
) error {
	report.Subject = cmp.Or(r.Name, "everything")
	done, none := "paused", "paused already"
	if off {
		done, none = "resumed", "not paused"
	}
	for _, p := range list {
		said := &ledger.Pause{Pause: p, Off: off, By: r.By, Why: r.Why}
		if err := ps.state.append(ledger.Record{At: time.Now(), Pause: said}); err != nil {
			return err
		}
		ps.log.Info(pauseWords(p) + " " + done)
		if p == (threads.Pause{}) || len(list) == 1 && strings.EqualFold(p.Name(), report.Subject) {
			report.Add("%s", done)
		} else {
			report.Add("%s %s", pauseWords(p), done)
		}
	}
	if len(list) == 0 {
		report.Note = none
		return nil
	}
	if off {
		ps.problems.setFirst("")
	}
	ps.kicks.all(time.Time{})
	ps.touchStatus()
	return nil
}

func pauseWords(p threads.Pause) string {
	switch {
	case p.Thread != "":
		return "thread " + p.Thread
	case p.Agent != "":
		return "agent " + p.Agent
	case p.Repo != "":
		return p.Repo
	case p.Drain:
		return "new work"
	}
	return "everything"
}
