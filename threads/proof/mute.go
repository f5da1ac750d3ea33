package proof

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// mute is a rule of the configuration. It has no effect if all its worlds have the same plans without it.
type mute struct {
	key     string
	means   string // why a rule like this can be without effect
	without func(c *threads.Config)
	worlds  iter.Seq[*world] // made one at a time: most rules have an effect in the first
}

// rules proves that each rule of the configuration can have an effect.
func (p *prover) rules() string {
	all := slices.Concat(p.threadRules(), p.agentRules(), p.routeRules())
	for _, m := range all {
		if story := p.speaks(&m); story != nil {
			p.tell("rules", Hint, m.key+" can never have an effect: "+m.means, story)
		}
	}
	if p.ladders()+len(all) == 0 {
		return ""
	}
	return "every rule can have an effect"
}

// speaks compares the plans of each world with and without a rule. If all are equal, it returns what was tried, else
// nil.
func (p *prover) speaks(m *mute) []string {
	var tried []string
	for w := range m.worlds {
		with := w.outline()
		other := *w.config
		other.Threads, other.Agents = slices.Clone(other.Threads), slices.Clone(other.Agents)
		m.without(&other)
		w.config = &other
		if w.outline() != with {
			return nil
		}
		tried = append(tried, w.story()...)
	}
	tried = append(few(tried), "the plans with and without the rule are the same")
	return tried
}

// outline lists the starts and marks of a plan. A different reason for a hold is not an effect.
func (w *world) outline() string {
	plan := w.plan()
	var b strings.Builder
	for _, s := range plan.Starts {
		fmt.Fprintln(&b, "start", s.Item.Key(), s.Agent, s.Slot)
	}
	for _, m := range plan.Marks {
		fmt.Fprintln(&b, "mark", m.Ref, m.Action, m.Agent)
	}
	return b.String()
}

// threadRules returns the rules of threads: windows, reserve, hold and affinity_wait.
func (p *prover) threadRules() (all []mute) {
	for i := range p.config.Threads {
		t := &p.config.Threads[i]
		key := "threads." + t.Name
		for n, win := range t.Windows {
			all = append(all, mute{
				key + ".windows", "use within " + win.Name() + " never reaches it, or reaching it stops no start",
				func(c *threads.Config) {
					th := c.Thread(t.Name)
					th.Windows = slices.Delete(slices.Clone(th.Windows), n, n+1)
				}, p.using(t, n, 1, "use within "+win.Name()+" is as high as it can get"),
			})
		}
		if t.Reserve > 0 && len(t.Windows) > 0 {
			all = append(all, mute{
				key + ".reserve", "it holds back new issues, and no agent of the thread takes any",
				func(c *threads.Config) { c.Thread(t.Name).Reserve = 0 },
				p.using(t, 0, 1-t.Reserve, "only the reserve of a window is left"),
			})
		}
		if t.Hold > 0 {
			all = append(all, mute{
				key + ".hold", "it keeps a slot for an agent whose work is under review",
				func(c *threads.Config) { c.Thread(t.Name).Hold = 0 }, p.keeping(t),
			})
		}
		if t.AffinityWait > 0 {
			all = append(all, mute{
				key + ".affinity_wait", "it keeps an issue for one agent, and no other could start it",
				func(c *threads.Config) { c.Thread(t.Name).AffinityWait = 0 }, p.following(t),
			})
		}
	}
	return all
}

// using yields worlds in which a part of a window is used, in tokens or in dollars: one for each agent of the thread.
func (p *prover) using(t *threads.Thread, n int, part float64, words string) iter.Seq[*world] {
	return func(yield func(*world) bool) {
		for _, unit := range units {
			if unit.of(t.Windows[n].Budget) == 0 {
				continue
			}
			for _, name := range t.Agents {
				w := p.alone(name)
				w.say("%s, and %s has work of each kind", words, name)
				ledger.Entry(w.books.Threads, t.Name).Uses = filling(t.Windows[:n+1], part, w.now, unit)
				w.offers(name, 1, 1)
				w.now = w.now.Add(step)
				if !yield(w) {
					return
				}
			}
		}
	}
}

// unit is a unit of a window's limit.
type unit struct {
	of  func(agents.Budget) float64
	use func(at time.Time, n float64) threads.Use
}

var units = []unit{
	{
		func(b agents.Budget) float64 { return b.USD },
		func(at time.Time, n float64) threads.Use { return threads.Use{At: at, USD: n} },
	},
	{
		func(b agents.Budget) float64 { return float64(b.Tokens) },
		func(at time.Time, n float64) threads.Use { return threads.Use{At: at, Tokens: int64(math.Ceil(n))} },
	},
}

// filling spreads usage over the longest of some windows so that no shorter one is ever used up. It reaches the given
// part of the longest window, or less if the shorter ones allow no more.
func filling(windows []threads.Window, part float64, now time.Time, u unit) (uses []threads.Use) {
	const nearly = 0.99
	long := windows[len(windows)-1]
	left, slot := part*u.of(long.Budget)*(1+1e-9), time.Hour // a little more, as sums are rounded
	for at := now.Add(slot - long.Length); at.Before(now) && left > 0; at = at.Add(slot) {
		amount := left
		for _, short := range windows[:len(windows)-1] {
			if limit := u.of(short.Budget); limit > 0 {
				amount = min(amount, nearly*limit-within(uses, at, short.Length+slot, u))
			}
		}
		if amount > 0 {
			uses = append(uses, u.use(at, amount))
			left -= amount
		}
	}
	return uses
}

// within adds up the usage in the given time before a moment.
func within(uses []threads.Use, at time.Time, length time.Duration, u unit) (sum float64) {
	for _, use := range uses {
		if use.At.After(at.Add(-length)) {
			sum += u.of(agents.Budget{USD: use.USD, Tokens: use.Tokens})
		}
	}
	return sum
}

// keeping yields worlds in which an agent has left a slot, its pull request is in review, and another issue waits.
func (p *prover) keeping(t *threads.Thread) iter.Seq[*world] {
	return func(yield func(*world) bool) {
		for _, name := range t.Agents {
			for _, other := range t.Agents {
				if other == name {
					continue
				}
				w := p.alone(name)
				w.config = oneSlot(p.quiet, t.Name)
				delete(w.books.Paused, threads.Pause{Agent: other})
				is := w.file(nil, "").Ref
				ledger.Entry(w.books.Chains, is).Writers = []string{name}
				ledger.Entry(w.books.Threads, t.Name).Returns = threads.Returns{N: 100, Gap: 1, Back: 1}
				w.books.Slots[threads.SlotKey{Thread: t.Name}] = threads.Warm{Agent: name, Chain: is, Left: w.now}
				w.open(p.config.Agent(name).Login, is)
				w.offers(other, 5, 10)
				w.now = w.now.Add(time.Second)
				w.say("%s has left a slot, its pull request is in review, and %s could take the slot", name, other)
				if !yield(w) {
					return
				}
			}
		}
	}
}

// following yields worlds in which an agent finished the blocker of an issue, and works on something else.
func (p *prover) following(t *threads.Thread) iter.Seq[*world] {
	return func(yield func(*world) bool) {
		for _, name := range t.Agents {
			for _, set := range p.inUse() {
				if !set.config {
					continue
				}
				w := newWorld(p.quiet)
				done := w.file(nil, "").Ref
				ledger.Entry(w.books.Chains, done).Writers = []string{name}
				w.issue(done).Closed, w.issue(done).Ended = true, w.now
				w.file(set.labels, "").Blockers = []forge.Blocker{{Ref: done, State: forge.BlockerClosed}}
				w.occupied(p.config.Agent(name))
				w.now = w.now.Add(time.Second)
				w.say("%s finished the blocker of #2, and is busy; #2 has %s", name, set.words())
				if !yield(w) {
					return
				}
			}
		}
	}
}

// agentRules returns the rules of agents: skills and budgets.
func (p *prover) agentRules() (all []mute) {
	for i := range p.config.Agents {
		a := &p.config.Agents[i]
		if p.stopped(a.Name) {
			continue
		}
		if len(a.Skills) > 0 {
			all = append(all, mute{
				"agents." + a.Name + ".skills", "only issues ask for skills, and it takes no issues",
				func(c *threads.Config) { c.Agent(a.Name).Skills = nil }, p.skilled(a),
			})
		}
		if a.Budget != (agents.Budget{}) {
			all = append(all, mute{
				"agents." + a.Name + ".budget", "the thread's budget is no higher",
				func(c *threads.Config) { c.Agent(a.Name).Budget = agents.Budget{} }, p.spending(a),
			})
		}
	}
	return all
}

// skilled yields worlds with an issue for each skill of an agent.
func (p *prover) skilled(a *agents.Agent) iter.Seq[*world] {
	return func(yield func(*world) bool) {
		for _, skill := range a.Skills {
			for _, labels := range p.plainSets() {
				w := p.alone(a.Name)
				w.file(append(slices.Clone(labels), forge.SkillPrefix+skill), "")
				w.file(append(slices.Clone(labels), forge.SkillPrefix+skill), a.Name)
				w.open("person", forge.Ref{}).Labels = compact(append(slices.Clone(labels), forge.SkillPrefix+skill)...)
				w.now = w.now.Add(step)
				w.say("%s is offered an issue and a pull request with skill/%s", a.Name, skill)
				if !yield(w) {
					return
				}
			}
		}
	}
}

// spending yields worlds in which an agent has used up its budget, in tokens or in dollars.
func (p *prover) spending(a *agents.Agent) iter.Seq[*world] {
	return func(yield func(*world) bool) {
		for _, b := range []agents.Budget{{Tokens: a.Budget.Tokens}, {USD: a.Budget.USD}} {
			if b == (agents.Budget{}) {
				continue
			}
			w := p.alone(a.Name)
			used := threads.Spent{Day: threads.Day(w.now), Tokens: b.Tokens, USD: b.USD}
			ledger.Entry(w.books.Agents, a.Name).Spent, ledger.Entry(w.books.Threads, a.Thread).Spent = used, used
			w.offers(a.Name, 1, 1)
			w.now = w.now.Add(step)
			w.say("%s has used up its budget, and is offered work of each kind", a.Name)
			if !yield(w) {
				return
			}
		}
	}
}

// routeRules returns the routes.
func (p *prover) routeRules() (all []mute) {
	for i, r := range p.config.Routes {
		m := mute{
			key: "routes." + r.Skill, means: "without it, no issue would go to another agent, or start sooner",
			without: func(c *threads.Config) { c.Routes = slices.Delete(slices.Clone(c.Routes), i, i+1) },
		}
		m.worlds = p.routing(&p.config.Routes[i])
		all = append(all, m)
	}
	return all
}

// routing yields worlds with an issue for a route: its agents are idle, or busy.
func (p *prover) routing(r *threads.Route) iter.Seq[*world] {
	return func(yield func(*world) bool) {
		for _, labels := range p.plainSets() {
			idle, busy := newWorld(p.quiet), newWorld(p.quiet)
			for _, name := range r.Agents {
				busy.occupied(p.config.Agent(name))
			}
			idle.say("an issue with skill/%s is filed while every agent is idle", r.Skill)
			busy.say("an issue with skill/%s is filed while %s works", r.Skill, join(r.Agents))
			for _, w := range []*world{idle, busy} {
				w.file(append(slices.Clone(labels), forge.SkillPrefix+r.Skill), "")
				w.now = w.now.Add(step)
				if !yield(w) {
					return
				}
			}
		}
	}
}

// ladders reports rungs that no journey reaches, and returns the number of rungs.
func (p *prover) ladders() (n int) {
	reached := make(map[string]bool)
	var keys []string
	rungs := make(map[string]rung)
	for i := range p.config.Agents {
		a := &p.config.Agents[i]
		list, _ := p.config.Ladder(a.Name)
		if p.stopped(a.Name) {
			continue
		}
		for _, by := range list {
			key := p.ladderOf(a) + "\n" + by
			if _, known := rungs[key]; !known {
				keys, rungs[key] = append(keys, key), rung{a.Name, by}
			}
			reached[key] = reached[key] || p.climbs[rung{a.Name, by}]
		}
	}
	for _, key := range keys {
		if table, by, _ := strings.Cut(key, "\n"); !reached[key] {
			r := rungs[key]
			p.tell("rules", Hint, fmt.Sprintf("%s: no issue of %s ever reaches %s", table, r.of, by), p.unclimbed(r))
		}
	}
	return len(keys)
}

// ladderOf returns the key of an agent's ladder.
func (p *prover) ladderOf(a *agents.Agent) string {
	if len(a.Escalate) > 0 {
		return "agents." + a.Name + ".escalate"
	}
	i := slices.IndexFunc(a.Roles, func(name string) bool {
		r := p.config.Role(name)
		return r != nil && r.On == agents.OnIssue && len(r.Escalate) > 0
	})
	return "roles." + a.Roles[max(i, 0)] + ".escalate"
}

// unclimbed shows why a rung is never reached: its agent may not take the issue, or a person or another rung gets it
// earlier.
func (p *prover) unclimbed(r rung) []string {
	w := newWorld(p.quiet)
	is := w.file(nil, r.by)
	w.filed(is, r.of)
	ref := is.Ref
	ledger.Entry(w.books.Chains, ref).Writers = []string{r.of}
	w.say("%s fails at it as often as its ladder allows", r.of)
	w.now = w.now.Add(step)
	if plan := w.plan(); len(plan.Starts) == 0 {
		w.say("%s may not take it: %s", r.by, w.refusal(ref, r.by))
		return w.story()
	}
	_, after := p.config.Ladder(r.of)
	w.say("a rung takes %s; a person or another rung gets the issue earlier",
		plural(after, "failure"))
	return w.story()
}
