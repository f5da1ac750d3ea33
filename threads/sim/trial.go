package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Trial is one factory with one load under one policy.
type Trial struct {
	Config *threads.Config
	Load   Load
	Policy Policy
	Cache  Cache
	Seed   uint64 // of the moments at which polls and cycles begin
	// Scheduled is how long a session of a scheduled role takes, by role; where it does not say, scheduledTime.
	Scheduled map[string]time.Duration
	// Uses has the use of a session, by thread and kind; that of others is not known.
	Uses map[Line]agents.Usage
	// Model says what nothing else here does: how long delays are, and how sessions go that a Work does not describe.
	// Nil: nothing takes time but sessions, people act at once, and every change on the forge is noticed at once.
	Model   *Model
	Outages []Outage
	From    time.Time     // the time of its beginning; zero: some midnight
	Engine  bool          // sessions run elsewhere: they begin, and their end is known, as late as on a real engine
	Limit   time.Duration // nothing is filed after it; 0 means that all of the load is
	// Drain is how long the trial goes on after the last issue was filed; 0 is long enough for all that is ever done.
	Drain time.Duration
	Quiet bool // it is not measured how long agents are idle beside work, which takes as long as all the rest
	// Enough is asked at every moment, and ends the trial when it says so; nil never does. The report is then of no use.
	Enough func() bool

	ofDrawn bool // the report has the waits of issues alone that are drawn from the model
}

// Line is the work of one kind on a thread.
type Line struct {
	Thread string
	Kind   agents.Kind
}

// drain is the usual Trial.Drain.
const drain = 60 * 24 * time.Hour

// Run plays a trial to its end.
func (t Trial) Run() Report {
	tr := newTrial(t)
	tr.open()
	for !tr.finished() && tr.next() {
		if t.Enough != nil && t.Enough() {
			break
		}
		tr.settle()
	}
	return tr.report()
}

// trial is a Trial while it is played.
type trial struct {
	Trial
	timeline
	real   *threads.Config // Config is as the policy sees it
	eager  *threads.Config // the same, with no slot kept for a resident
	rng    *rand.Rand
	issues []*trialIssue // of every issue, by number
	pulls  []*trialIssue // those with a pull request, by its number
	runs   []*trialRun   // what runs
	books  *ledger.State
	repos  []forge.Repo
	server map[string]*llama // of local threads without bound slots
	// memories are of local threads whose server's memory has conversations for every slot.
	memories map[string]*memory
	held     map[string]serverSlots // of the other local threads with bound slots
	moved    bool                   // something has changed since settle
	changes  int
	origin   time.Time
	tickAt   time.Time // of the next tick; zero while none is due
	lookers  []looker  // of each thread
	active   bool      // the last tick found work
	drawn    int       // delays so far
	merging  map[string]bool
	at       map[forge.Ref]*trialIssue // by issue and by pull request
	groups   map[alike]int
	metered  bool                        // what sessions use is limited
	decided  int                         // plans so far
	numbered int64                       // issues so far
	starts   []time.Time                 // of issues that waited when the trial began
	waiters  map[forge.Ref][]*trialIssue // by the issue that they wait for
	down     map[string]threads.Outage   // services, all the time
	gaps     map[string]time.Time        // idle agents beside work for them, since when
	end      time.Time                   // after which trials are given up
	left     int                         // issues that are not done
	seen     Report
}

// trialIssue is an issue of the load, from its filing to its end.
type trialIssue struct {
	Work
	forge.Issue
	hidden  bool // at the hub
	stuck   bool // it waits for what no trial plays
	blocked int  // issues that it waits for
	bare    bool // there is a pull request only
	group   int  // of issues that the same agents may take
	running int  // writing sessions on it right now
	done    int  // writing sessions that brought it on
	wrote   int  // writing sessions that ended, and reviews
	looked  int
	pull    *forge.Pull
	begun   time.Time // its first session; zero before
	first   time.Time // its first session since the trial began, or the one that ran then
	waited  bool      // for its first session when the trial began
	ended   time.Time // when it was closed
	merged  bool
	asked   int   // how often people were
	tries   int   // sessions that an outage could have ended
	context int64 // tokens that its sessions have read and written so far
}

// label changes the labels of an issue, and assign its assignees; both decide which agents may take it.
func (tr *trial) label(t *trialIssue, add, remove string) {
	t.Labels = with(without(t.Labels, remove), add)
	tr.regroup(t)
}

func (tr *trial) assignTo(t *trialIssue, logins []string) {
	t.Assignees = logins
	tr.regroup(t)
}

func (tr *trial) regroup(t *trialIssue) {
	k := alike{strings.Join(t.Labels, " "), strings.Join(t.Assignees, " ")}
	n, known := tr.groups[k]
	if !known {
		n = len(tr.groups)
		tr.groups[k] = n
	}
	t.group = n
}

// trialRun is a session from its start until it has ended.
type trialRun struct {
	threads.Session
	issue    *trialIssue // nil for scheduled work
	span     int         // in the report
	how      Step        // it goes so
	cut      *Outage     // that ends it
	over     bool
	takes    time.Duration // its program, in all
	reserved time.Time
	stopped  threads.Code // why we ended it
}

func newTrial(t Trial) *trial {
	cfg := *t.Config
	cfg.Roles = slices.Clone(cfg.Roles)
	for i := range cfg.Roles {
		cfg.Roles[i].Plan = cfg.Roles[i].Plan && t.Model != nil // else nothing says how long people take
	}
	if !t.Policy.Bound {
		cfg.Threads = slices.Clone(cfg.Threads)
		for i := range cfg.Threads {
			th := &cfg.Threads[i]
			if !th.Overlap { // without the rule, all agents of the thread may run at once
				th.Overlap, th.MaxSessions = true, len(th.Agents)
			}
		}
	}
	t.Cache = t.Cache.filled()
	tr := &trial{
		Trial: t, real: t.Config, rng: rand.New(rand.NewPCG(t.Seed, 3)),
		server: make(map[string]*llama), memories: make(map[string]*memory), gaps: make(map[string]time.Time),
		books: ledger.New(), merging: make(map[string]bool), at: make(map[forge.Ref]*trialIssue),
		groups: make(map[alike]int), lookers: make([]looker, len(t.Config.Threads)), held: make(map[string]serverSlots),
	}
	if tr.origin = t.From; t.From.IsZero() {
		tr.origin = epoch
	}
	tr.now = tr.origin
	for i := range t.Config.Threads {
		th := &t.Config.Threads[i]
		if !th.Overlap && !t.Policy.Bound {
			tr.server[th.Name] = newLlama(tr, th.Slots)
		}
		if th.InMemory(threads.ServerCache{}) {
			tr.memories[th.Name] = &memory{room: t.Cache.Memory}
		}
	}
	tr.Config, tr.eager = &cfg, eager(&cfg)
	tr.metered = limited(&cfg)
	tr.seen.Policy, tr.seen.bound = t.Policy.Name, make(map[string]bool)
	for i := range cfg.Threads {
		tr.seen.bound[cfg.Threads[i].Name] = !cfg.Threads[i].Overlap
	}
	for _, name := range cfg.Forge.Repos {
		tr.repos = append(tr.repos, forge.Repo{Name: name, DefaultBranch: "main"})
	}
	for i := range cfg.Agents {
		ledger.Entry(tr.books.Agents, cfg.Agents[i].Name).IdleSince = tr.origin
	}
	return tr
}

// note applies a journal record, as the supervisor does.
func (tr *trial) note(r ledger.Record) {
	r.At = tr.now
	tr.books.Apply(r)
}

// eager returns a configuration that keeps no slot for a resident.
func eager(cfg *threads.Config) *threads.Config {
	other := *cfg
	other.Threads = slices.Clone(cfg.Threads)
	for i := range other.Threads {
		other.Threads[i].Hold = 0
	}
	return &other
}

// open queues everything that comes from outside: issues, polls and cycles.
func (tr *trial) open() {
	if tr.Limit > 0 {
		tr.Load = slices.DeleteFunc(slices.Clone(tr.Load), func(w Work) bool { return w.At >= tr.Limit })
	}
	tr.left = len(tr.Load)
	after := cmp.Or(tr.Drain, drain)
	tr.end = tr.origin.Add(after)
	for i := range tr.Load {
		w := &tr.Load[i]
		tr.after(w.At, func() { tr.file(w) })
		tr.end = tr.origin.Add(after + w.At)
	}
	tr.openOutages()
	p := &tr.Policy
	if tr.Model != nil {
		since := tr.rng.Float64() // the threads began to look together
		for i := range tr.lookers {
			tr.lookers[i].next = tr.now.Add(time.Duration(since * float64(tr.interval(i))))
		}
	}
	tr.every(p.Push, tr.push)
	if tr.Model != nil && p.Steal > 0 && tr.real.Stealing.Every > 0 {
		p.Steal = tr.real.Stealing.Every
	}
	tr.every(p.Steal, tr.steal)
	switch {
	case p.Poll == 0:
		tr.change()
	case p.Together:
		tr.every(p.Poll, tr.poller("", func(threads.Start) bool { return true }))
	default:
		for i := range tr.Config.Agents {
			name := tr.Config.Agents[i].Name
			tr.every(p.Poll, tr.poller(name, func(s threads.Start) bool { return s.Agent == name }))
		}
	}
}

// poller returns a poll of an agent, or of all. It does nothing while the agent works, or when nothing has changed
// since the last poll.
func (tr *trial) poller(agent string, theirs func(threads.Start) bool) func() {
	seen, wake := -1, time.Time{}
	return func() {
		busy := slices.ContainsFunc(tr.runs, func(x *trialRun) bool { return x.Agent == agent })
		if busy || seen == tr.changes && (wake.IsZero() || tr.now.Before(wake)) {
			return
		}
		seen = tr.changes
		wake = tr.decide(theirs)
	}
}

// every calls do once per period, from a random moment in the first one.
func (tr *trial) every(period time.Duration, do func()) {
	if period == 0 {
		return
	}
	var again func()
	again = func() {
		do()
		tr.after(period, again)
	}
	tr.after(time.Duration(tr.rng.Int64N(int64(period))), again)
}

func (tr *trial) finished() bool { return tr.left == 0 && len(tr.runs) == 0 || tr.now.After(tr.end) }

// snapshot returns what the policy shows to the scheduler. whole shows every issue that waits. Otherwise, of issues
// that the same agents may take, only the oldest are shown: no more can start than there are agents.
func (tr *trial) snapshot(whole bool) threads.Snapshot {
	return tr.look(func(t *trialIssue) []string { return t.Assignees }, !whole, false)
}

// truth returns the work that there really is, whatever the policy hides and has assigned to an agent.
func (tr *trial) truth() threads.Snapshot {
	s := tr.look(func(t *trialIssue) []string {
		if t.running > 0 {
			return t.Assignees
		}
		return pinned(t.Pin)
	}, true, true)
	s.Config = tr.eager
	return s
}

// alike groups issues that the same agents may take: the labels and the assignee.
type alike struct{ labels, who string }

func (tr *trial) look(assignees func(*trialIssue) []string, brief, hidden bool) threads.Snapshot {
	s := threads.Snapshot{
		Now: tr.now, Config: tr.Config, History: tr.books.History, Caches: tr.caches(), Outages: tr.down,
	}
	s.History.Threads = tr.parked()
	for _, r := range tr.repos {
		if r.AsOf = tr.now; tr.merging[r.Name] {
			r.AsOf = time.Time{}
		}
		s.Facts.Repos = append(s.Facts.Repos, r)
	}
	seen := make([]int, len(tr.groups))
	for _, t := range tr.issues {
		if t.Closed || t.hidden && !hidden || brief && (t.stuck || t.blocked > 0) {
			continue
		}
		if waits := t.running == 0 && t.pull == nil && t.begun.IsZero(); brief && waits {
			if seen[t.group]++; seen[t.group] > len(tr.Config.Agents) {
				continue
			}
		}
		is := t.Issue
		is.Assignees = assignees(t)
		s.Facts.Issues = append(s.Facts.Issues, is)
	}
	for _, t := range tr.pulls {
		s.Facts.Pulls = append(s.Facts.Pulls, *t.pull)
	}
	slices.SortFunc(s.Facts.Repos, func(a, b forge.Repo) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Facts.Issues, func(a, b forge.Issue) int { return a.Compare(b.Ref) })
	slices.SortFunc(s.Facts.Pulls, func(a, b forge.Pull) int { return a.Compare(b.Ref) })
	for _, x := range tr.runs {
		s.Sessions = append(s.Sessions, x.Session)
	}
	slices.SortFunc(s.Sessions, func(a, b threads.Session) int { return cmp.Compare(a.RunID, b.RunID) })
	return s
}

// caches tells what the memories of servers have room for.
func (tr *trial) caches() map[string]threads.ServerCache {
	caches := make(map[string]threads.ServerCache, len(tr.memories))
	for name, m := range tr.memories {
		caches[name] = threads.ServerCache{Tokens: m.room}
	}
	return caches
}

func pinned(login string) []string {
	if login == "" {
		return nil
	}
	return []string{login}
}

// decide is a tick, which starts what is theirs to start. It returns when time alone changes the plan.
func (tr *trial) decide(theirs func(threads.Start) bool) (wake time.Time) {
	tr.decided++
	plan := threads.Decide(tr.snapshot(false))
	tr.looked(&plan)
	for _, st := range plan.Stops {
		tr.stop(&st)
	}
	for _, m := range plan.Merges {
		tr.mergeSoon(m.Ref)
	}
	for i := range plan.Marks {
		tr.mark(&plan.Marks[i])
	}
	for _, s := range plan.Starts {
		if theirs(s) && tr.mayProbe(s.Thread) {
			tr.start(s)
		}
	}
	if wake = plan.NextWake; !wake.IsZero() && tr.Policy.Poll == 0 {
		tr.tickIn(max(wake.Sub(tr.now), wakeFloor))
	}
	return wake
}

// wakeFloor is the shortest time to a tick that only the clock asks for.
const wakeFloor = time.Second

// push is a cycle of the hub: it assigns each issue to the agent with the skills and the shortest queue, in which a
// running session counts for five issues.
func (tr *trial) push() {
	queue := slices.DeleteFunc(slices.Clone(tr.issues), func(t *trialIssue) bool { return !t.hidden })
	slices.SortStableFunc(queue, func(a, b *trialIssue) int { return a.Work.Priority - b.Work.Priority })
	for _, t := range queue {
		best, least := "", 0
		for i := range tr.Config.Agents {
			if a := &tr.Config.Agents[i]; tr.able(a, t) {
				if n := tr.queued(a.Name); best == "" || n < least {
					best, least = a.Name, n
				}
			}
		}
		if best != "" {
			t.hidden = false
			tr.assign(t, cmp.Or(t.Pin, best))
		}
	}
}

// able reports whether an agent writes, and has the skills for an issue.
func (tr *trial) able(a *agents.Agent, t *trialIssue) bool {
	writes := slices.ContainsFunc(a.Roles, func(name string) bool {
		r := tr.Config.Role(name)
		return r != nil && r.On == agents.OnIssue && r.Label == ""
	})
	return writes && !slices.ContainsFunc(t.Skills, func(s string) bool { return !slices.Contains(a.Skills, s) })
}

func (tr *trial) queued(agent string) int {
	n := 0
	for _, t := range tr.issues {
		if !t.Closed && t.pull == nil && t.running == 0 && slices.Contains(t.Assignees, agent) {
			n++
		}
	}
	for _, x := range tr.runs {
		if x.Agent == agent {
			n += 5
		}
	}
	return n
}

func (tr *trial) assign(t *trialIssue, agent string) {
	tr.assignTo(t, pinned(tr.Config.Agent(agent).Login))
	tr.change()
}

// steal is a cycle of the rebalancer.
func (tr *trial) steal() {
	pinned := func(t *trialIssue) bool { return len(t.Assignees) > 0 && !t.Closed && t.running == 0 }
	if (tr.Quiet || tr.Model != nil) && !slices.ContainsFunc(tr.issues, pinned) {
		return
	}
	moves := threads.Rebalance(tr.snapshot(true))
	if tr.Policy.Deaf {
		tr.seen.Unheard += len(moves)
		return
	}
	for _, m := range moves {
		t := tr.issue(m.Ref)
		tr.label(t, forge.LabelStolen, "")
		tr.assign(t, m.To)
		tr.seen.Moves++
	}
}

// settle records, after each moment, which agents are idle beside work: those that Decide would start now if it knew
// of all work.
func (tr *trial) settle() {
	if n := len(tr.queue); n > 0 && tr.queue[n-1].at.Equal(tr.now) {
		return // the moment is not over
	}
	if !tr.moved || tr.Quiet {
		return
	}
	tr.moved = false
	plan := threads.Decide(tr.truth())
	could := make(map[string]bool)
	for i := range plan.Starts {
		could[plan.Starts[i].Agent] = true
	}
	for _, x := range tr.runs {
		if x.State == threads.Reserved && !x.over {
			could[x.Agent] = true
		}
	}
	for i := range tr.Config.Agents {
		name := tr.Config.Agents[i].Name
		since, noted := tr.gaps[name]
		switch {
		case could[name] && !noted:
			tr.gaps[name] = tr.now
		case !could[name] && noted:
			tr.seen.gaps = append(tr.seen.gaps, tr.now.Sub(since))
			delete(tr.gaps, name)
		}
	}
}
