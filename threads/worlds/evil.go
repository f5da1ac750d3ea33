package worlds

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// trick is what an evil agent does on the forge to have its next work counted from zero.
type trick struct {
	name string
	do   func(w *world, p *pull, login string)
}

// tricks are played instead of a rework of a pull request.
var tricks = []trick{
	{"another for the same issue", func(w *world, p *pull, login string) { w.openMore(p, login, p.home) }},
	{"another that closes the pull request", func(w *world, p *pull, login string) { w.openMore(p, login, p.Ref) }},
	{"another for nothing", func(w *world, p *pull, login string) { w.openMore(p, login) }},
	{"another for nothing, labelled review", func(w *world, p *pull, login string) {
		w.forge.labelPull(w.openMore(p, login), forge.LabelReview, "")
	}},
	{"closed and opened anew", func(w *world, p *pull, login string) {
		w.forge.end(p, login)
		w.openMore(p, login, p.home)
	}},
	{"closed", func(w *world, p *pull, login string) { w.forge.end(p, login) }},
	{"forty at once", func(w *world, p *pull, login string) {
		for range 20 {
			w.openMore(p, login, p.home)
			w.openMore(p, login)
		}
	}},
	{"the issue closed and opened again", func(w *world, p *pull, login string) {
		w.forge.end(p, login)
		if is := w.forge.issue(p.home); is != nil && w.forge.close(is) == nil {
			w.After(w.between(time.Minute, time.Hour), func() { w.forge.reopen(is) })
		}
	}},
	{"a new issue in the backlog", func(w *world, p *pull, login string) {
		w.forge.file(w.forge.repo(p.Repo), forge.LabelBacklog).Author = login
	}},
	{"nothing", func(*world, *pull, string) {}},
}

// trickery plays a trick.
func (w *world) trickery(p *pull, login string) {
	t := oneOf(w, tricks...)
	if w.only != "" {
		for _, t = range tricks {
			if t.name == w.only {
				break
			}
		}
	}
	w.log("evil   %s on %s: %s", login, p.Ref, t.name)
	t.do(w, p, login)
}

// unmark removes, again and again, the labels that ask for a person, as any account with write access can.
func (w *world) unmark(r *repo) {
	for _, l := range []string{forge.LabelNeedsHuman, forge.LabelBlocked} {
		for _, is := range w.forge.openIssues(r) {
			if is.Has(l) {
				w.forge.label(is, "", l)
			}
		}
		for _, p := range w.forge.openPulls(r) {
			if p.Has(l) {
				w.forge.labelPull(p, "", l)
			}
		}
	}
	w.After(w.between(time.Minute, 10*time.Minute), func() { w.unmark(r) })
}

// openMore opens a pull request on a branch of its own.
func (w *world) openMore(p *pull, login string, closes ...forge.Ref) *pull {
	return w.forge.open(w.forge.repo(p.Repo), login, false, closes...)
}

// night is a world of evil agents without people. It is long, and its sessions are short.
var night = size{
	repos: 1, plants: 1, threads: 1, agents: []int{2}, act: time.Hour, crash: span{time.Hour, 5 * time.Hour},
	calm: span{26 * time.Hour, 30 * time.Hour}, poll: span{3 * time.Minute, 10 * time.Minute},
}

// PlayEvil plays a world in which agents play one of the tricks in each rework, reviewers request changes of all work,
// and no person acts.
func PlayEvil(seed uint64, trick string, say func(string)) (Stats, error) {
	w := newWorld(seed, say)
	w.size, w.only = night, trick
	w.mood = mood{changes: 1, crafty: 1}
	w.populateEvil()
	w.shell.boot(true)
	w.unmark(w.forge.repos[0])
	w.After(w.within(w.size.crash), w.crash)
	for end := w.Now.Add(w.within(w.size.calm)); w.failure == nil && w.Now.Before(end); {
		w.step()
	}
	w.seen.Virtual = w.Now.Sub(epoch)
	return w.seen, w.failure
}

// populateEvil makes a factory of two developers and a reviewer, with one issue of a person.
func (w *world) populateEvil() {
	run := []string{"run"}
	w.roles = []agents.Role{
		{Name: "dev", On: agents.OnIssue, Command: run}, {Name: "review", On: agents.OnReview, Command: run},
	}
	w.cfg = &threads.Config{Name: "factory.toml", Roles: slices.Clone(w.roles), Forge: threads.Forge{
		Repos: []string{"o/a"}, Bots: []string{"bot-east"}, MergeAuto: true, MaxUnreviewed: 3, MaxReviewsHour: 3,
		MaxSessionsDay: w.number(5, 20), MaxReviewRounds: w.number(1, 5), MaxCIFixes: w.number(1, 3),
	}}
	w.cfg.Threads = []threads.Thread{{
		Name: "anthropic", Backend: threads.API, Slots: 3, Overlap: true, BreakerInterval: 5 * time.Minute,
	}}
	for _, name := range []string{"dev-1", "dev-2", "review-3"} {
		role, _, _ := strings.Cut(name, "-")
		w.cfg.Agents = append(w.cfg.Agents, agents.Agent{
			Name: name, Login: name, Roles: []string{role}, Token: "t", Thread: "anthropic",
		})
	}
	w.wire(w.cfg)
	w.forge.repos = []*repo{{name: "o/a"}}
	w.forge.file(w.forge.repos[0], forge.LabelBacklog)
	w.forge.settle()
	w.describe()
}
