package threads

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// repoState is a repository while the plan is made.
type repoState struct {
	name     string
	sessions int
	// turns are the places of the repository among all, by the place of a kind in kindOrder: the repository that has
	// waited longest for a start of that kind comes first.
	turns []int
}

// indexRepos finds the sessions and the turns of the repositories.
func (v *view) indexRepos() {
	v.homes = make([]repoState, len(v.Facts.Repos))
	turns := make([]int, len(v.homes)*len(kindOrder))
	for i := range v.homes {
		v.homes[i] = repoState{v.Facts.Repos[i].Name, 0, turns[i*len(kindOrder):][:len(kindOrder)]}
	}
	for i := range v.Sessions {
		if h := v.home(v.Sessions[i].Item.Ref.Repo); h != nil {
			h.sessions++
		}
	}
	if len(v.homes) < 2 {
		return
	}
	for place, kind := range kindOrder {
		last := func(h *repoState) time.Time { return v.History.Repo(h.name).Turns[kind] }
		order := make([]*repoState, len(v.homes))
		for i := range v.homes {
			order[i] = &v.homes[i]
		}
		slices.SortFunc(order, func(a, b *repoState) int { return last(a).Compare(last(b)) })
		for i, h := range order {
			if h.turns[place] = i; i > 0 && last(h).Equal(last(order[i-1])) {
				h.turns[place] = order[i-1].turns[place] // age decides between them
			}
		}
	}
	v.turned = len(v.homes)
}

// home returns the state of a repository; nil if it was never read.
func (v *view) home(name string) *repoState {
	if i, known := v.repoAt(name); known {
		return &v.homes[i]
	}
	return nil
}

// repoAt finds a repository among those of the facts.
func (v *view) repoAt(name string) (i int, known bool) {
	i, known = slices.BinarySearchFunc(v.homes, name, func(h repoState, n string) int { return cmp.Compare(h.name, n) })
	return i, known
}

// enter counts a start in its repository, which now has the last turn of its kind.
func (v *view) enter(w *work) {
	if w.home == nil {
		return
	}
	v.turned++
	w.home.sessions++
	w.home.turns[w.nearness] = v.turned
}

// turn is the place of the item's repository among those with work of its kind.
func (w *work) turn() int {
	if w.home == nil {
		return 0
	}
	return w.home.turns[w.nearness]
}

// outOfTurn reports whether the item waits beside another one of its kind only because its repository has a later turn.
func (w *work) outOfTurn(other *work) bool {
	return w.nearness == other.nearness && w.turn() > other.turn()
}

// inTurns orders a sorted queue as the repositories take their turns: of each priority and kind, first one item of
// each repository, then the next one of each. It is what users see; a plan takes the turns themselves.
func (d *decision) inTurns() {
	if len(d.homes) < 2 {
		return
	}
	rounds := make(map[*work]int, len(d.queue))
	for i, begin := 0, 0; i < len(d.queue); begin = i {
		first, seen := d.queue[begin], make(map[string]int)
		for ; i < len(d.queue) && d.queue[i].urgency == first.urgency && d.queue[i].nearness == first.nearness; i++ {
			w := d.queue[i]
			if rounds[w] = seen[w.Ref.Repo]; w.Reason == nil {
				seen[w.Ref.Repo]++
			}
		}
		slices.SortStableFunc(d.queue[begin:i], func(a, b *work) int { return rounds[a] - rounds[b] })
	}
}

// inTurn says how many repositories with work of the item's priority and kind have their turn before it; empty if none
// has, or if it does not wait for an agent or a slot.
func (d *decision) inTurn(w *work) string {
	if w.class == nil || w.taken {
		return ""
	}
	first := make(map[string]bool)
	for _, c := range d.classes {
		for _, o := range c.items {
			if o.Priority == w.Priority && o.Kind == w.Kind && !o.taken && o.Ref.Repo != w.Ref.Repo && w.outOfTurn(o) {
				first[o.Ref.Repo] = true
				break
			}
		}
	}
	switch len(first) {
	case 0:
		return ""
	case 1:
		return "; 1 repository has its turn first"
	}
	return fmt.Sprintf("; %d repositories have their turns first", len(first))
}

// repoFree holds the items of a repository that a person has paused, or that has reached a limit of its own. Merges go
// on.
func repoFree(v *view, w *work) *Reason {
	if w.Kind == stageMerge {
		return nil
	}
	repo := w.Ref.Repo
	if by, paused := v.History.Paused[Pause{Repo: repo}]; paused {
		return &Reason{Code: Paused, Repo: repo, Note: by.Words()}
	}
	if t := v.Config.RepoTable(repo); t != nil {
		return cmp.Or(v.overBudget(Spender{Repo: repo}, t.Budget), repoFull(v, w))
	}
	return nil
}

// repoFull holds the items of a repository with as many sessions as it may have.
func repoFull(v *view, w *work) *Reason {
	t := v.Config.RepoTable(w.Ref.Repo)
	if t == nil || t.MaxSessions == 0 || w.home == nil || w.home.sessions < t.MaxSessions {
		return nil
	}
	return &Reason{Code: RepoFull, Repo: t.Name, Count: w.home.sessions, Limit: t.MaxSessions}
}

// worksThere keeps agents out of repositories that name others.
func worksThere(v *view, t *traits, c candidate) *Reason {
	if v.Config.WorksIn(t.repo, c.agent.Name, t.kind) {
		return nil
	}
	return &Reason{Code: NotInRepo, Agent: c.agent.Name, Repo: t.repo}
}

// hasAccess holds an agent in a repository where its account lacks a right, and nowhere else.
func hasAccess(v *view, t *traits, c candidate) *Reason {
	b := v.History.Repo(t.repo).Barred[c.agent.Name]
	if !v.later(b.Until) {
		return nil
	}
	return &Reason{Code: NoAccess, Agent: c.agent.Name, Repo: t.repo, Until: b.Until, Note: b.Why}
}

// Bar keeps an agent from starting in the repository until a time.
func (r *RepoHistory) Bar(agent string, until time.Time, why string) {
	if r.Barred == nil {
		r.Barred = make(map[string]Bar)
	}
	r.Barred[agent] = Bar{until, why}
}

// Turn notes a start in the repository.
func (r *RepoHistory) Turn(kind agents.Kind, at time.Time) {
	if r.Turns == nil {
		r.Turns = make(map[agents.Kind]time.Time)
	}
	r.Turns[kind] = at
}

// ownCrew reports whether a repository names agents or reviewers.
func (c *Config) ownCrew(repo string) bool {
	r := c.RepoTable(repo)
	return r != nil && (r.Agents != nil || r.Reviewers != nil)
}

// places returns the repositories in which different agents work: one for all that name none, and each that does.
func (c *Config) places() (names []string) {
	for _, name := range c.Forge.Repos {
		if !slices.Contains(names, c.place(name)) {
			names = append(names, name)
		}
	}
	return names
}

// place returns the one of places that stands for a repository.
func (c *Config) place(repo string) string {
	if c.ownCrew(repo) {
		return repo
	}
	i := slices.IndexFunc(c.Forge.Repos, func(name string) bool { return !c.ownCrew(name) })
	if i < 0 {
		return repo
	}
	return c.Forge.Repos[i]
}

// apart names a repository with agents of its own: " in o/r"; empty for others.
func (c *Config) apart(repo string) string {
	if !c.ownCrew(repo) {
		return ""
	}
	return " in " + repo
}

// noPush holds issues before a session whose work could not be handed in. The branches of pull requests exist.
func noPush(_ *view, w *work) *Reason {
	if w.repo == nil || w.repo.NoPush == "" {
		return nil
	}
	return &Reason{Code: NoPush, Note: w.repo.NoPush}
}
