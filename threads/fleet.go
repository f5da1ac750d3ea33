package threads

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Remote is an agent of another host on the same forge, as that host's status describes it. The status has no queue:
// the forge shows which issues are assigned to the agent.
type Remote struct {
	Host    string // unique, and not the name of a local thread or agent
	Agent   string
	Login   string
	Thread  string
	Backend Backend // of its thread, for the pairing
	// Roles are its roles on its host, with Name, On and Label only. They need not be roles of this factory.
	Roles     []agents.Role
	Skills    []string // sorted
	State     LoadState
	Why       string    // of a gated or sick agent, in the host's words
	IdleSince time.Time // by the host's clock
	Draining  bool      // its host starts no new work
}

// withFleet returns the snapshot with the agents of other hosts added to ours, so that the rules within one host also
// move issues between hosts. The supervisor leaves a host whose status is missing or old out of Fleet. Issues that
// are assigned to that host's agents stay with them.
func (s Snapshot) withFleet() Snapshot {
	if len(s.Fleet) == 0 {
		return s
	}
	cfg := *s.Config
	cfg.Agents, cfg.Threads, cfg.Roles = slices.Clone(cfg.Agents), slices.Clone(cfg.Threads), slices.Clone(cfg.Roles)
	cfg.Forge.Bots = slices.Clone(cfg.Forge.Bots)
	s.Config, s.Sessions = &cfg, slices.Clone(s.Sessions)
	s.History.Agents = maps.Clone(s.History.Agents)
	if s.History.Agents == nil {
		s.History.Agents = make(map[string]*AgentHistory)
	}
	for i := range s.Fleet {
		if r := &s.Fleet[i]; cfg.AgentByLogin(r.Login) == nil { // an account that two agents share identifies neither
			s.join(&cfg, r)
		}
	}
	return s
}

// join adds one agent of another host.
func (s *Snapshot) join(cfg *Config, r *Remote) {
	a := agents.Agent{
		Name: r.Host + "/" + r.Agent, Login: r.Login, Thread: r.Host + "/" + r.Thread,
		Skills: r.Skills, Token: "of another host",
	}
	for _, role := range r.Roles {
		role.Name, role.Command = r.Host+"/"+role.Name, []string{"of another host"}
		a.Roles = append(a.Roles, role.Name)
		if cfg.Role(role.Name) == nil {
			cfg.Roles = append(cfg.Roles, role)
		}
	}
	cfg.Agents = append(cfg.Agents, a)
	cfg.Forge.Bots = slices.DeleteFunc(cfg.Forge.Bots, func(login string) bool { return login == r.Login })
	t := cfg.Thread(a.Thread)
	if t == nil {
		cfg.Threads = append(cfg.Threads, Thread{Name: a.Thread, Backend: r.Backend, Overlap: true, Slots: 1})
		t = &cfg.Threads[len(cfg.Threads)-1]
	}
	t.Agents = append(slices.Clone(t.Agents), a.Name)
	t.MaxSessions++ // a host reports an agent without a free slot as gated
	known := new(AgentHistory)
	s.History.Agents[a.Name] = known
	switch {
	case r.Draining:
		known.HoldAs(Draining, s.Now.Add(StealEvery), "")
	case r.State == LoadIdle:
		known.IdleSince = r.IdleSince
	case r.State == LoadActive:
		on := forge.Ref{Repo: r.Host}
		s.Sessions = append(s.Sessions, Session{
			RunID: a.Name, Thread: a.Thread, Agent: a.Name, Role: a.Roles[0], State: Running, Started: s.Now,
			Item: Item{Kind: agents.KindSchedule, Ref: on, Chain: on, Role: a.Name},
		})
	default:
		known.Hold(time.Time{}, r.Why)
	}
}
