package supervisor

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// statusRest is the least time between two versions of status.json.
const statusRest = time.Second

// Document is the status as it is now.
func (s *Supervisor) Document() *control.Document {
	s.init()
	d := s.remembered()
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client != nil {
		d.Forge.Requests = client.Requests()
	}
	for i := range d.Sessions {
		if last, pid, ok := s.Executor.Activity(d.Sessions[i].RunID); ok {
			d.Sessions[i].LastOutputAt, d.Sessions[i].PID = last, pid
		}
	}
	return d
}

// remembered is the part of the document that is in memory.
func (s *Supervisor) remembered() *control.Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	d := &control.Document{
		Version: s.Version, PID: os.Getpid(), StartedAt: s.started, Upgrades: s.upgrades, UpgradedAt: s.upgraded,
		Config:  control.ConfigDocument{Path: s.ConfigPath, Generation: s.generation, Error: text(s.configErr)},
		Threads: []control.ThreadDocument{}, Agents: []control.AgentDocument{}, Sessions: []control.SessionDocument{},
		Recent: append([]control.RecentDocument{}, s.history.Recent...), Problems: append(s.problems.lines(), s.upkeep.lines()...),
		Upkeep: control.UpkeepDocument{Violations: s.upkeep.violations, Repairs: s.upkeep.repairs},
	}
	_, d.Paused = s.history.Paused[threads.Pause{}]
	for _, x := range s.sessions {
		d.Sessions = append(d.Sessions, x.document())
	}
	slices.SortFunc(d.Sessions, func(a, b control.SessionDocument) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.RunID, b.RunID))
	})
	d.Queue, d.Unqueued = s.queueLocked()
	for i := range d.Recent {
		if r := &d.Recent[i]; r.Log != "" {
			r.Log = filepath.Join(s.StateDir, r.Log)
		}
	}
	if s.config == nil {
		return d
	}
	d.Forge = s.forgeLocked()
	parked := s.parkedLocked(now)
	for i := range s.config.Threads {
		d.Threads = append(d.Threads, s.threadDocumentLocked(&s.config.Threads[i], parked, now))
	}
	for i := range s.config.Agents {
		d.Agents = append(d.Agents, s.agentLocked(&s.config.Agents[i], now))
	}
	return d
}

func (s *Supervisor) forgeLocked() control.ForgeDocument {
	return control.ForgeDocument{
		URL: s.config.Forge.URL, OK: s.scans.err == nil && s.scans.prepareErr == nil && !s.scans.good.IsZero(),
		Error: text(errors.Join(s.scans.err, s.scans.prepareErr)), LastScan: s.scans.good,
	}
}

func (s *Supervisor) threadDocumentLocked(t *threads.Thread, parked map[string]*threads.ThreadHistory, now time.Time) control.ThreadDocument {
	n := t.Slots
	for _, x := range s.sessions {
		if x.Thread == t.Name {
			n = max(n, x.Slot+1) // a slot that a reload took away is there until its session ends
		}
	}
	d := control.ThreadDocument{
		Name: t.Name, Backend: t.Backend, Overlap: t.Overlap, Slots: make([]control.SlotDocument, n),
		Paused: s.pausedLocked(t.Name), Spent: spent(s.history.Thread(t.Name).Spent.Today(now), t.Budget),
	}
	if p := parked[t.Name]; p != nil {
		d.ParkedUntil, d.ParkedWhy = p.ParkedUntil, p.ParkedWhy
	}
	for i := range d.Slots {
		d.Slots[i] = control.SlotDocument{Index: i, Agents: []string{}}
		if !t.Overlap {
			d.Slots[i].Warm = s.history.Slots[threads.SlotKey{Thread: t.Name, Slot: i}].Agent
		}
	}
	for _, x := range s.sessions {
		if x.Thread == t.Name {
			d.Slots[x.Slot].Agents = append(d.Slots[x.Slot].Agents, x.Agent)
		}
	}
	for i := range d.Slots {
		slices.Sort(d.Slots[i].Agents)
	}
	return d
}

func (s *Supervisor) agentLocked(a *agents.Agent, now time.Time) control.AgentDocument {
	known := s.history.Agent(a.Name)
	d := control.AgentDocument{
		Name: a.Name, Thread: a.Thread, Model: a.Model, State: control.AgentIdle, IdleSince: known.IdleSince,
		Done: known.Done, Failed: known.Failed, Spent: spent(known.Spent.Today(now), a.Budget),
	}
	if len(a.Roles) > 0 {
		d.Role = a.Roles[0]
	}
	if d.IdleSince.IsZero() {
		d.IdleSince = s.started
	}
	if why := s.heldWhyLocked(a, now); why != "" {
		d.State, d.Why = control.AgentHeld, why
	}
	for _, x := range s.sessions {
		if x.Agent == a.Name {
			d.State, d.Why, d.IdleSince = control.AgentWorking, "", time.Time{}
		}
	}
	return d
}

func spent(today threads.Spent, b agents.Budget) control.SpentDocument {
	return control.SpentDocument{Tokens: today.Tokens, USD: today.USD, TokensPerDay: b.Tokens, USDPerDay: b.USD}
}

// pausedLocked reports whether a thread starts nothing because it or everything is paused.
func (s *Supervisor) pausedLocked(thread string) bool {
	_, own := s.history.Paused[threads.Pause{Thread: thread}]
	_, all := s.history.Paused[threads.Pause{}]
	return own || all
}

// heldWhyLocked says why an agent can start nothing, whatever there is to do; empty when it can.
func (s *Supervisor) heldWhyLocked(a *agents.Agent, now time.Time) string {
	known := s.history.Agent(a.Name)
	programs := slices.ContainsFunc(a.Roles, func(name string) bool {
		r := s.config.Role(name)
		return r != nil && len(r.Command) > 0
	})
	_, paused := s.history.Paused[threads.Pause{Agent: a.Name}]
	switch {
	case paused:
		return threads.Reason{Code: threads.Paused, Agent: a.Name}.Text()
	case known.Held(now):
		return known.HeldWhy
	case a.Token == "":
		return threads.Reason{Code: threads.NoToken, Agent: a.Name, Note: agents.TokenVar(a.Name)}.Text()
	case !programs && len(a.Roles) > 0:
		return threads.Reason{Code: threads.NoProgram, Note: a.Roles[0]}.Text()
	}
	return ""
}

// show is the document of a session.
func (s *Supervisor) show(x *session) control.SessionDocument {
	s.mu.Lock()
	defer s.mu.Unlock()
	return x.document()
}

// document needs the supervisor's mu.
func (x *session) document() control.SessionDocument {
	return control.SessionDocument{
		RunID: x.RunID, Thread: x.Thread, Slot: x.Slot, Agent: x.Agent, Role: x.Role, Kind: x.Item.Kind,
		Repo: x.Item.Ref.Repo, Number: x.Item.Ref.Number, Title: x.Item.Title, State: x.State, PID: x.pid,
		Attempt: x.Attempt, StartedAt: x.Started,
	}
}

// keepStatusFile writes status.json whenever the status changed, so that there is something to show without a
// supervisor. It returns how to write it a last time.
func (s *Supervisor) keepStatusFile() (last func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	file := control.NewStatusFile(s.StateDir)
	go func() {
		defer close(done)
		for {
			file.Write(s.Document())
			select {
			case <-stop:
				return
			case <-time.After(statusRest):
			}
			select {
			case <-stop:
				return
			case <-s.changed:
			}
		}
	}()
	return func() {
		close(stop)
		<-done
		file.Write(s.Document())
	}
}
