package threads

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// view is a snapshot with the indexes that rules use, and the state of the plan in the making. Rules read it; only
// Decide's own steps write to it.
type view struct {
	*Snapshot
	byAgent map[string]*Session
	logins  map[string]bool             // of our agents
	reviews []*agents.Agent             // the agents that review
	pulls   map[forge.Ref][]*forge.Pull // by the issue that they are for
	stages  []stage                     // of each of Facts.Pulls
	staged  map[forge.Ref]forge.Ref     // the staged convoy of each member
	dropped map[forge.Ref]bool          // labelled cancelled
	unread  []forge.Ref                 // staged convoys whose members are not known yet
	cycles  map[forge.Ref][]forge.Ref   // the dependency cycle of each issue, from the issue back to itself
	waiting map[string]int              // pull requests per repository whose head waits for a verdict
	asked   map[string]int              // by person: reserved reviews that are not in the history yet
	opened  map[string]int              // by account: the day's sessions on what it opened
	lastOf  map[forge.Ref]*forge.Pull   // by chain: the open pull request that our agents handed in last
	titles  map[titleKey][]*forge.Issue // of agents; computed on demand
	homes   []repoState                 // beside Facts.Repos
	turned  int                         // the last turn that a repository has
	threads []threadState
	named   map[string]*threadState
	agents  []agentState
	cands   []candidate // every agent in each of its roles, sorted by agent

	ladders map[string]ladder // by agent, computed on demand
	chosen  map[foot][]choice // computed on demand

	// filters has the labels that roles filter on, once each, in the order of the roles.
	filters []string
	plans   bool // some role writes plans

	wakeAt time.Time
}

// threadState is a thread while the plan is made.
type threadState struct {
	*Thread
	place    int    // among the threads
	sessions []int  // per slot
	warm     []Warm // the resident of each slot, zero without one; nil on an overlap thread
	talks    []Talk // conversations, where its server's memory keeps them; no slot has a resident then
	running  int
	kept     []keeping // slots that wait for their residents
	gauges   []gauge   // the limits of its windows
	// usedUp is the reason if a window is used up, and reserved if one has nothing left for new issues.
	usedUp, reserved *Reason
	noSlot           *Reason // once the thread is full
}

// full reports whether the thread can take no further session.
func (t *threadState) full() bool { return t.running >= t.MaxSessions }

// begin counts one more session.
func (t *threadState) begin() {
	if t.running++; t.full() {
		t.noSlot = &Reason{Code: NoSlot, Thread: t.Name, Count: t.running, Limit: t.MaxSessions}
	}
}

// agentState is an agent while the plan is made.
type agentState struct {
	*agents.Agent
	thread *threadState
	idle   time.Time   // when its last session ended; see AgentHistory.IdleSince
	on     []forge.Ref // the item it works on; nil when it is idle
	busy   *Reason     // once it works
}

// work makes the agent busy with an item.
func (a *agentState) work(item forge.Ref) {
	a.on = []forge.Ref{item}
	a.busy = &Reason{Code: AgentBusy, Agent: a.Name, Refs: a.on}
}

func newView(s *Snapshot) *view {
	v := newCrew(s)
	v.indexRepos()
	v.indexPulls()
	v.indexOpened()
	for i := range v.threads {
		v.indexKept(&v.threads[i])
	}
	v.indexConvoys()
	v.indexDropped()
	v.cycles = findCycles(&s.Facts)
	return v
}

// newCrew returns a view with its threads, agents and sessions only: enough for the rules about agents.
func newCrew(s *Snapshot) *view {
	v := &view{
		Snapshot: s,
		byAgent:  make(map[string]*Session, len(s.Sessions)),
		logins:   make(map[string]bool, len(s.Config.Agents)),
		reviews:  s.Config.reviewers(),
		asked:    make(map[string]int),
	}
	for i := range s.Sessions {
		v.byAgent[s.Sessions[i].Agent] = &s.Sessions[i]
		v.countReview(&s.Sessions[i])
	}
	for i := range s.Config.Agents {
		v.logins[s.Config.Agents[i].Login] = true
	}
	for i := range s.Config.Roles {
		r := &s.Config.Roles[i]
		v.plans = v.plans || r.Plan
		if r.Label != "" && !slices.Contains(v.filters, r.Label) {
			v.filters = append(v.filters, r.Label)
		}
	}
	v.indexWorkers()
	return v
}

// indexWorkers records which threads and agents the sessions occupy. A session whose thread or agent is no longer
// configured occupies nothing.
func (v *view) indexWorkers() {
	v.threads = make([]threadState, len(v.Config.Threads))
	v.named = make(map[string]*threadState, len(v.Config.Threads))
	for i := range v.Config.Threads {
		t := &v.Config.Threads[i]
		v.threads[i] = threadState{Thread: t, place: i, sessions: make([]int, t.Slots)}
		v.named[t.Name] = &v.threads[i]
		v.indexWarm(&v.threads[i])
		v.indexGauges(&v.threads[i])
	}
	for i := range v.Sessions {
		s := &v.Sessions[i]
		if t := v.thread(s.Thread); t != nil {
			t.begin()
			v.comes(t, s)
			if s.Slot < len(t.sessions) {
				t.sessions[s.Slot]++
			}
		}
	}
	for i := range v.threads {
		v.weighGauges(&v.threads[i])
	}
	v.agents = make([]agentState, len(v.Config.Agents))
	v.cands = make([]candidate, 0, len(v.Config.Agents)+len(v.Config.Agents)/2) // most agents have one role
	for i := range v.Config.Agents {
		a := &v.Config.Agents[i]
		v.agents[i] = agentState{Agent: a, thread: v.thread(a.Thread), idle: v.History.Agent(a.Name).IdleSince}
		if busy := v.byAgent[a.Name]; busy != nil {
			v.agents[i].work(busy.Item.Ref)
		}
		for _, name := range a.Roles {
			if r := v.Config.Role(name); r != nil && v.agents[i].thread != nil {
				v.cands = append(v.cands, v.newCandidate(&v.agents[i], r))
			}
		}
	}
}

// indexWarm records which conversations of a thread are warm, and where.
func (v *view) indexWarm(t *threadState) {
	if t.Overlap {
		return
	}
	t.warm = make([]Warm, t.Slots)
	if c := v.Caches[t.Name]; t.InMemory(c) {
		t.talks = v.History.Thread(t.Name).Remembered(c)
		return
	}
	for slot := range t.warm {
		t.warm[slot] = v.History.Slots[SlotKey{t.Name, slot}]
	}
}

// thread returns a thread; nil if it is not configured.
func (v *view) thread(name string) *threadState { return v.named[name] }

// repo returns a repository; nil if it was never read.
func (v *view) repo(name string) *forge.Repo {
	if i, known := v.repoAt(name); known {
		return &v.Facts.Repos[i]
	}
	return nil
}

// indexPulls finds the pull requests of each issue, their stages, and how many wait for a reviewer.
func (v *view) indexPulls() {
	v.pulls = make(map[forge.Ref][]*forge.Pull, len(v.Facts.Pulls))
	v.waiting = make(map[string]int)
	v.stages = make([]stage, len(v.Facts.Pulls))
	for i := range v.Facts.Pulls {
		p := &v.Facts.Pulls[i]
		for _, ref := range p.Closes {
			v.pulls[ref] = append(v.pulls[ref], p)
		}
	}
	for i := range v.Facts.Pulls {
		if p := &v.Facts.Pulls[i]; !p.Closed {
			v.stages[i] = v.stageOf(p)
		}
	}
	v.indexLast()
	for i := range v.Facts.Pulls {
		p, st := &v.Facts.Pulls[i], &v.stages[i]
		waits := !p.Closed && st.kind == agents.KindReview && !p.Draft && forge.SkipLabel(p.Labels) == "" &&
			!v.unwanted(p) && !v.askedAgain(p.Ref) && !v.unshown(p) && v.unwork(p, st) == nil && v.reviewsLeft(st.chain)
		if waits && st.own && !st.stray && (v.reviewable(p.Repo, st.writers) || len(v.reviews) == 0) {
			v.waiting[p.Repo]++
		}
	}
}

// askedAgain reports whether a pull request rests because a person was asked about it more than once. It then does
// not count as unreviewed: three of them must not keep a repository from new work for a day.
func (v *view) askedAgain(ref forge.Ref) bool {
	return v.History.Chain(ref).Handed > 1 && v.later(v.History.Item(Key{Kind: agents.KindReview, Ref: ref}).CoolDown)
}

// indexConvoys records the members of staged convoys. A convoy depends on its members, so they are its blockers.
func (v *view) indexConvoys() {
	for i := range v.Facts.Issues {
		is := &v.Facts.Issues[i]
		if is.Closed || len(is.Labels) < 2 || !is.Has(forge.LabelConvoy) || !is.Has(forge.LabelStaged) {
			continue
		}
		if v.staged == nil {
			v.staged = make(map[forge.Ref]forge.Ref)
		}
		for _, b := range is.Blockers {
			v.staged[b.Ref] = is.Ref
		}
		if !is.BlockersKnown {
			v.unread = append(v.unread, is.Ref)
		}
	}
}

// ours reports whether a login belongs to an agent of ours; isAgent includes the agents of other hosts.
func (v *view) ours(login string) bool { return v.logins[login] }

func (v *view) isAgent(login string) bool { return v.ours(login) || v.Config.IsBot(login) }

// IsBot reports whether an account is an agent of another host.
func (c *Config) IsBot(login string) bool {
	_, bot := slices.BinarySearch(c.Forge.Bots, login)
	return bot
}

// wake records that time alone changes the plan at t.
func (v *view) wake(t time.Time) {
	if t.After(v.Now) && (v.wakeAt.IsZero() || t.Before(v.wakeAt)) {
		v.wakeAt = t
	}
}

// later reports whether t is in the future, and makes sure that Decide is called again then.
func (v *view) later(t time.Time) bool {
	v.wake(t)
	return t.After(v.Now)
}

// stale reports whether we wrote to one of refs, or ended a session on it, after the facts of the repository were
// requested. The facts may then lack our write.
func (v *view) stale(repo *forge.Repo, refs ...forge.Ref) bool {
	for _, r := range refs {
		if t, ok := v.History.Touched[r]; ok && !repo.AsOf.After(t) {
			return true
		}
	}
	return false
}

// intruder returns the session beside which an item may not start, or nil. At most one session writes to a chain. A
// review or merge does not start beside a writing session, which may change its subject, unless the writer's program
// waits for it.
func (v *view) intruder(w *work) *Session {
	for _, s := range w.sessions {
		switch {
		case s.Item.Chain != w.Chain:
		case w.Kind.Writes():
			return s
		case s.Item.Kind.Writes() && !v.waitsForReview(s):
			return s
		case w.Kind == stageMerge && s.Item.Kind == agents.KindReview:
			return s
		}
	}
	return nil
}

// waitsForReview reports whether the program of a session waits for the review of its work.
func (s *Snapshot) waitsForReview(x *Session) bool {
	r := s.Config.Role(x.Role)
	return r != nil && r.WaitsForReview
}
