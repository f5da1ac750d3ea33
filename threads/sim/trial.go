// Package sim plays factories in virtual time, to compare policies and configurations and to forecast.
//
// A Trial (trial.go) plays one factory with one load under one policy. Its Report says how long agents were idle while
// work waited, how long issues waited, what was used, and how much context was read again. Nothing fails in a trial
// except what its load, model and outages contain.
//
// A Model (model.go) learns from a journal how long sessions, checks, merges and people take, and how sessions end.
// It answers two questions. All runs with one seed draw the same samples, so their differences come from the
// configurations. Several seeds show how sure an answer is:
//
//	m := sim.Learn(sim.Journal{Past: past, Timeline: timeline})
//
//	// When will it be done? Many short runs from now; the quantiles of their fates are the band.
//	f := sim.NewForecast(snapshot, m)
//	fate := f.Run(seed, sim.Ask{Refs: []forge.Ref{ref}}).Fate(ref) // Start, Merged, Code
//
//	// What would these days have been with another configuration? Replay the real sessions under another plan.
//	t := sim.Replay(journal, config, 24*time.Hour)
//	t.Policy, t.Seed = sim.Ours, seed
//	was := t.Run() // Merged, First (waits), Turn, Tokens, CostUSD
//	t.Config = other
//	is := t.Run()
//
// The same seed plays the same way on every machine: nothing here reads a clock, starts a goroutine or depends on the
// order of a map.
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

// epoch is the start of a trial that names none.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Trial is one factory with one load under one policy.
type Trial struct {
	Config *threads.Config
	Load   Load
	Policy Policy
	Cache  Cache
	Seed   uint64 // of all random draws
	// Scheduled has the length of a session of each scheduled role. The default is scheduledTime.
	Scheduled map[string]time.Duration
	// Uses has the usage of a session, by thread and kind. The usage of others is unknown.
	Uses map[Line]agents.Usage
	// Model has the delays, and the course of sessions that no Work describes. Nil: only sessions take time, people act
	// at once, and every change of the forge is noticed at once.
	Model   *Model
	Outages []Outage
	From    time.Time // time of its start; zero: some midnight
	Engine  bool      // sessions run elsewhere, with the delays of a real engine
	// Drain is how long the trial continues after the last filing. 0 is long enough for everything that can be done.
	Drain time.Duration
	Quiet bool // does not measure idle agents while work waits, which takes half of the time
	// Enough is called at every moment, and ends the trial if it returns true. The report is then of no use. May be nil.
	Enough func() bool
}

// Line is one kind of work on a thread.
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
	for !tr.finished() && tr.Next() {
		if t.Enough != nil && t.Enough() {
			break
		}
		tr.settle()
	}
	return tr.report()
}

// trial is a Trial that is being played.
type trial struct {
	Trial
	Timeline
	real   *threads.Config // Config is as the policy sees it
	eager  *threads.Config // Config without hold
	rng    *rand.Rand
	issues []*trialIssue // every issue, by number
	pulls  []*trialIssue // those with an open pull request
	runs   []*trialRun   // running sessions
	books  *ledger.State
	repos  []forge.Repo
	server map[string]*llama // by local threads without bound slots
	// memories has the servers' memories, by local threads whose servers keep conversations there.
	memories map[string]*memory
	held     map[string]serverSlots // of the other local threads with bound slots
	moved    bool                   // something has changed since settle
	changes  int
	origin   time.Time
	tickAt   time.Time // time of the next tick; zero if none is due
	lookers  []looker  // of each thread
	active   bool      // the last tick found work
	drawn    int       // draws so far
	merging  map[string]bool
	at       map[forge.Ref]*trialIssue // by issue and by pull request
	groups   map[alike]int
	metered  bool                        // the configuration limits usage
	decided  int                         // plans so far
	numbered int64                       // issues so far
	starts   []time.Time                 // starts of issues that waited when the trial began
	waiters  map[forge.Ref][]*trialIssue // by the issue that they wait for
	down     map[string]threads.Outage   // services that are down for the whole trial
	gaps     map[string]time.Time        // since when agents are idle while work waits for them
	end      time.Time                   // time after which the trial stops
	left     int                         // undone issues
	seen     Report
}

// trialIssue is an issue of the load, from its filing to its end.
type trialIssue struct {
	Work
	forge.Issue
	hidden  bool // not assigned by the hub yet
	stuck   bool // it waits for something that no trial plays
	blocked int  // open issues that it waits for
	bare    bool // only the pull request exists
	group   int  // group of issues that the same agents may take
	running int  // writing sessions on it right now
	done    int  // writing sessions that succeeded
	wrote   int  // writing sessions that ended by themselves
	looked  int
	pull    *forge.Pull
	begun   time.Time // start of its first session; zero before
	first   time.Time // start of its first session in the trial
	waited  bool      // waited for its first session when the trial began
	ended   time.Time // when it was closed
	merged  bool
	asked   int   // how often people were asked
	context int64 // tokens that its sessions have read and written so far
}

// label changes an issue's labels, and assignTo its assignees. Both decide which agents may take it.
func (tr *trial) label(t *trialIssue, add, remove string) {
	t.Labels = With(Without(t.Labels, remove), add)
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

// trialRun is a session from its start to its end.
type trialRun struct {
	threads.Session
	issue    *trialIssue // nil for scheduled work
	span     int         // index in the report
	how      Step        // its course
	cut      *Outage     // the outage that ends it
	over     bool
	takes    time.Duration // length of its program
	reserved time.Time
	stopped  threads.Code // why we ended it
}

func newTrial(t Trial) *trial {
	cfg := *t.Config
	cfg.Roles = slices.Clone(cfg.Roles)
	for i := range cfg.Roles {
		cfg.Roles[i].Plan = cfg.Roles[i].Plan && t.Model != nil // without a model, people's reaction times are unknown
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
	tr.Now = tr.origin
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

// record applies a journal record, like the supervisor.
func (tr *trial) record(r ledger.Record) {
	r.At = tr.Now
	tr.books.Apply(r)
}

// eager returns the configuration without hold.
func eager(cfg *threads.Config) *threads.Config {
	other := *cfg
	other.Threads = slices.Clone(cfg.Threads)
	for i := range other.Threads {
		other.Threads[i].Hold = 0
	}
	return &other
}

// open schedules everything from outside: issues, outages, polls and cycles.
func (tr *trial) open() {
	tr.left = len(tr.Load)
	after := cmp.Or(tr.Drain, drain)
	tr.end = tr.origin.Add(after)
	for i := range tr.Load {
		w := &tr.Load[i]
		tr.After(w.At, func() { tr.file(w) })
		tr.end = tr.origin.Add(after + w.At)
	}
	p := &tr.Policy
	if tr.Model != nil {
		since := tr.rng.Float64() // the threads started to look at the same time
		for i := range tr.lookers {
			tr.lookers[i].next = tr.Now.Add(time.Duration(since * float64(tr.interval(i))))
		}
	}
	tr.every(p.Push, tr.push)
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

// poller returns the poll of an agent, or of all if agent is empty. It does nothing while the agent works, or if
// nothing has changed since the last poll.
func (tr *trial) poller(agent string, theirs func(threads.Start) bool) func() {
	seen, wake := -1, time.Time{}
	return func() {
		busy := slices.ContainsFunc(tr.runs, func(x *trialRun) bool { return x.Agent == agent })
		if busy || seen == tr.changes && (wake.IsZero() || tr.Now.Before(wake)) {
			return
		}
		seen = tr.changes
		wake = tr.decide(theirs)
	}
}

// every calls do once per period, starting at a random moment of the first one.
func (tr *trial) every(period time.Duration, do func()) {
	if period == 0 {
		return
	}
	var again func()
	again = func() {
		do()
		tr.After(period, again)
	}
	tr.After(time.Duration(tr.rng.Int64N(int64(period))), again)
}

func (tr *trial) finished() bool { return tr.left == 0 && len(tr.runs) == 0 || tr.Now.After(tr.end) }

func pinned(login string) []string {
	if login == "" {
		return nil
	}
	return []string{login}
}

// decide is a tick. theirs selects the starts to carry out. It returns when time alone changes the plan.
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
		tr.tickIn(max(wake.Sub(tr.Now), wakeFloor))
	}
	return wake
}

// wakeFloor is the shortest time to a tick that only NextWake asks for.
const wakeFloor = time.Second

// push is a cycle of the hub. It assigns each issue to the agent with its skills and the shortest queue, in which a
// running session counts as five issues.
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
		return r != nil && r.On.Does(agents.KindIssue) && r.Label == ""
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
	for _, m := range threads.Rebalance(tr.snapshot(true)) {
		t := tr.issue(m.Ref)
		tr.label(t, forge.LabelStolen, "")
		tr.assign(t, m.To)
		tr.seen.Moves++
	}
}

// settle records, after each moment, which agents are idle although Decide would start them if it knew all work.
func (tr *trial) settle() {
	if n := len(tr.queue); n > 0 && tr.queue[n-1].at.Equal(tr.Now) {
		return // more events follow at this moment
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
			tr.gaps[name] = tr.Now
		case !could[name] && noted:
			tr.seen.gaps = append(tr.seen.gaps, tr.Now.Sub(since))
			delete(tr.gaps, name)
		}
	}
}
