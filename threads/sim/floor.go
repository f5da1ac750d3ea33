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
)

// Trial is one factory with one load under one policy.
type Trial struct {
	Config *threads.Config
	Load   Load
	Policy Policy
	Cache  Cache
	Seed   uint64        // of the moments at which polls and cycles begin
	Limit  time.Duration // nothing is filed after it; 0 means that all of the load is
}

// drain is how long after the last issue was filed a trial goes on at most. What is not done by then never will be.
const drain = 60 * 24 * time.Hour

// Run plays a trial to its end. Unlike the worlds of Play nothing goes wrong in it: it is about time, not about faults.
func (t Trial) Run() Report {
	f := newFloor(t)
	f.open()
	for !f.finished() && f.next() {
		f.settle()
	}
	return f.report()
}

// floor is a factory at work.
type floor struct {
	Trial
	timeline
	real    *threads.Config // Config is as the policy sees it
	eager   *threads.Config // the same, with no slot kept for anybody
	rng     *rand.Rand
	tickets []*ticket // of every issue, by number
	pulls   []*ticket // those with a pull request, by its number
	shifts  []*shift  // what runs
	history threads.History
	repos   []forge.Repo
	server  map[string]*llama // of local threads whose slots are nobody's
	ticking bool
	moved   bool // something is no longer as settle saw it
	changes int
	gaps    map[string]time.Time // idle agents beside work for them, since when
	end     time.Time            // after which trials are given up
	left    int                  // issues that are not done
	seen    Report
}

// ticket is an issue on its way.
type ticket struct {
	Work
	forge.Issue
	hidden  bool   // at the hub
	tags    string // its labels in one
	running int    // writing sessions on it right now
	done    int    // writing sessions
	pull    *forge.Pull
	begun   time.Time // its first session; zero before
	context int64     // tokens that its sessions have read and written so far
}

func (t *ticket) label(add, remove string) {
	t.Labels = with(without(t.Labels, remove), add)
	t.tags = strings.Join(t.Labels, " ")
}

// shift is a session.
type shift struct {
	threads.Session
	ticket *ticket // nil for scheduled work
	span   int     // in the report
}

func newFloor(t Trial) *floor {
	cfg := *t.Config
	if !t.Policy.Bound {
		cfg.Threads = slices.Clone(cfg.Threads)
		for i := range cfg.Threads {
			th := &cfg.Threads[i]
			if !th.Overlap { // nobody keeps agents from starting beside each other
				th.Overlap, th.MaxSessions = true, len(th.Agents)
			}
		}
	}
	t.Cache = t.Cache.filled()
	f := &floor{
		Trial: t, real: t.Config, timeline: timeline{now: epoch}, rng: rand.New(rand.NewPCG(t.Seed, 3)),
		server: make(map[string]*llama), gaps: make(map[string]time.Time),
		history: threads.NewHistory(),
	}
	for i := range t.Config.Threads {
		if th := &t.Config.Threads[i]; !th.Overlap && !t.Policy.Bound {
			f.server[th.Name] = newLlama(f, th.Slots)
		}
	}
	f.Config, f.eager = &cfg, eager(&cfg)
	f.seen.Policy, f.seen.bound = t.Policy.Name, make(map[string]bool)
	for i := range cfg.Threads {
		f.seen.bound[cfg.Threads[i].Name] = !cfg.Threads[i].Overlap
	}
	for _, name := range cfg.Forge.Repos {
		f.repos = append(f.repos, forge.Repo{Name: name})
	}
	for i := range cfg.Agents {
		threads.Entry(f.history.Agents, cfg.Agents[i].Name).IdleSince = epoch
	}
	return f
}

// eager is a configuration that keeps no slot for anybody.
func eager(cfg *threads.Config) *threads.Config {
	other := *cfg
	other.Threads = slices.Clone(cfg.Threads)
	for i := range other.Threads {
		other.Threads[i].Hold = 0
	}
	return &other
}

// open posts all that comes from outside: issues, polls and cycles.
func (f *floor) open() {
	if f.Limit > 0 {
		f.Load = slices.DeleteFunc(slices.Clone(f.Load), func(w Work) bool { return w.At >= f.Limit })
	}
	f.left = len(f.Load)
	f.end = epoch.Add(drain)
	for i := range f.Load {
		w := &f.Load[i]
		f.after(w.At, func() { f.file(w) })
		f.end = epoch.Add(drain + w.At)
	}
	p := &f.Policy
	f.every(p.Push, f.push)
	f.every(p.Steal, f.steal)
	switch {
	case p.Poll == 0:
		f.change()
	case p.Together:
		f.every(p.Poll, f.poller("", func(threads.Start) bool { return true }))
	default:
		for i := range f.Config.Agents {
			name := f.Config.Agents[i].Name
			f.every(p.Poll, f.poller(name, func(s threads.Start) bool { return s.Agent == name }))
		}
	}
}

// poller looks for work for an agent, or for all, unless it is busy, or nothing has changed since it looked last.
func (f *floor) poller(agent string, theirs func(threads.Start) bool) func() {
	seen, wake := -1, time.Time{}
	return func() {
		busy := slices.ContainsFunc(f.shifts, func(x *shift) bool { return x.Agent == agent })
		if busy || seen == f.changes && (wake.IsZero() || f.now.Before(wake)) {
			return
		}
		seen = f.changes
		wake = f.decide(theirs)
	}
}

// every calls back from some moment in the first period on.
func (f *floor) every(period time.Duration, do func()) {
	if period == 0 {
		return
	}
	var again func()
	again = func() {
		do()
		f.after(period, again)
	}
	f.after(time.Duration(f.rng.Int64N(int64(period))), again)
}

// change is something that a policy may notice.
func (f *floor) change() {
	f.moved = true
	f.changes++
	if f.Policy.Poll == 0 && !f.ticking {
		f.ticking = true
		f.after(f.Policy.Latency, func() {
			f.ticking = false
			f.decide(func(threads.Start) bool { return true })
		})
	}
}

func (f *floor) finished() bool { return f.left == 0 && len(f.shifts) == 0 || f.now.After(f.end) }

// snapshot is what the policy shows to the scheduler; whole shows every issue that waits. Otherwise, of those that are alike
// in all that decides who may take them, the oldest are enough: no more can start than there are agents.
func (f *floor) snapshot(whole bool) threads.Snapshot {
	return f.look(func(t *ticket) []string { return t.Assignees }, !whole, false)
}

// truth is what there really is to do, whatever the policy hides and has assigned to whom.
func (f *floor) truth() threads.Snapshot {
	s := f.look(func(t *ticket) []string {
		if t.running > 0 {
			return t.Assignees
		}
		return pinned(t.Pin)
	}, true, true)
	s.Config = f.eager
	return s
}

// alike are the labels and the assignee of an issue.
type alike struct{ labels, who string }

func (f *floor) look(assignees func(*ticket) []string, brief, hidden bool) threads.Snapshot {
	s := threads.Snapshot{Now: f.now, Config: f.Config, History: f.history}
	for _, r := range f.repos {
		r.AsOf = f.now
		s.Facts.Repos = append(s.Facts.Repos, r)
	}
	seen := make(map[alike]int)
	for _, t := range f.tickets {
		if t.Closed || t.hidden && !hidden {
			continue
		}
		is := t.Issue
		is.Assignees = assignees(t)
		if waits := t.running == 0 && t.pull == nil; brief && waits {
			k := alike{t.tags, strings.Join(is.Assignees, " ")}
			if seen[k]++; seen[k] > len(f.Config.Agents) {
				continue
			}
		}
		s.Facts.Issues = append(s.Facts.Issues, is)
	}
	for _, t := range f.pulls {
		s.Facts.Pulls = append(s.Facts.Pulls, *t.pull)
	}
	slices.SortFunc(s.Facts.Repos, func(a, b forge.Repo) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Facts.Issues, func(a, b forge.Issue) int { return a.Compare(b.Ref) })
	slices.SortFunc(s.Facts.Pulls, func(a, b forge.Pull) int { return a.Compare(b.Ref) })
	for _, x := range f.shifts {
		s.Sessions = append(s.Sessions, x.Session)
	}
	return s
}

func pinned(login string) []string {
	if login == "" {
		return nil
	}
	return []string{login}
}

// decide is a tick of whoever looks, and starts what is theirs to start. It returns when time alone changes the plan.
func (f *floor) decide(theirs func(threads.Start) bool) (wake time.Time) {
	plan := threads.Decide(f.snapshot(false))
	for _, m := range plan.Merges {
		f.merge(m.Ref)
	}
	for _, m := range plan.Marks {
		switch m.Action {
		case threads.ActRoute:
			f.assign(f.ticket(m.Ref), m.Agent)
		case threads.ActNeedsHuman: // a person looks at so many rounds, and sends it back
			threads.Entry(f.history.Chains, m.Ref).Asked += m.Reason.Count
			f.change()
		}
	}
	for _, s := range plan.Starts {
		if theirs(s) {
			f.start(s)
		}
	}
	if wake = plan.NextWake; !wake.IsZero() && f.Policy.Poll == 0 {
		f.after(wake.Sub(f.now), f.change)
	}
	return wake
}

// push is a cycle of the hub: it assigns by skills, to whoever has the least, an active session counting for five.
func (f *floor) push() {
	queue := slices.DeleteFunc(slices.Clone(f.tickets), func(t *ticket) bool { return !t.hidden })
	slices.SortStableFunc(queue, func(a, b *ticket) int { return a.Work.Priority - b.Work.Priority })
	for _, t := range queue {
		best, least := "", 0
		for i := range f.Config.Agents {
			if a := &f.Config.Agents[i]; f.able(a, t) {
				if n := f.queued(a.Name); best == "" || n < least {
					best, least = a.Name, n
				}
			}
		}
		if best != "" {
			t.hidden = false
			f.assign(t, cmp.Or(t.Pin, best))
		}
	}
}

// able reports whether an agent has the skills for an issue, and writes at all.
func (f *floor) able(a *agents.Agent, t *ticket) bool {
	writes := slices.ContainsFunc(a.Roles, func(name string) bool {
		r := f.Config.Role(name)
		return r != nil && r.On == agents.OnIssue && r.Label == ""
	})
	return writes && !slices.ContainsFunc(t.Skills, func(s string) bool { return !slices.Contains(a.Skills, s) })
}

func (f *floor) queued(agent string) int {
	n := 0
	for _, t := range f.tickets {
		if !t.Closed && t.pull == nil && t.running == 0 && slices.Contains(t.Assignees, agent) {
			n++
		}
	}
	for _, x := range f.shifts {
		if x.Agent == agent {
			n += 5
		}
	}
	return n
}

func (f *floor) assign(t *ticket, agent string) {
	t.Assignees = pinned(f.Config.Agent(agent).Login)
	f.change()
}

// steal is a cycle of the rebalancer.
func (f *floor) steal() {
	moves := threads.Rebalance(f.snapshot(true))
	if f.Policy.Deaf {
		f.seen.Unheard += len(moves)
		return
	}
	for _, m := range moves {
		t := f.ticket(m.Ref)
		t.label(forge.LabelStolen, "")
		f.assign(t, m.To)
		f.seen.Moves++
	}
}

// settle notes, after each moment, who is idle beside work that they could do: whom Decide would start if it were asked now
// about all there is.
func (f *floor) settle() {
	if n := len(f.queue); n > 0 && f.queue[n-1].at.Equal(f.now) {
		return // the moment is not over
	}
	if !f.moved {
		return
	}
	f.moved = false
	plan := threads.Decide(f.truth())
	could := make(map[string]bool)
	for i := range plan.Starts {
		could[plan.Starts[i].Agent] = true
	}
	for _, x := range f.shifts {
		if x.State == threads.Reserved {
			could[x.Agent] = true
		}
	}
	for i := range f.Config.Agents {
		name := f.Config.Agents[i].Name
		since, noted := f.gaps[name]
		switch {
		case could[name] && !noted:
			f.gaps[name] = f.now
		case !could[name] && noted:
			f.seen.gaps = append(f.seen.gaps, f.now.Sub(since))
			delete(f.gaps, name)
		}
	}
}
