package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Weigh decides on a snapshot after adding the other hosts' reports. It fills in c, except for its times and calls,
// and returns the moves in the order of c.Moves, all of them planned. It does no I/O.
func (h *Hub) Weigh(snap threads.Snapshot, c *Cycle) []threads.Move {
	h.addIdle(&snap)
	c.Unknown = h.join(&snap)
	b := threads.Weigh(snap)
	c.fill(snap.Now, &b)
	return b.Moves
}

// join adds to a snapshot the agents of the known hosts, and the issues that these have started. It returns the
// omitted hosts and agents, each with the reason.
func (h *Hub) join(snap *threads.Snapshot) (unknown []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	unknown = []string{}
	chains := make(map[forge.Ref]*threads.ChainHistory, len(snap.History.Chains))
	maps.Copy(chains, snap.History.Chains)
	snap.Fleet, snap.History.Chains = nil, chains
	for _, host := range snap.Config.Fleet.Hosts {
		r, read := h.readingLocked(host)
		if !read {
			continue
		}
		if r.Doc == nil {
			unknown = append(unknown, host.Name+": "+r.Why)
			continue
		}
		for i := range r.Doc.Agents {
			a := &r.Doc.Agents[i]
			if why := whyExcluded(snap.Config, a.Login); why != "" {
				unknown = append(unknown, host.Name+"/"+a.Agent+": "+why)
				continue
			}
			snap.Fleet = append(snap.Fleet, a.remote(host.Name, r.Doc.Draining))
		}
		for _, said := range r.Doc.Begun {
			if ref, err := forge.ParseRef(said, ""); err == nil {
				c := *cmp.Or(chains[ref], &threads.ChainHistory{})
				c.Writers = slices.Clone(c.Writers)
				c.Wrote(host.Name)
				chains[ref] = &c
			}
		}
	}
	return unknown
}

// whyExcluded returns why another host's agent with this account is left out; "" if it takes part. If it has the
// account of one of our own agents, an assigned issue could belong to either. An account that is not among the bots may
// belong to a person, whatever the host says, and nothing is taken from people.
func whyExcluded(config *threads.Config, login string) (why string) {
	if own := config.AgentByLogin(login); own != nil {
		return "has the account of " + own.Name
	}
	if !slices.Contains(config.Forge.Bots, login) {
		return "its account " + login + " is not in [forge] bots"
	}
	return ""
}

// fill writes a balance into the cycle.
func (c *Cycle) fill(now time.Time, b *threads.Balance) {
	c.Idle, c.Busy = append([]string{}, b.Idle...), append([]string{}, b.Busy...)
	c.Moves, c.Stays = []Move{}, []Stay{}
	loads := make(map[string]*threads.Load, len(b.Loads))
	for i := range b.Loads {
		loads[b.Loads[i].Agent] = &b.Loads[i]
	}
	for i := range b.Moves {
		m := &b.Moves[i]
		idle := now.Sub(loads[m.To].IdleSince).Round(time.Second)
		c.Moves = append(c.Moves, Move{
			Repo: m.Ref.Repo, Number: m.Ref.Number, Title: m.Title, Priority: m.Priority, From: m.From, To: m.To,
			Why: fmt.Sprintf("%s idle for %s, %s has %d waiting", m.To, idle, m.From, loads[m.From].Pending), State: MovePlanned,
		})
	}
	for i := range b.Stays {
		st := &b.Stays[i]
		c.Stays = append(c.Stays, Stay{
			Repo: st.Ref.Repo, Number: st.Ref.Number, Title: st.Title, Agent: st.Agent,
			Code: st.Reason.Code, Why: st.Reason.Text(),
		})
	}
}

// RecordCycle keeps a cycle for Status. The hub owns c from then on; only RecordMoveEnd changes it. stuck is true in
// the second consecutive cycle with idle and busy agents but no possible move: the caller must warn people. An earlier
// scheduler had 56 such cycles in two days, and its owners did not notice.
func (h *Hub) RecordCycle(c *Cycle) (stuck bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cycles = slices.Insert(h.cycles, 0, c)
	h.cycles = h.cycles[:min(len(h.cycles), CycleLimit)]
	switch {
	case c.DryRun:
		return false
	case len(c.Idle) == 0 || len(c.Busy) == 0 || len(c.Moves) > 0:
		h.stuck = 0
		return false
	}
	h.stuck++
	return h.stuck == 2
}

// RecordMoveEnd records how the move of a steal's run ended, or why it has not ended yet.
func (h *Hub) RecordMoveEnd(run string, state MoveState, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.cycles {
		for i := range c.Moves {
			if c.Moves[i].Run == run {
				c.Moves[i].State, c.Moves[i].StateWhy = state, why
			}
		}
	}
}

// clone returns a copy that a later RecordMoveEnd does not change.
func (c *Cycle) clone() *Cycle {
	d := *c
	d.Moves = slices.Clone(c.Moves)
	return &d
}
