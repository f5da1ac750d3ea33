package threads

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// The numbers of stealing are those of the design that it follows, "Work-Stealing: How Idle Agents Pick Up Slack", by
// the operator of five agents that ran day and night.
const (
	StealEvery    = 5 * time.Minute // between two cycles
	StealIdle     = 2 * time.Minute // an agent counts as idle after this time; a short gap between sessions is none
	StealBusy     = 5               // an agent with more pending issues is busy
	StealPriority = 5               // the most urgent class that moves
	// StealAnyPriority is the most urgent class in which an issue without skill labels moves. It is unknown which agents
	// can do it, so little must be at stake.
	StealAnyPriority = 8
	StealPerAgent    = 3  // issues that one agent takes at a time
	StealPerCycle    = 10 // issues that move at a time
)

// Move is one issue that changes hands: from its assigned agent, which has not started it, to an idle one.
type Move struct {
	Ref      forge.Ref
	Title    string
	Priority int
	// From and To are names of agents; those of another host begin with its name and a slash.
	From, To           string
	FromLogin, ToLogin string
}

// Stay is an issue of a busy agent that moves to no idle agent.
type Stay struct {
	Item
	Agent  string  // that it is pinned to
	Reason *Reason // of the idle agent that passed most rules
}

// LoadState says whether an agent can work, and whether it does.
type LoadState string

// The states of an agent. A gated or sick agent is neither idle nor busy, however long its queue is.
const (
	LoadIdle   LoadState = "idle"
	LoadActive LoadState = "active"
	LoadGated  LoadState = "gated" // it can start nothing: see Load.Why
	// LoadSick is an agent that is failing. Its queue is long because it gets nothing done, and more work would not be
	// done either.
	LoadSick LoadState = "sick"
)

// Load is the work of an agent.
type Load struct {
	Agent     string
	State     LoadState
	Why       *Reason   // of an agent that is gated or sick
	IdleSince time.Time // zero for an agent that is not idle, or where it is unknown
	Pending   int       // issues pinned to it that wait for nothing but the agent
}

// Balance is the result of Weigh: each agent's load, and the moves.
type Balance struct {
	Loads []Load // of every agent, by name
	Idle  []string
	Busy  []string
	Moves []Move
	// Stays has an entry for each pending issue of a busy agent that does not move. It is empty unless there are both idle
	// and busy agents.
	Stays []Stay
}

// Paired reports whether there are both idle and busy agents.
func (b *Balance) Paired() bool { return len(b.Idle) > 0 && len(b.Busy) > 0 }

// Rebalance returns the pinned issues that change hands. Unpinned work needs no move: the next idle agent takes it.
// Like Decide it is a pure function of the snapshot, and an agent only gets what Decide would let it start.
func Rebalance(s Snapshot) []Move { return Weigh(s).Moves }

// Weigh is Rebalance with the reasons.
func Weigh(s Snapshot) Balance {
	if s.Config == nil {
		return Balance{}
	}
	s = s.withDrain().withFleet()
	_, d := decide(&s)
	b := newBalancer(d)
	if s.Config.Stealing {
		b.steal()
	}
	return b.Balance
}

// balancer is a balance in the making.
type balancer struct {
	*decision
	Balance
	queues map[string][]*work // pending issues by agent, in the order in which they move
	load   map[string]*Load
	taken  map[string]int // moves by the agent that gets the issue
	stays  map[*work]stay
}

// stay is the first steal rule that objects to an issue, for the idle agent that came furthest, and its reason.
type stay struct {
	at  int
	why *Reason
}

func newBalancer(d *decision) *balancer {
	b := &balancer{
		decision: d, queues: make(map[string][]*work),
		load: make(map[string]*Load), taken: make(map[string]int), stays: make(map[*work]stay),
	}
	for _, w := range d.queue {
		if w.pending(d.view) {
			b.queues[w.pin] = append(b.queues[w.pin], w)
		}
	}
	for i := range d.agents {
		b.Loads = append(b.Loads, b.loadOf(&d.agents[i]))
	}
	for i := range b.Loads {
		b.load[b.Loads[i].Agent] = &b.Loads[i]
	}
	for _, q := range b.queues {
		slices.SortFunc(q, leastFirst)
	}
	return b
}

// pending reports whether the issue is pinned to one agent and waits only for it. Blocked and resting issues do not
// count.
func (w *work) pending(v *view) bool {
	return w.issue != nil && w.class != nil && !w.taken && v.Config.Agent(w.pin) != nil && v.intruder(w) == nil
}

// leastFirst orders the issues that may move: the least urgent first, and within a class the newest first, which
// would wait longest.
func leastFirst(a, b *work) int {
	return cmp.Or(b.Priority-a.Priority, b.Since.Compare(a.Since), b.Ref.Compare(a.Ref))
}

func (b *balancer) loadOf(a *agentState) Load {
	l := Load{Agent: a.Name, State: LoadIdle, Pending: len(b.queues[a.Name])}
	known := b.History.Agent(a.Name)
	crew := Crew{Agent: a.Name}
	switch why, stuck := b.gate(a); {
	case b.History.Failing[crew].Failing():
		l.State, l.Why = LoadSick, b.History.Failing[crew].reason(crew)
	case stuck:
		l.State, l.Why = LoadGated, why
	case a.on != nil:
		l.State = LoadActive
	case why != nil:
		l.State, l.Why = LoadGated, why
	default:
		l.IdleSince = known.IdleSince
	}
	return l
}

// gate returns why an agent can start nothing in any of its roles; nil when it can. stuck reports that the reason is
// neither its own session nor other sessions in its thread's slots.
func (v *view) gate(a *agentState) (why *Reason, stuck bool) {
	stuck = true
	for _, c := range v.cands {
		if c.agent != a {
			continue
		}
		stuck = stuck && c.stuck
		_, no := v.unfree(c)
		if no == nil {
			return nil, false
		}
		if why == nil || !c.stuck {
			why = no
		}
	}
	if why == nil {
		why = &Reason{Code: NoRole, Note: string(agents.KindIssue)}
	}
	return why, stuck
}

// steal moves issues one at a time, because each move changes which agents are busy. The agent that has been idle
// longest takes first.
func (b *balancer) steal() {
	for i := range b.Loads {
		l := &b.Loads[i]
		if b.isIdle(l) {
			b.Idle = append(b.Idle, l.Agent)
		}
		if b.isBusy(l) {
			b.Busy = append(b.Busy, l.Agent)
		}
	}
	if !b.Paired() {
		return
	}
	thieves := slices.Clone(b.Idle)
	slices.SortFunc(thieves, func(x, y string) int {
		return cmp.Or(b.load[x].IdleSince.Compare(b.load[y].IdleSince), cmp.Compare(x, y))
	})
	for _, thief := range thieves {
		for b.takeOne(thief) {
		}
	}
	b.noteStays()
}

// isIdle reports whether an agent may take issues: it has a role for them and has been idle for long enough. An
// unknown time does not count, nor one that another host's clock puts in the future.
func (b *balancer) isIdle(l *Load) bool {
	return b.Config.Does(b.Config.Agent(l.Agent), agents.KindIssue) && l.State == LoadIdle &&
		!l.IdleSince.IsZero() && b.Now.Sub(l.IdleSince) >= StealIdle
}

// isBusy excludes agents that get nothing done. An agent whose slots other agents hold does get something done.
func (b *balancer) isBusy(l *Load) bool {
	if len(b.queues[l.Agent]) <= StealBusy || l.State == LoadSick {
		return l.handsOver() && len(b.queues[l.Agent]) > 0
	}
	return l.State != LoadGated || l.Why.Code == NoSlot || l.handsOver()
}

// handsOver reports whether an agent's host drains: however short its queue is, it will not start it.
func (l *Load) handsOver() bool { return l.State == LoadGated && l.Why.Code == Draining }

// takeOne moves one issue to an agent: the first that may move, from the longest queue that has one.
func (b *balancer) takeOne(thief string) bool {
	victims := slices.Clone(b.Busy)
	slices.SortFunc(victims, func(x, y string) int { return cmp.Or(len(b.queues[y])-len(b.queues[x]), cmp.Compare(x, y)) })
	for _, victim := range victims {
		for i, w := range b.queues[victim] {
			if old, noted := b.stays[w]; noted && stealRules[old.at].shared {
				continue
			}
			at, why := b.keeps(w, thief)
			if why == nil {
				b.queues[victim] = slices.Delete(b.queues[victim], i, i+1)
				b.move(w, thief)
				return true
			}
			if old, noted := b.stays[w]; !noted || at > old.at {
				b.stays[w] = stay{at, why}
			}
		}
	}
	return false
}

func (b *balancer) move(w *work, thief string) {
	if b.taken[thief]++; b.taken[thief] == 1 {
		b.thread(b.Config.Agent(thief).Thread).begin() // it starts at once and takes a slot
	}
	b.Moves = append(b.Moves, Move{
		Ref: w.Ref, Title: w.Title, Priority: w.Priority, From: w.pin, To: thief,
		FromLogin: b.Config.Agent(w.pin).Login, ToLogin: b.Config.Agent(thief).Login,
	})
}

// keeps returns the first objection of a steal rule, and the rule's place in the order.
func (b *balancer) keeps(w *work, thief string) (at int, why *Reason) {
	for i, rule := range stealRules {
		if why := rule.why(b, w, thief); why != nil {
			return i, why
		}
	}
	return len(stealRules), nil
}

func (b *balancer) noteStays() {
	for _, victim := range b.Busy {
		for _, w := range b.queues[victim] {
			b.Stays = append(b.Stays, Stay{Item: w.Item, Agent: victim, Reason: b.stays[w].why})
		}
	}
}
