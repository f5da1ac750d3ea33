package sim

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Forecast continues a real factory from a moment: its open issues and pull requests, its running sessions, and its
// ledger. A model draws everything that comes later. NewForecast makes one. Run plays it once with a seed, and is
// safe for concurrent use.
type Forecast struct {
	start   threads.Snapshot
	model   *Model
	queue   []forge.Ref       // waiting items, in the order of their starts
	places  map[forge.Ref]int // in the queue, from 1
	issues  []trialIssue      // as they are at the start, by age
	at      map[forge.Ref]int // index in issues, of issues and of their pull requests
	waiters map[forge.Ref][]int
	groups  map[alike]int
	holds   map[forge.Ref]threads.Code // codes of the items that wait at the start
}

// Ask is the extent of one run of a forecast.
type Ask struct {
	Refs      []forge.Ref   // the run ends when all of them are merged or closed, and Starts is reached
	Starts    int           // number of queued issues that must have started; without Refs and Starts: horizon
	Horizon   time.Duration // 0: usualHorizon
	Decisions int           // the run ends after this many plans in any case; 0: no limit
}

// usualHorizon is the length of a run without another limit.
const usualHorizon = 14 * 24 * time.Hour

// Outcome is the result of one run of a forecast.
type Outcome struct {
	Fates     []Fate      // of each issue and pull request that was open at the start, sorted by reference
	Starts    []time.Time // starts of issues that waited at the start, in order
	Report                // of everything that happened
	Until     time.Time
	Decisions int // number of plans
}

// Fate is the future of an issue, or of a pull request without an issue.
type Fate struct {
	Ref    forge.Ref
	Start  time.Time    // start of its running session, else of the next one; zero: none in the run
	Merged time.Time    // or closed; zero: not in the run
	Code   threads.Code // why it waited at the start; empty if it did not
}

// Fate returns the fate of an issue or pull request, or nil if it was not open at the start.
func (o *Outcome) Fate(ref forge.Ref) *Fate {
	i, known := slices.BinarySearchFunc(o.Fates, ref, func(f Fate, r forge.Ref) int { return f.Ref.Compare(r) })
	if !known {
		return nil
	}
	return &o.Fates[i]
}

// NewForecast prepares forecasts from a snapshot with a configuration, and does not change it. It copies the part of
// the history that it needs, so the owner may change the history. Facts, sessions and configuration must not change
// until the last Run has returned.
func NewForecast(s threads.Snapshot, m *Model) *Forecast {
	f := &Forecast{
		start: s, model: m, places: make(map[forge.Ref]int), at: make(map[forge.Ref]int),
		waiters: make(map[forge.Ref][]int), holds: make(map[forge.Ref]threads.Code),
	}
	plan := threads.Decide(s)
	for i := range plan.Starts {
		f.queue = append(f.queue, plan.Starts[i].Item.Ref)
	}
	for _, h := range plan.Holds {
		f.queue = append(f.queue, h.Ref)
	}
	for i, ref := range f.queue {
		f.places[ref] = i + 1
	}
	for _, h := range slices.Concat(plan.Holds, plan.Unqueued) {
		f.holds[h.Ref] = h.Reason.Code
	}
	for i := range s.Facts.Issues {
		if is := &s.Facts.Issues[i]; !is.Closed {
			f.issues = append(f.issues, trialIssue{Issue: *is, Work: Work{Priority: forge.Priority(is.Labels), drawn: true}})
		}
	}
	for i := range s.Facts.Pulls {
		if p := &s.Facts.Pulls[i]; !p.Closed {
			f.addPull(p)
		}
	}
	slices.SortStableFunc(f.issues, func(a, b trialIssue) int { return a.Created.Compare(b.Created) })
	groups := trial{groups: make(map[alike]int)}
	for i := range f.issues {
		f.index(i)
		groups.regroup(&f.issues[i])
	}
	f.start = threads.Snapshot{
		Now: s.Now, Began: s.Began, Config: s.Config, Facts: s.Facts, Sessions: s.Sessions, Outages: s.Outages,
		History: f.history(),
	}
	f.groups = groups.groups
	return f
}

// addPull adds a pull request to its issue, or as an entry of its own.
func (f *Forecast) addPull(p *forge.Pull) {
	chain := threads.ChainOf(p)
	for i := range f.issues {
		if t := &f.issues[i]; t.Issue.Ref == chain && t.pull == nil {
			t.pull = p
			return
		}
	}
	f.issues = append(f.issues, trialIssue{
		bare: true, pull: p, Work: Work{Priority: forge.Priority(p.Labels), drawn: true},
		Issue: forge.Issue{Ref: p.Ref, Created: p.Created},
	})
}

// index adds an issue to the indexes, and counts its blockers.
func (f *Forecast) index(i int) {
	t := &f.issues[i]
	if f.at[t.Issue.Ref] = i; t.pull != nil {
		f.at[t.pull.Ref] = i
	}
	if t.bare {
		return
	}
	t.stuck = !t.Has(forge.LabelBacklog) && !t.Has(forge.LabelInProgress) || forge.SkipLabel(t.Labels) != ""
	for _, b := range t.Blockers {
		switch b.State {
		case forge.BlockerClosed:
		case forge.BlockerOpen:
			t.blocked++
			f.waiters[b.Ref] = append(f.waiters[b.Ref], i)
		default:
			t.stuck = true
		}
	}
}

// Run plays the forecast once.
func (f *Forecast) Run(seed uint64, ask Ask) Outcome {
	tr := newTrial(Trial{
		Config: f.start.Config, Policy: Ours, Seed: seed, Model: f.model, From: f.start.Now,
		Drain: cmp.Or(ask.Horizon, usualHorizon), Quiet: true,
	})
	tr.down = f.start.Outages
	f.settle(tr)
	tr.arrive()
	tr.open()
	tr.change()
	wanted := slices.Clone(ask.Refs)
	for tr.Next() && !tr.Now.After(tr.end) && (ask.Decisions == 0 || tr.decided < ask.Decisions) {
		wanted = slices.DeleteFunc(wanted, tr.isOver)
		some := len(ask.Refs) > 0 || ask.Starts > 0
		if some && len(wanted) == 0 && len(tr.starts) >= ask.Starts {
			break
		}
	}
	return f.outcome(tr)
}

// isOver reports whether an issue or pull request is merged or closed, or unknown.
func (tr *trial) isOver(ref forge.Ref) bool {
	t := tr.at[ref]
	return t == nil || !t.ended.IsZero()
}

// settle gives a trial the state of the factory.
func (f *Forecast) settle(tr *trial) {
	s := &f.start
	tr.books.History = f.history()
	maps.Copy(tr.groups, f.groups)
	tr.repos = slices.Clone(s.Facts.Repos)
	for i := range tr.repos {
		tr.repos[i].Branches = nil // nobody can forecast when a red branch is repaired
	}
	own := make([]trialIssue, len(f.issues))
	tr.waiters = make(map[forge.Ref][]*trialIssue, len(f.waiters))
	for i := range f.issues {
		t := &own[i]
		*t = f.issues[i]
		t.waited = t.pull == nil
		tr.numbered = max(tr.numbered, t.Number%pullNumber)
		if tr.at[t.Issue.Ref] = t; t.bare {
			t.Closed = true // there is no issue
		}
		if t.pull != nil {
			p := *t.pull
			t.pull = &p
			tr.at[p.Ref] = t
			tr.numbered = max(tr.numbered, p.Number%pullNumber)
			tr.pulls = append(tr.pulls, t)
			t.done, t.wrote = 1, 1
			tr.pickUp(t)
		}
		tr.issues = append(tr.issues, t)
	}
	for ref, list := range f.waiters {
		for _, i := range list {
			tr.waiters[ref] = append(tr.waiters[ref], &own[i])
		}
	}
	for i := range s.Sessions {
		x := &s.Sessions[i]
		if tr.Config.Thread(x.Thread) != nil && tr.Config.Agent(x.Agent) != nil { // else a reload dropped it
			tr.resume(x)
		}
	}
}

// pickUp continues a pull request: its pending checks report, an unknown mergeability is taken as clean, and people
// review and merge where agents do not.
func (tr *trial) pickUp(t *trialIssue) {
	p := t.pull
	if p.Mergeable == forge.MergeUnknown {
		p.Mergeable = forge.MergeClean
	}
	if p.CI == forge.CIPending {
		tr.check(t, false)
	}
	approved := slices.ContainsFunc(p.Reviews, func(r forge.Review) bool {
		return r.Verdict == forge.Approved && r.CommitSHA == p.HeadSHA && !r.Dismissed
	})
	switch {
	case approved && !tr.Config.Forge.MergeAuto:
		tr.later(t, func() {
			tr.merge(p.Ref)
			tr.outside()
		})
	case !approved:
		tr.invite(t)
	}
}

// history copies the part of the ledger's history that a trial changes.
func (f *Forecast) history() threads.History {
	h := f.start.History
	is := threads.NewHistory()
	for i := range f.issues {
		t := &f.issues[i]
		refs := []forge.Ref{t.Issue.Ref}
		if t.pull != nil {
			refs = append(refs, t.pull.Ref)
		}
		for _, ref := range refs {
			if c := copyEntry(is.Chains, h.Chains, ref); c != nil {
				ownChain(c)
			}
			copyEntry(is.Tolls, h.Tolls, ref)
			for _, k := range ledger.Keys(ref) {
				copyEntry(is.Items, h.Items, k)
			}
		}
	}
	for i := range f.start.Config.Roles {
		for _, r := range f.start.Facts.Repos {
			k := threads.Key{Kind: agents.KindSchedule, Ref: forge.Ref{Repo: r.Name}, Role: f.start.Config.Roles[i].Name}
			copyEntry(is.Items, h.Items, k)
		}
	}
	for name := range h.Agents {
		copyEntry(is.Agents, h.Agents, name)
	}
	for name := range h.Threads {
		t := copyEntry(is.Threads, h.Threads, name)
		t.Uses, t.Paces = slices.Clone(t.Uses), slices.Clone(t.Paces)
		t.Talks, t.Forgotten = slices.Clone(t.Talks), slices.Clone(t.Forgotten)
	}
	maps.Copy(is.Slots, h.Slots)
	maps.Copy(is.Paused, h.Paused)
	maps.Copy(is.Listens, h.Listens)
	for login := range h.Opened {
		copyEntry(is.Opened, h.Opened, login)
	}
	for name := range h.Repos {
		r := copyEntry(is.Repos, h.Repos, name)
		r.Turns, r.Barred = maps.Clone(r.Turns), maps.Clone(r.Barred)
	}
	for login, a := range h.Authors {
		is.Authors[login] = &threads.AuthorHistory{Reviews: maps.Clone(a.Reviews)}
	}
	return is
}

// copyEntry copies an entry if it exists, and returns the copy. The copy shares what it points to.
func copyEntry[K comparable, V any](to, from map[K]*V, k K) *V {
	v := from[k]
	if v == nil {
		return nil
	}
	own := *v
	to[k] = &own
	return &own
}

// ownChain gives a copied entry its own lists.
func ownChain(c *threads.ChainHistory) {
	c.Writers, c.Attempts, c.Approved = slices.Clone(c.Writers), slices.Clone(c.Attempts), slices.Clone(c.Approved)
	if c.Dialogue != nil {
		own := *c.Dialogue
		c.Dialogue = &own
	}
}

// resume continues a running session.
func (tr *trial) resume(s *threads.Session) {
	x := &trialRun{Session: *s, reserved: s.Started}
	tr.record(ledger.Record{Start: StartOf(&x.Session, tr.Config, threads.Key{})})
	o := tr.books.Open[x.RunID]
	o.At = s.Started
	tr.books.Open[x.RunID] = o
	tr.runs = append(tr.runs, x)
	x.span = len(tr.seen.Spans)
	tr.seen.Spans = append(tr.seen.Spans, Span{
		Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Kind: string(s.Item.Kind), Chain: s.Item.Chain.Number,
	})
	if s.Item.Kind != agents.KindSchedule {
		if x.issue = tr.issue(s.Item.Ref); x.issue == nil {
			x.issue = tr.issue(s.Item.Chain)
		}
	}
	x.State = threads.Running
	sofar := max(0, tr.Now.Sub(s.Started))
	x.how = tr.step(x, sofar)
	if t := x.issue; t != nil {
		t.first = s.Started
	}
	if t := x.issue; t != nil && x.Item.Kind.Writes() {
		t.running++
		t.begun = earlier(s.Started, tr.Now)
	}
	x.takes = x.how.Took
	tr.After(max(0, x.how.Took-sofar), func() { tr.ended(x) })
}

// arrive files issues at the rate of the model.
func (tr *trial) arrive() {
	m := tr.Model
	if m == nil || m.perHour <= 0 || len(m.filed) == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(tr.Seed, 5))
	var next func()
	wait := func() {
		tr.After(time.Duration(rng.ExpFloat64()/m.perHour*float64(time.Hour)), next)
	}
	next = func() {
		w := m.filed[rng.IntN(len(m.filed))]
		w.drawn = true
		w.fit(tr.Config)
		tr.file(&w)
		wait()
	}
	wait()
}

// chain returns the issue of a pull request, and any other reference unchanged.
func (f *Forecast) chain(ref forge.Ref) forge.Ref {
	if i, known := f.at[ref]; known {
		return f.issues[i].Issue.Ref
	}
	return ref
}

// code returns why an issue waits at the start. An issue with a pull request has the pull request's reason.
func (f *Forecast) code(ref forge.Ref) threads.Code {
	if i, known := f.at[ref]; known && f.issues[i].pull != nil {
		ref = f.issues[i].pull.Ref
	}
	return f.holds[ref]
}

// outcome returns the fates of everything that was open at the start.
func (f *Forecast) outcome(tr *trial) Outcome {
	o := Outcome{Until: tr.Now, Decisions: tr.decided, Starts: tr.starts}
	for _, t := range tr.issues[:len(f.issues)] {
		o.Fates = append(o.Fates, Fate{Ref: t.Issue.Ref, Merged: t.ended, Start: t.first, Code: f.code(t.Issue.Ref)})
	}
	slices.SortFunc(o.Fates, func(a, b Fate) int { return a.Ref.Compare(b.Ref) })
	tr.left = 0
	o.Report = tr.report()
	return o
}
