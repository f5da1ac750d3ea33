package worlds

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// populate makes the configuration and the initial state of the forge.
func (w *world) populate() {
	w.cfg = w.configure()
	for _, name := range w.cfg.Forge.Repos {
		w.forge.repos = append(w.forge.repos, &repo{name: name, ci: w.chance(0.5)})
	}
	for _, r := range w.forge.repos {
		for range w.number(1, w.size.plants) {
			w.plant(r)
		}
		if w.chance(0.25) {
			w.plantConvoy(r)
		}
	}
	w.pin()
	w.forge.settle()
	w.describe()
}

// planted are the functions that give obstacles to new issues.
var planted = func() (ways []func(*world, *issue)) {
	for _, o := range issueObstacles {
		if o.plant != nil {
			ways = append(ways, o.plant)
		}
	}
	return ways
}()

// plant files an issue, for some shapes with others that it depends on or that depend on it.
func (w *world) plant(r *repo) {
	is := w.forge.file(r, w.labels()...)
	switch shape := w.rng.IntN(14); shape {
	case 0, 1: // a chain
		w.forge.depend(w.forge.file(r, forge.LabelBacklog), is.Ref)
	case 2: // a diamond
		left, right := w.forge.file(r, forge.LabelBacklog), w.forge.file(r, forge.LabelBacklog)
		top := w.forge.file(r, w.labels()...)
		w.forge.depend(left, is.Ref)
		w.forge.depend(right, is.Ref)
		w.forge.depend(top, left.Ref)
		w.forge.depend(top, right.Ref)
	case 3: // a circle
		second, third := w.forge.file(r, forge.LabelBacklog), w.forge.file(r, forge.LabelBacklog)
		w.forge.depend(is, second.Ref)
		w.forge.depend(second, third.Ref)
		w.forge.depend(third, is.Ref)
	case 4:
		w.forge.depend(is, is.Ref)
	case 5:
		w.forge.depend(is, forge.Ref{Repo: r.name, Number: 9999})
	case 6: // in another repository
		w.forge.depend(is, w.forge.file(oneOf(w, w.forge.repos...), forge.LabelBacklog).Ref)
	default: // alone
		if i := shape - 7; i < len(planted) {
			planted[i](w, is)
		}
	}
}

// plantConvoy files a tracking issue that depends on its members.
func (w *world) plantConvoy(r *repo) {
	labels := []string{forge.LabelBacklog, forge.LabelConvoy}
	if w.chance(0.6) {
		labels = append(labels, forge.LabelStaged)
	}
	convoy := w.forge.file(r, labels...)
	for range w.number(1, 3) {
		w.forge.depend(convoy, w.forge.file(r, forge.LabelBacklog).Ref)
	}
}

// labels returns the labels of a new issue.
func (w *world) labels() []string {
	labels := []string{forge.LabelBacklog}
	if w.chance(0.05) {
		labels = nil
	}
	if w.chance(0.3) {
		labels = append(labels, oneOf(w, "priority", "priority/1", "priority/4", "priority/9"))
	}
	if w.chance(0.25) {
		labels = append(labels, oneOf(w, "skill/go", "skill/user interface"))
	}
	if w.chance(0.2) {
		labels = append(labels, "needs docs")
	}
	if w.chance(0.05) {
		labels = append(labels, oneOf(w, forge.LabelBlocked, "vision", "prediction/x"))
	}
	return labels
}

func (w *world) anyLogin() string { return oneOf(w, w.cfg.Agents...).Login }

// configure makes a configuration. Most of its parts are sound; a few have mistakes that people make.
func (w *world) configure() *threads.Config {
	w.roles = w.allRoles()
	cfg := &threads.Config{Name: "factory.toml", Roles: slices.Clone(w.roles)}
	cfg.Forge = threads.Forge{
		Repos: []string{"o/a", "o/b"}[:w.number(1, w.size.repos)], Bots: []string{"bot-east", "bot-west"},
		MergeAuto: w.chance(0.9), RequireMerged: w.chance(0.15), AnswersAuthor: w.chance(0.4), MaxUnreviewed: w.number(1, 4),
		MaxReviewsHour:  w.number(1, 3),
		MaxSessionsDay:  w.number(2, 40),
		MaxReviewRounds: w.number(1, 5), MaxCIFixes: w.number(1, 3),
	}
	if w.chance(0.3) {
		cfg.Forge.Bases = []string{"release"}
	}
	for _, name := range []string{"anthropic", "llama", "vllm"}[:w.number(1, w.size.threads)] {
		cfg.Threads = append(cfg.Threads, w.thread(name))
	}
	w.serve(cfg)
	for range oneOf(w, w.size.agents...) {
		cfg.Agents = append(cfg.Agents, w.agent(cfg))
	}
	w.ladders(cfg)
	w.wire(cfg)
	for i := 1; i < len(cfg.Threads); i++ {
		if w.chance(0.2) {
			cfg.Threads[i].FallbackTo = []string{cfg.Threads[i-1].Name}
		}
	}
	for _, name := range cfg.Forge.Repos {
		if w.chance(0.25) {
			cfg.Repos = append(cfg.Repos, w.table(cfg, name))
		}
	}
	cfg.Factory.MinFreeMemory, cfg.Factory.MinFreeDisk = 1000, 2000
	return cfg
}

// table makes the table of a repository.
func (w *world) table(cfg *threads.Config, name string) threads.Repo {
	r := threads.Repo{Name: name, Priority: w.number(1, 10)}
	if w.chance(0.4) {
		r.MaxSessions = w.number(1, 2)
	}
	if w.chance(0.3) {
		r.Budget.Tokens = int64(w.number(500, 8000))
	}
	for i := range cfg.Agents {
		a := &cfg.Agents[i]
		if w.chance(0.7) {
			r.Agents = append(r.Agents, a.Name)
		}
		if w.chance(0.7) {
			r.Reviewers = append(r.Reviewers, a.Name)
		}
	}
	if w.chance(0.6) {
		r.Agents = nil
	}
	if w.chance(0.6) {
		r.Reviewers = nil
	}
	return r
}

func (w *world) thread(name string) threads.Thread {
	t := threads.Thread{Name: name, Backend: threads.Local, Slots: w.number(1, 3), BreakerInterval: 5 * time.Minute}
	if name == "anthropic" {
		t.Backend = threads.API
	}
	if w.chance(0.2) {
		t.Budget.Tokens = int64(w.number(500, 8000))
	}
	t.Executor = w.executor(name)
	t.Fallback, t.Cache = w.chance(0.8), w.sharesCache()
	if w.chance(0.3) {
		w.subscribe(&t)
	}
	if t.Overlap = (t.Backend == threads.API) != w.chance(0.15); !t.Overlap && w.chance(0.7) {
		t.Hold = w.between(10*time.Minute, 2*time.Hour)
	}
	return t
}

// allRoles returns the roles that agents can have. A configuration has those with an agent.
func (w *world) allRoles() []agents.Role {
	run := []string{"run"}
	roles := []agents.Role{
		{Name: "dev", On: agents.OnIssue, Command: run, WaitsForReview: w.chance(0.2)},
		{Name: "review", On: agents.OnReview, Command: run},
		{
			Name: "tidy", On: agents.OnSchedule, Command: run, Every: w.between(time.Hour, 6*time.Hour),
			Priority: w.number(1, 10),
		},
		{Name: "write", On: agents.OnIssue, Command: run, Label: "needs docs"},
	}
	if w.mood.curious > 0 {
		roles[0].Plan, roles[3].Plan = w.chance(0.2), w.chance(0.4)
	}
	if w.chance(0.05) {
		roles[w.rng.IntN(len(roles))].Command = nil
	}
	for i := range roles {
		r := &roles[i]
		if w.chance(0.15) {
			r.PerSession.Tokens = int64(w.number(300, 900))
		}
		if r.On != agents.OnSchedule && w.chance(0.15) {
			r.PerIssue.Tokens = int64(w.number(600, 3000))
		}
	}
	return roles
}

// agent makes the next agent. The first two are mostly a dev and a reviewer, so that most worlds merge something.
func (w *world) agent(cfg *threads.Config) agents.Agent {
	role := oneOf(w, "dev", "dev", "dev", "review", "review", "tidy", "write")
	if w.hired < 2 && w.chance(0.95) {
		role = []string{"dev", "review"}[w.hired]
	}
	w.hired++
	a := agents.Agent{
		Name: fmt.Sprintf("%s-%d", role, w.hired), Roles: []string{role}, Token: "t", Thread: oneOf(w, cfg.Threads...).Name,
	}
	if w.chance(0.1) {
		a.Budget.Tokens = int64(w.number(200, 3000))
	}
	a.Login = a.Name
	if w.chance(0.2) {
		a.Login = "x" + a.Name
	}
	if second := oneOf(w, "dev", "review", "tidy"); second != role && w.chance(0.35) {
		a.Roles = append(a.Roles, second)
	}
	if w.chance(0.6) {
		a.Skills = []string{"go", "user interface"}[:w.number(1, 2)]
	}
	if w.chance(0.03) {
		a.Token = ""
	}
	w.connect(cfg, &a)
	return a
}

// wire fills in the references between the parts of a configuration, as decoding does.
func (w *world) wire(cfg *threads.Config) {
	slices.SortFunc(cfg.Agents, func(a, b agents.Agent) int { return cmp.Compare(a.Name, b.Name) })
	for i := range cfg.Threads {
		t := &cfg.Threads[i]
		t.Agents = nil
		for _, a := range cfg.Agents {
			w.logins[a.Name], w.accounts = a.Login, sim.With(w.accounts, a.Login)
			if a.Thread == t.Name {
				t.Agents = append(t.Agents, a.Name)
			}
		}
		t.MaxSessions = t.Slots
		if t.Overlap {
			t.MaxSessions = oneOf(w, 1, max(1, len(t.Agents)), max(1, len(t.Agents)))
		}
	}
	slices.SortFunc(cfg.Roles, func(a, b agents.Role) int { return cmp.Compare(a.Name, b.Name) })
	cfg.Roles = slices.DeleteFunc(cfg.Roles, func(r agents.Role) bool {
		return !slices.ContainsFunc(cfg.Agents, func(a agents.Agent) bool { return slices.Contains(a.Roles, r.Name) })
	})
}

// describe logs the initial state of the world.
func (w *world) describe() {
	if w.say == nil {
		return
	}
	f := w.cfg.Forge
	w.log("forge  auto=%v require_merged=%v max_unreviewed=%d rounds=%d ci=%d",
		f.MergeAuto, f.RequireMerged, f.MaxUnreviewed, f.MaxReviewRounds, f.MaxCIFixes)
	for _, t := range w.cfg.Threads {
		w.log("thread %s %s slots=%d overlap=%v max_sessions=%d", t.Name, t.Backend, t.Slots, t.Overlap, t.MaxSessions)
	}
	for _, a := range w.cfg.Agents {
		w.log("agent  %s (%s) on %s, roles %v, skills %v", a.Name, a.Login, a.Thread, a.Roles, a.Skills)
	}
	for _, r := range w.forge.repos {
		for _, is := range r.issues {
			w.log("issue  %s %v %v needs %v", is.Ref, is.Labels, is.Assignees, is.deps)
		}
	}
}
