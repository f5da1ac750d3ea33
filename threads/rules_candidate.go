package threads

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// traits are all properties of an item that candidate rules may use. Items with the same traits share one answer: ten
// thousand issues make a handful of classes.
type traits struct {
	traitKey
	labels  []string // those that some role filters on
	skills  []string // skill labels
	writers []string // agents that wrote to the pull request, or worked on the issue
}

// traitKey has the traits that can be a key of a map.
type traitKey struct {
	kind   agents.Kind
	repo   string // each repository takes its turn
	role   string // the only role that may take it; empty means any whose trigger fits
	local  bool   // a writer is local
	pin    string // the only agent that may take it, for which it is reserved
	author string // the agent it waits for, as the author of the pull request
	heir   string // the agent it waits for until a time, because it asked
	until  time.Time
	failed string // the agent that failed at it last, if another one goes first
	// rung is the agent that a ladder chose. With a level only that agent may take it; without one it stands in for the
	// author.
	rung            string
	level, setbacks int
}

func (t *traits) equal(other *traits) bool {
	return slices.Equal(t.skills, other.skills) && slices.Equal(t.labels, other.labels) &&
		slices.Equal(t.writers, other.writers) && t.traitKey == other.traitKey
}

// class has the items with the same traits, and the agents that may take them.
type class struct {
	traits
	items []*work     // in queue order
	able  []candidate // those that pass every candidate rule, sorted by agent name
	why   *Reason     // the reason of its items: at first the lack of an able agent, later see waitsFor

	on   [][]candidate // the able, by the place of their thread
	next int           // items before this one can no longer start
}

// candidate is an agent in one of its roles.
type candidate struct {
	agent *agentState
	role  *agents.Role
	kind  agents.Kind // of the items in question; empty where the question is about the agent itself
	stuck bool        // a free rule that does not move objects, so the agent can start nothing in this plan
}

// candidateRule returns why an agent may not take items with these traits; nil when it may. freeRules decide whether
// the agent is free.
type candidateRule struct {
	name string
	why  func(v *view, t *traits, c candidate) *Reason
}

var candidateRules = []candidateRule{
	{"role fits", roleFits},
	{"works in the repository", worksThere},
	{"has the skills", hasSkills},
	{"not pinned to another", notPinned},
	{"on its route", onRoute},
	{"author first", authorFirst},
	{"asker first", heirFirst},
	{"on its rung", onRung},
	{"not its own work", notOwnWork},
	{"not local on local", notLocalPair},
	{"its work can be reviewed", canBeReviewed},
	{"has access to the repository", hasAccess},
	{"another first after a failure", anotherFirst},
}

// freeRule returns why an agent can start no item, or none of its kind, now; nil when it can.
type freeRule struct {
	name  string
	moves bool // a start in the same plan can change the answer
	why   func(v *view, c candidate) *Reason
}

var freeRules = []freeRule{
	{"role has a program", false, hasProgram},
	{"has a token", false, hasToken},
	{"agent not held", false, notHeld},
	{"not failing", false, notFailing},
	{"not paused", false, notPaused},
	{"thread not rate limited, nor backing off", false, notParked},
	{"within the budget", false, withinBudget},
	{"window not used up", false, withinWindows},
	{"window not reserved", true, windowReserved},
	{"room on the machine", false, hasRoom},
	{"service ready", false, serviceReady},
	{"agent idle", true, agentIdle},
	{"one try while failing", true, oneProbe},
	{"slot free", true, slotFree},
}

// traitsOf gathers the traits of an item.
func (v *view) traitsOf(w *work) traits {
	t := v.traitsBefore(w)
	if w.memo.FailedBy != "" {
		if t.author == w.memo.FailedBy {
			t.author = ""
		}
		if t.heir == w.memo.FailedBy {
			t.heir, t.until = "", time.Time{}
		}
		t.failed = v.failedBy(w, t)
	}
	return t
}

// traitsBefore is traitsOf without what the item's last failure changes.
func (v *view) traitsBefore(w *work) traits {
	t := traits{traitKey: traitKey{kind: w.Kind, repo: w.Ref.Repo, role: w.Item.Role, pin: w.pin}}
	t.labels = v.filterLabels(w)
	if w.pull == nil {
		t.skills = forge.Skills(w.labels())
		t.writers = w.past.Writers
		if t.rung, t.level, t.setbacks = v.climbing(w, &t); t.level == 0 {
			v.inherit(w, &t)
		}
		return t
	}
	t.writers = w.stage.writers
	t.local = v.Config.anyLocal(w.stage.writers)
	if w.Kind == agents.KindRework {
		t.role, t.author = v.reworkers(w, t.labels)
		if t.rung, t.level, t.setbacks = v.climbing(w, &t); t.level > 0 {
			t.author = ""
		}
		return t
	}
	v.inherit(w, &t)
	return t
}

// filterLabels keeps only labels that some role filters on, so that the others do not split classes. A pull request
// also has the labels of its issue, so that the role that implemented the issue reworks it.
func (v *view) filterLabels(w *work) (kept []string) {
	if len(v.filters) == 0 {
		return nil
	}
	labels := w.labels()
	if w.pull != nil {
		if is := v.Facts.Issue(w.Chain); is != nil {
			labels = append(slices.Clone(labels), is.Labels...)
		}
	}
	for _, l := range v.filters {
		if slices.Contains(labels, l) {
			kept = append(kept, l)
		}
	}
	return kept
}

// reworkers returns the role that may rework a pull request, and its author while ReworkWait lasts. After that every
// agent with the role may. No item waits for an author that is no longer configured, or that has no role on issues,
// because reviewers write nothing: any agent with a role on issues may rework its pull request.
func (v *view) reworkers(w *work, labels []string) (role, author string) {
	a := v.Config.AgentByLogin(w.pull.Author)
	if a == nil {
		return "", ""
	}
	for _, name := range a.Roles {
		r := v.Config.Role(name)
		if r == nil || !r.On.Does(agents.KindRework) {
			continue
		}
		role = cmp.Or(role, name)
		if takes(r, labels) {
			role = name
			break
		}
	}
	if role == "" {
		return "", ""
	}
	if v.later(w.Since.Add(ReworkWait)) {
		author = a.Name
	}
	return role, author
}

// may reports whether an agent passes the candidate rules. The traits are passed by value because rules move them to
// the heap, which would otherwise happen for each of ten thousand issues.
func (v *view) may(agent string, t traits) bool {
	return slices.ContainsFunc(v.cands, func(c candidate) bool {
		if c.agent.Name != agent {
			return false
		}
		_, why := v.refusal(&t, c)
		return why == nil
	})
}

// newCandidate also applies the free rules that do not move, because their answer holds for the whole plan.
func (v *view) newCandidate(a *agentState, r *agents.Role) candidate {
	c := candidate{agent: a, role: r}
	for _, rule := range freeRules {
		if !rule.moves && rule.why(v, c) != nil {
			c.stuck = true
		}
	}
	return c
}

// free reports whether the candidate could start something now.
func (v *view) free(c candidate) bool {
	if c.stuck {
		return false
	}
	for i := range freeRules {
		if r := &freeRules[i]; r.moves && r.why(v, c) != nil {
			return false
		}
	}
	return true
}

// qualify fills in the agents that may take the items of a class, or the reason why none may. An agent is able in the
// first of its roles that fits.
func (v *view) qualify(c *class) {
	furthest := 0
	c.why = noRole[c.kind]
	for _, cand := range v.cands {
		if n := len(c.able); n > 0 && c.able[n-1].agent == cand.agent {
			continue
		}
		at, why := v.refusal(&c.traits, cand)
		if why == nil {
			cand.kind = c.kind
			c.able = append(c.able, cand)
		} else if at > furthest {
			furthest, c.why = at, why
		}
	}
}

// refusal returns the first objection of a candidate rule, and the rule's place in the order.
func (v *view) refusal(t *traits, c candidate) (at int, why *Reason) {
	for i := range candidateRules {
		if why := candidateRules[i].why(v, t, c); why != nil {
			return i, why
		}
	}
	return len(candidateRules), nil
}

// unfree returns the first objection of a free rule, and the rule's place in the order.
func (v *view) unfree(c candidate) (at int, why *Reason) {
	for i := range freeRules {
		if why := freeRules[i].why(v, c); why != nil {
			return i, why
		}
	}
	return len(freeRules), nil
}

// waitsFor returns the reason why no item of the class can start now: the objection to the able candidate that passed
// most rules.
func (v *view) waitsFor(c *class) *Reason {
	if c.heir != "" { // other agents could start it
		return c.heirFirst()
	}
	furthest, reason := -1, c.why
	for _, cand := range c.able {
		at, why := v.unfree(cand)
		if why == nil {
			why = v.noFreeSlotFor(c.waiting(), cand)
		}
		if why != nil && at > furthest {
			furthest, reason = at, why
		}
	}
	if reason.Code == AgentBusy {
		return v.allBusy(c, reason)
	}
	return reason
}

// allBusy returns the reason of a class whose able agents are all at work. It names no agent if there are several: a
// name would suggest that only this agent could take the item.
func (v *view) allBusy(c *class, one *Reason) *Reason {
	all := Reason{Code: AgentBusy, Limit: len(c.able), Note: "agent"}
	roles := make(map[string]bool)
	for _, cand := range c.able {
		roles[cand.role.Name] = true
		if cand.agent.on == nil {
			continue
		}
		all.Count++
		if free := v.freeAbout(cand.agent.Name); !free.IsZero() && (all.Until.IsZero() || free.Before(all.Until)) {
			all.Until = free
		}
	}
	if all.Limit == 1 {
		alone := *one
		alone.Until = all.Until
		return &alone
	}
	if len(roles) == 1 {
		all.Note = c.able[0].role.Name + " agent"
	}
	return &all
}

// freeAbout returns when an agent's session ends if it takes the median time of its kind; zero if that is unknown or
// past.
func (v *view) freeAbout(agent string) time.Time {
	s := v.byAgent[agent]
	end := s.Started.Add(v.Typical[s.Item.Kind])
	if !end.After(v.Now) {
		return time.Time{}
	}
	return end
}

// waiting returns the first item of the class that was not started, that no item rule objects to, and that does not
// insist. If it waits for a kept slot, so do all others: an insistent item would have taken the slot.
func (c *class) waiting() *work {
	i := slices.IndexFunc(c.items, func(w *work) bool { return !w.taken && w.Reason == nil && !w.insists() })
	return c.items[max(i, 0)]
}

// noRole has one reason per kind for all items: most agents have no role for most items, and every rule sees each of
// a hundred agents with each of a hundred pull requests.
var noRole = map[agents.Kind]*Reason{}

func init() {
	for _, kind := range kindOrder {
		noRole[kind] = &Reason{Code: NoRole, Note: string(kind)}
	}
}

func roleFits(_ *view, t *traits, c candidate) *Reason {
	fits := c.role.On.Does(t.kind)
	if t.role != "" && t.rung != c.agent.Name {
		fits = c.role.Name == t.role
	}
	if !fits || !takes(c.role, t.labels) {
		return noRole[t.kind]
	}
	return nil
}

// takes reports whether a role's label is among those of an item.
func takes(r *agents.Role, labels []string) bool {
	return r.Label == "" || slices.Contains(labels, r.Label)
}

// hasSkills requires all skills of an issue, so an issue without skill labels is for every agent.
func hasSkills(_ *view, t *traits, c candidate) *Reason {
	for _, skill := range t.skills {
		if !slices.Contains(c.agent.Skills, skill) {
			return &Reason{Code: NoSkill, Note: skill}
		}
	}
	return nil
}

func notPinned(_ *view, t *traits, c candidate) *Reason {
	if t.pin != "" && t.pin != c.agent.Name {
		return &Reason{Code: PinnedTo, Agent: t.pin}
	}
	return nil
}

func authorFirst(_ *view, t *traits, c candidate) *Reason {
	if t.author != "" && t.author != c.agent.Name && t.rung != c.agent.Name {
		return &Reason{Code: AuthorFirst, Agent: t.author}
	}
	return nil
}

func notOwnWork(v *view, t *traits, c candidate) *Reason {
	if v.unpaired(t, c) == OwnWork {
		return &Reason{Code: OwnWork, Agent: c.agent.Name}
	}
	return nil
}

func notLocalPair(v *view, t *traits, c candidate) *Reason {
	if v.unpaired(t, c) == LocalPair {
		return &Reason{Code: LocalPair, Agent: c.agent.Name}
	}
	return nil
}

func (v *view) unpaired(t *traits, c candidate) Code {
	if t.kind != agents.KindReview {
		return ""
	}
	return v.Config.unpaired(c.agent.Agent, t.writers, t.local)
}

// canBeReviewed keeps an agent from writing work that no agent could review: the last possible reviewer must not
// become a writer. A pull request that no agent can review any more may still be reworked, because people review it.
// Without any review agent people review everything, and the rule is off.
func canBeReviewed(v *view, t *traits, c candidate) *Reason {
	with := append(slices.Clip(t.writers), c.agent.Name)
	stuck := t.kind.Writes() && len(v.reviews) > 0 && !v.reviewable(t.repo, with) &&
		(t.kind == agents.KindIssue || v.reviewable(t.repo, t.writers))
	if stuck {
		return &Reason{Code: NoReviewer, Agent: c.agent.Name}
	}
	return nil
}

func hasProgram(_ *view, c candidate) *Reason {
	if len(c.role.Command) == 0 {
		return &Reason{Code: NoProgram, Note: c.role.Name}
	}
	return nil
}

func hasToken(_ *view, c candidate) *Reason {
	if c.agent.Token != "" {
		return nil
	}
	return &Reason{Code: NoToken, Agent: c.agent.Name, Note: agents.TokenVar(c.agent.Name)}
}

func notHeld(v *view, c candidate) *Reason {
	h := v.History.Agent(c.agent.Name)
	if !h.Held(v.Now) {
		return nil
	}
	v.wake(h.HeldUntil)
	if h.HeldAs == NoPlace { // the cluster may have told since that no node will ever do
		if why := hasRoom(v, c); why != nil && why.Code == NoNode {
			return why
		}
	}
	return &Reason{Code: cmp.Or(h.HeldAs, AgentHeld), Agent: c.agent.Name, Note: h.HeldWhy, Until: h.HeldUntil}
}

// notPaused checks the agent first: a user who paused one agent of a paused thread should see that it stays paused
// when the thread resumes.
func notPaused(v *view, c candidate) *Reason {
	for _, p := range []Pause{{Agent: c.agent.Name}, {Thread: c.agent.Thread}, {}} {
		if by, paused := v.History.Paused[p]; paused {
			return &Reason{Code: Paused, Agent: p.Agent, Thread: p.Thread, Note: by.Words()}
		}
	}
	return nil
}

func notParked(v *view, c candidate) *Reason {
	t := v.History.Thread(c.agent.Thread)
	if v.later(t.ParkedUntil) {
		return &Reason{Code: cmp.Or(t.ParkedAs, ThreadPark), Thread: c.agent.Thread, Until: t.ParkedUntil, Note: t.ParkedWhy}
	}
	return nil
}

func agentIdle(_ *view, c candidate) *Reason { return c.agent.busy }

func slotFree(_ *view, c candidate) *Reason { return c.agent.thread.noSlot }
