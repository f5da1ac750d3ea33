package worlds

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// pin assigns some issues to agents with ladders, and parks the threads of some of these.
func (w *world) pin() {
	for i := range w.cfg.Agents {
		a := &w.cfg.Agents[i]
		if len(a.Escalate) == 0 || !w.chance(0.5) {
			continue
		}
		is := oneOf(w, oneOf(w, w.forge.repos...).issues...)
		if len(is.Assignees) == 0 {
			is.Assignees = []string{a.Login}
		}
		if w.chance(0.5) {
			t := ledger.Entry(w.shell.books.Threads, a.Thread)
			t.ParkedUntil, t.ParkedWhy = epoch.Add(w.between(time.Minute, 50*time.Minute)), "usage limit"
		}
	}
}

// ladders gives ladders of writing agents to some agents, and sometimes to a role.
func (w *world) ladders(cfg *threads.Config) {
	var writers []string
	for i := range cfg.Agents {
		a := &cfg.Agents[i]
		if slices.ContainsFunc(a.Roles, func(name string) bool { return name == "dev" || name == "write" }) {
			writers = append(writers, a.Name)
		}
	}
	if len(writers) < 2 {
		return
	}
	some := func(but string) (rungs []string) {
		for _, i := range w.rng.Perm(len(writers))[:w.number(1, 2)] {
			if writers[i] != but {
				rungs = append(rungs, writers[i])
			}
		}
		return rungs
	}
	for i := range cfg.Agents {
		if a := &cfg.Agents[i]; slices.Contains(writers, a.Name) && w.chance(0.4) {
			a.Escalate, a.EscalateAfter = some(a.Name), w.number(1, 2)
		}
	}
	if w.chance(0.2) {
		rungs, after := some(""), w.number(1, 2)
		for _, list := range [][]agents.Role{cfg.Roles, w.roles} {
			for i := range list {
				if list[i].Name == "dev" {
					list[i].Escalate, list[i].EscalateAfter = rungs, after
				}
			}
		}
	}
}
