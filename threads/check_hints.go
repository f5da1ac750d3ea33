package threads

import (
	"math"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// crowded finds factories in which scheduled roles of a more urgent priority can keep every slot for issues busy. It
// assumes that each of their sessions takes its time limit.
func (k *check) crowded() {
	var crowd []string
	for i := range k.config.Threads {
		t := &k.config.Threads[i]
		if !k.has(t, agents.KindIssue) {
			continue
		}
		busy := 0.0 // slots, on average
		for j := range k.config.Roles {
			r := &k.config.Roles[j]
			if r.On.Does(agents.KindSchedule) && r.Priority < forge.DefaultPriority {
				runs := min(len(k.config.Forge.Repos), k.count(t, r.Name))
				busy += float64(runs) * float64(r.Timeout) / float64(max(1, r.Timeout+r.Interval()))
			}
		}
		if busy < float64(t.MaxSessions) {
			return
		}
		crowd = append(crowd, "threads."+t.Name)
	}
	if len(crowd) > 0 {
		k.report("order", Hint, "%s: scheduled roles can keep every slot busy, so that an issue of priority %d never "+
			"starts: raise their every, lower their timeout, or set their priority to %[2]d or more", strings.Join(crowd, ", "),
			forge.DefaultPriority)
	}
}

// has reports whether an agent of a thread does a kind of work.
func (k *check) has(t *Thread, kind agents.Kind) bool {
	return slices.ContainsFunc(t.Agents, func(name string) bool { return k.config.Does(k.config.Agent(name), kind) })
}

// count returns how many agents of a thread have a role.
func (k *check) count(t *Thread, role string) (n int) {
	for _, name := range t.Agents {
		if slices.Contains(k.config.Agent(name).Roles, role) {
			n++
		}
	}
	return n
}

// slots finds slots that no agent can use, and reviewers that may review no agent's work.
func (k *check) slots() {
	for i := range k.config.Threads {
		t := &k.config.Threads[i]
		key, have := "max_concurrent", t.Slots
		if t.Overlap && t.MaxSessions > len(t.Agents) {
			key, have = "max_sessions", t.MaxSessions
		}
		if most := k.sessions(t); most < have {
			k.report("slots", Hint, "threads.%s: %s = %d, but at most %s can run there at once", t.Name, key, have,
				count(most, "session"))
		}
	}
	for i := range k.config.Agents {
		a := &k.config.Agents[i]
		if !k.config.Does(a, agents.KindReview) || k.config.Does(a, agents.KindIssue) {
			continue
		}
		writes := func(w agents.Agent) bool { return k.config.Does(&w, agents.KindIssue) }
		pairs := func(w agents.Agent) bool { return writes(w) && k.config.Unpaired(a, []string{w.Name}) == "" }
		if slices.ContainsFunc(k.config.Agents, writes) && !slices.ContainsFunc(k.config.Agents, pairs) {
			k.report("slots", Hint, "agents.%s: it may review the work of people, but of no agent", a.Name)
		}
	}
}

// sessions returns the most sessions that can run on a thread at once: one for each agent, but of the agents with the
// same scheduled role and no other, one for each repository.
func (k *check) sessions(t *Thread) (most int) {
	scheduled := make(map[string]int)
	for _, name := range t.Agents {
		roles := k.config.Agent(name).Roles
		if r := k.config.Role(roles[0]); len(roles) == 1 && r.On.Does(agents.KindSchedule) {
			scheduled[r.Name]++
			continue
		}
		most++
	}
	for _, n := range scheduled {
		most += min(n, len(k.config.Forge.Repos))
	}
	return most
}

// rules finds rules of the configuration that can never have an effect.
func (k *check) rules() {
	mute := func(key, means string) {
		k.report("rules", Hint, "%s can never have an effect: %s", key, means)
	}
	for i := range k.config.Threads {
		t := &k.config.Threads[i]
		key := "threads." + t.Name
		for n := range t.Windows {
			if unreachable(t.Windows[:n+1]) {
				mute(key+".windows", "use within "+t.Windows[n].Name()+" never reaches it, because the shorter windows allow less")
			}
		}
		if t.Reserve > 0 && len(t.Windows) > 0 && !k.has(t, agents.KindIssue) {
			mute(key+".reserve", "it holds back new issues, and no agent of the thread takes any")
		}
		if t.Hold > 0 && (len(t.Agents) < 2 || !k.has(t, agents.KindIssue) || !k.config.hasReviewers()) {
			mute(key+".hold", "it keeps a slot for an agent whose work is under review")
		}
	}
	for i := range k.config.Agents {
		a := &k.config.Agents[i]
		if len(a.Skills) > 0 && !k.config.Does(a, agents.KindIssue) {
			mute("agents."+a.Name+".skills", "only issues ask for skills, and it takes no issues")
		}
		if t := k.config.Thread(a.Thread); a.Budget != (agents.Budget{}) &&
			idle(a.Budget, t.Budget, inDollars) && idle(a.Budget, t.Budget, inTokens) {
			mute("agents."+a.Name+".budget", "the thread's budget is no higher")
		}
	}
	k.ladders()
}

// inDollars and inTokens return the limit of a budget in their unit.
func inDollars(b agents.Budget) float64 { return b.USD }
func inTokens(b agents.Budget) float64  { return float64(b.Tokens) }

// idle reports whether an agent's limit in a unit is never reached before its thread's. Zero is no limit.
func idle(agent, thread agents.Budget, of func(agents.Budget) float64) bool {
	return of(agent) == 0 || of(thread) > 0 && of(thread) <= of(agent)
}

// unreachable reports whether the shorter ones of some windows keep use below the limits of the last.
func unreachable(windows []Window) bool {
	long := windows[len(windows)-1]
	for _, of := range []func(agents.Budget) float64{inDollars, inTokens} {
		most := math.Inf(1)
		for _, w := range windows[:len(windows)-1] {
			if of(w.Budget) > 0 {
				most = min(most, math.Ceil(float64(long.Length)/float64(w.Length))*of(w.Budget))
			}
		}
		if limit := of(long.Budget); limit > 0 && most >= limit {
			return false
		}
	}
	return true
}

// ladders finds rungs that may not take an issue that the agent below them takes.
func (k *check) ladders() {
	for i := range k.config.Agents {
		a := &k.config.Agents[i]
		rungs, _ := k.config.Ladder(a.Name)
		for _, by := range rungs {
			both := func(s labelSet) bool { return slices.Contains(s.able, a.Name) && slices.Contains(s.able, by) }
			takes := func(s labelSet) bool { return slices.Contains(s.able, a.Name) }
			if slices.ContainsFunc(k.sets, takes) && !slices.ContainsFunc(k.sets, both) {
				k.report("rules", Hint, "agents.%s: its ladder never reaches %s, which may take none of its issues", a.Name, by)
			}
		}
	}
}
