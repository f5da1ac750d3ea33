package supervisor

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// document returns the state's part of the status. The supervisor adds program, problems, requests and output.
func (st *state) document(now time.Time, room *threads.Room) *control.Document {
	st.mu.Lock()
	defer st.mu.Unlock()
	d := st.summaryLocked(now)
	d.Recent = append(d.Recent, st.ledger.Recent...)
	merges := st.ledger.Merges
	for len(merges) > 0 && len(d.Merges) < control.MergesLimit && now.Sub(merges[len(merges)-1].When) < 24*time.Hour {
		d.Merges, merges = append(d.Merges, merges[len(merges)-1]), merges[:len(merges)-1]
	}
	d.Today = st.todayLocked(now)
	d.Sessions = st.showAllLocked()
	d.Queue, d.Unqueued = st.queueLocked(st.presentLocked(now, room))
	return d
}

// todayLocked counts back from the newest session and merge to midnight.
func (st *state) todayLocked(now time.Time) (d control.TodayDocument) {
	midnight := now.UTC().Truncate(24 * time.Hour)
	for i := len(st.ledger.Past) - 1; i >= 0 && !st.ledger.Past[i].End.Before(midnight); i-- {
		d.Sessions++
		if st.ledger.Past[i].Outcome.Wasted() {
			d.Failed++
		}
	}
	for i := len(st.ledger.Merges) - 1; i >= 0 && !st.ledger.Merges[i].When.Before(midnight); i-- {
		d.Merged++
	}
	return d
}

// summaryLocked returns the document without sessions, queue and ended sessions.
func (st *state) summaryLocked(now time.Time) *control.Document {
	d := &control.Document{
		StartedAt: st.life.started, Upgrades: st.life.upgrades, UpgradedAt: st.life.upgraded,
		Config:  control.ConfigDocument{Generation: st.generation, Error: text(st.cfgErr)},
		Threads: []control.ThreadDocument{}, Agents: []control.AgentDocument{}, Sessions: []control.SessionDocument{},
		Repos: []control.RepoDocument{}, Recent: []control.RecentDocument{},
	}
	d.PauseNote, d.Paused = st.ledger.Paused[threads.Pause{}]
	d.Drain = st.drainLocked()
	if st.cfg == nil {
		return d
	}
	d.Forge = st.forgeLocked(now)
	st.crewLocked(d, now)
	return d
}

// crewLocked adds threads, agents and repositories. It goes through the sessions and the past once: with 1,000 threads
// and sessions, once for each took 100 ms under the lock, every second.
func (st *state) crewLocked(d *control.Document, now time.Time) {
	onThread, onAgent, inRepo := make(map[string][]*session), make(map[string]bool), make(map[string]int)
	for _, x := range st.sessions {
		onThread[x.Thread], onAgent[x.Agent] = append(onThread[x.Thread], x), true
		inRepo[x.Item.Ref.Repo]++
	}
	parked, caches, cold := st.parkedLocked(now), st.cachesLocked(), st.coldLocked()
	byAgent, byThread := st.hitsLocked(now)
	for i := range st.cfg.Threads {
		of := &st.cfg.Threads[i]
		t := st.threadLocked(of, parked[of.Name], of.InMemory(caches[of.Name]), onThread[of.Name], now)
		t.Spent.CacheHit, t.Cold = byThread.of(t.Name), cold[t.Name]
		d.Threads = append(d.Threads, t)
	}
	for i := range st.cfg.Agents {
		a := st.agentLocked(&st.cfg.Agents[i], onAgent[st.cfg.Agents[i].Name], now)
		a.Spent.CacheHit = byAgent.of(a.Name)
		d.Agents = append(d.Agents, a)
	}
	for _, name := range st.cfg.Forge.Repos {
		d.Repos = append(d.Repos, st.repoLocked(name, inRepo[name], now))
	}
}

func (st *state) forgeLocked(now time.Time) control.ForgeDocument {
	d := control.ForgeDocument{
		URL: st.cfg.Forge.URL, OK: st.read.err == nil && st.read.notReady == nil && !st.read.good.IsZero(),
		Error: text(errors.Join(st.read.err, st.read.notReady)), LastScan: st.read.good,
	}
	if d.OK && len(st.cfg.Threads) > 0 {
		active := st.activeLocked()
		rest := st.delayLocked(&st.cfg.Threads[0], active, now)
		for i := range st.cfg.Threads {
			rest = min(rest, st.delayLocked(&st.cfg.Threads[i], active, now))
		}
		d.NextScan = d.LastScan.Add(rest)
	}
	return d
}

// threadLocked describes a thread with its sessions. parked is nil if it has no history.
func (st *state) threadLocked(
	t *threads.Thread, parked *threads.ThreadHistory, inMemory bool, sessions []*session, now time.Time,
) control.ThreadDocument {
	n := t.Slots
	for _, x := range sessions {
		n = max(n, x.Slot+1) // a slot that a reload removed stays until its session ends
	}
	d := control.ThreadDocument{
		Name: t.Name, Backend: t.Backend, Overlap: t.Overlap, Slots: make([]control.SlotDocument, n),
		Spent: spent(st.ledger.Thread(t.Name).Spent.Today(now), t.Budget),
	}
	for _, w := range t.Fill(st.ledger.Thread(t.Name), now) {
		d.Windows = append(d.Windows, control.WindowDocument{
			Length: w.Name(), Tokens: w.Used.Tokens, USD: w.Used.USD, MaxTokens: w.Tokens, MaxUSD: w.USD, Reserve: t.Reserve,
		})
	}
	d.PauseNote, d.Paused = st.pausedLocked(t.Name)
	if p := parked; p != nil && !p.ParkedUntil.IsZero() {
		d.ParkedUntil, d.ParkedAs, d.ParkedWhy = p.ParkedUntil, cmp.Or(p.ParkedAs, threads.ThreadPark), p.ParkedWhy
	}
	for i := range d.Slots {
		d.Slots[i] = control.SlotDocument{Index: i, Agents: []string{}}
		if !t.Overlap && !inMemory {
			d.Slots[i].Warm = st.ledger.Slots[threads.SlotKey{Thread: t.Name, Slot: i}].Agent
		}
	}
	for _, x := range sessions {
		d.Slots[x.Slot].Agents = append(d.Slots[x.Slot].Agents, x.Agent)
	}
	for i := range d.Slots {
		slices.Sort(d.Slots[i].Agents)
	}
	return d
}

func (st *state) agentLocked(a *agents.Agent, works bool, now time.Time) control.AgentDocument {
	known := st.ledger.Agent(a.Name)
	d := control.AgentDocument{
		Name: a.Name, Thread: a.Thread, Model: a.Model, State: control.AgentIdle, IdleSince: known.IdleSince,
		Done: known.Done, Failed: known.Failed, Spent: spent(known.Spent.Today(now), a.Budget), Skills: a.Skills,
	}
	_, d.Paused = st.ledger.Paused[threads.Pause{Agent: a.Name}]
	if len(a.Roles) > 0 {
		d.Role = a.Roles[0]
	}
	if code, why := st.heldWhyLocked(a, now); why != "" {
		d.State, d.Code, d.Why, d.NeedsPerson = control.AgentHeld, code, why, !d.Paused
	} else if why := st.ledger.FailingWhy(a, now); why != "" { // an alarm tells people
		d.State, d.Code, d.Why = control.AgentHeld, threads.AgentHeld, why
	}
	if works {
		d.State, d.Code, d.Why, d.IdleSince, d.NeedsPerson = control.AgentWorking, "", "", time.Time{}, false
	}
	return d
}

// heldWhyLocked returns why an agent can start nothing, whatever work there is; empty if it can.
func (st *state) heldWhyLocked(a *agents.Agent, now time.Time) (code threads.Code, why string) {
	known := st.ledger.Agent(a.Name)
	programs := slices.ContainsFunc(a.Roles, func(name string) bool {
		r := st.cfg.Role(name)
		return r != nil && len(r.Command) > 0
	})
	by, paused := st.ledger.Paused[threads.Pause{Agent: a.Name}]
	r := threads.Reason{Agent: a.Name}
	switch {
	case paused:
		r.Code, r.Note = threads.Paused, by.Words()
	case known.Held(now) || known.Rejected():
		return cmp.Or(known.HeldAs, threads.AgentHeld), known.HeldWhy
	case a.Token == "":
		r.Code, r.Note = threads.NoToken, agents.TokenVar(a.Name)
	case !programs && len(a.Roles) > 0:
		r.Code, r.Note = threads.NoProgram, a.Roles[0]
	default:
		return "", ""
	}
	return r.Code, r.Text()
}

// repoLocked describes a repository with a number of sessions.
func (st *state) repoLocked(name string, sessions int, now time.Time) control.RepoDocument {
	d, table := control.RepoDocument{Name: name, Sessions: sessions}, st.cfg.RepoTable(name)
	if table == nil {
		table = new(threads.Repo)
	}
	d.MaxSessions, d.Spent = table.MaxSessions, spent(st.ledger.Repo(name).Spent.Today(now), table.Budget)
	d.PauseNote, d.Paused = st.ledger.Paused[threads.Pause{Repo: name}]
	return d
}

// spent returns today's usage beside the budget.
func spent(today threads.Spent, b agents.Budget) control.SpentDocument {
	return control.SpentDocument{Tokens: today.Tokens, USD: today.USD, TokensPerDay: b.Tokens, USDPerDay: b.USD}
}

// queueLocked returns the items of a plan, with reasons: queue in its order, first what it starts and merges and no
// session works on yet, and as unqueued the open issues without the label backlog.
func (st *state) queueLocked(plan *threads.Plan) (queue, unqueued []control.QueueDocument) {
	queue, unqueued = []control.QueueDocument{}, []control.QueueDocument{}
	for i := range plan.Starts {
		queue = append(queue, st.nowLocked(plan.Starts[i].Item, plan.Starts[i].Words()))
	}
	for _, m := range plan.Merges {
		if p := st.facts.Pull(m.Ref); p != nil {
			queue = append(queue, st.nowLocked(threads.Item{
				Kind: agents.KindReview, Ref: p.Ref, Title: p.Title, Priority: st.cfg.Priority(p.Repo, p.Labels),
			}, threads.MergedNow))
		}
	}
	for _, h := range plan.Holds {
		q := st.known.document(h)
		if it := st.ledger.Items[h.Key()]; it != nil {
			q.FailedBy = it.FailedBy
		}
		queue = append(queue, q)
	}
	for _, h := range plan.Unqueued {
		unqueued = append(unqueued, st.known.document(h))
	}
	for _, q := range st.reminders {
		r := forge.Ref{Repo: q.Repo, Number: q.Number}
		if st.facts.Issue(r) == nil && st.facts.Pull(r) == nil && st.sessionOnLocked(r) == nil {
			queue = append(queue, q)
		}
	}
	return queue, unqueued
}

// nowLocked returns the row of an item with which something happens now. Once the supervisor stops, nothing does.
func (st *state) nowLocked(item threads.Item, words string) control.QueueDocument {
	q := queueDocument(&threads.Hold{Item: item, Reason: &threads.Reason{Code: threads.StaleFacts}})
	if st.until != nil && st.until.Err() == nil {
		q.Code, q.Why = "", words
	}
	return q
}

// document returns a row of the queue, with the last known reason and its date where the repository is not read now.
func (k known) document(h *threads.Hold) control.QueueDocument {
	old, ok := k[h.Key()]
	if !ok || h.Reason.Code != threads.NotRead {
		return queueDocument(h)
	}
	d := queueDocument(old.hold)
	d.Why += notRead(old.at)
	return d
}

// rememberedLocked puts the last known reason into the explanation of an item whose repository is not read now, as
// status shows it. It changes nothing where none is known.
func (st *state) rememberedLocked(item forge.Ref, ex *threads.Explanation) {
	old, ok := st.known[threads.Key{Kind: ex.Kind, Ref: item}]
	if ok && ex.Code == threads.NotRead {
		q := st.known.document(&threads.Hold{Item: old.hold.Item, Reason: &threads.Reason{Code: ex.Code}})
		ex.Verdict, ex.Code, ex.Mend = threads.Waits(q.Why), q.Code, q.Mend
	}
}

func queueDocument(h *threads.Hold) control.QueueDocument {
	return control.QueueDocument{
		Repo: h.Item.Ref.Repo, Number: h.Item.Ref.Number, Kind: h.Item.Kind, Title: h.Item.Title,
		Priority: h.Item.Priority, Code: h.Reason.Code, Why: h.Reason.Text(), Agent: h.Reason.Agent,
		Since: h.Item.Since, Mend: h.Reason.MendFor(h.Item.Ref.String()), NeedsPerson: h.Reason.NeedsPerson(),
	}
}

// pausedLocked returns the pause of a thread, or of everything. ok is false if there is none.
func (st *state) pausedLocked(thread string) (by threads.PauseNote, ok bool) {
	if by, ok = st.ledger.Paused[threads.Pause{Thread: thread}]; !ok {
		by, ok = st.ledger.Paused[threads.Pause{}]
	}
	return by, ok
}

// fleetDocument returns the description of this host's agents for the hub of a fleet.
func (st *state) fleetDocument(hub *fleet.Hub, version string, room *threads.Room) *fleet.Document {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := time.Now()
	d := &fleet.Document{
		Format: fleet.Format, Version: version, Instance: st.instance, UpdatedAt: now,
		Agents: []fleet.Agent{}, Begun: []string{}, Draining: st.drainLocked() != nil,
	}
	for _, r := range st.ledger.Select(func(c *threads.ChainHistory) bool { return len(c.Writers) > 0 }) {
		d.Begun = append(d.Begun, r.String())
	}
	if st.cfg != nil {
		unread := st.read.err != nil || st.read.good.IsZero()
		d.Agents = hub.Describe(st.snapshotLocked(now, room), unread, st.progressLocked())
		d.Sum()
	}
	return d
}

// progressLocked returns the end of each agent's last successful session, as far as the ledger remembers it.
func (st *state) progressLocked() map[string]time.Time {
	progress := make(map[string]time.Time)
	for i := range st.ledger.Recent { // the newest first
		r := &st.ledger.Recent[i]
		if progress[r.Agent].IsZero() && (r.Outcome == agents.Done || r.Outcome == agents.Refused) {
			progress[r.Agent] = r.EndedAt
		}
	}
	return progress
}
