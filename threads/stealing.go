package threads

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Stealing is the [stealing] table: when an idle agent may take over issues that are pinned to a busy one. The zero
// value moves nothing.
type Stealing struct {
	Every time.Duration // from one look to the next
	// Idle is how long an agent has to have been idle. A short gap between two sessions is not idleness.
	Idle time.Duration
	// Busy is how many pending issues nobody takes any of: an agent with more is busy.
	Busy int
	// Priority is the most urgent class that moves; what is more urgent stays where it was put.
	Priority int
	// AnyPriority is the most urgent class in which an issue without skill labels moves: nothing says who can do it, so
	// there has to be little at stake.
	AnyPriority int
	PerAgent    int // issues that one agent takes at a time
	PerCycle    int // issues that move at a time; 0 turns stealing off
}

// SickAfter is how many sessions in a row have to achieve nothing until an agent counts as sick. Its queue is then long
// because it does not work, and work given to it would not be done either.
const SickAfter = 3

// Move is one issue that changes hands: from the agent it is assigned to, who has not begun it, to an idle one.
type Move struct {
	Ref      forge.Ref
	Title    string
	Priority int
	// From and To are names of agents; those of another host begin with its name and a slash.
	From, To           string
	FromLogin, ToLogin string
}

// Stay is an issue of a busy agent that an idle one does not get, and why.
type Stay struct {
	Item
	Agent  string  // whose it is
	Reason *Reason // of the idle agent that came furthest
}

// LoadState says whether an agent could work, and does.
type LoadState string

// The states of an agent. One that is gated or sick is neither idle nor busy, however long its queue is.
const (
	LoadIdle   LoadState = "idle"
	LoadActive LoadState = "active"
	LoadGated  LoadState = "gated" // something keeps it from starting anything: see Load.Why
	LoadSick   LoadState = "sick"  // its sessions achieve nothing
)

// Load is what an agent has to do.
type Load struct {
	Agent     string
	State     LoadState
	Why       *Reason   // of an agent that is gated or sick
	IdleSince time.Time // zero unless it is idle; or not known
	Pending   int       // issues pinned to it that could be worked on and are not
}

// Balance is what Rebalance looked at.
type Balance struct {
	Loads []Load // of every agent, by name
	Idle  []string
	Busy  []string
	Moves []Move
	// Stays has an entry for each pending issue of a busy agent that does not move. It is empty unless there are both idle
	// and busy agents.
	Stays []Stay
}

// Paired reports whether somebody idle stands beside somebody busy.
func (b *Balance) Paired() bool { return len(b.Idle) > 0 && len(b.Busy) > 0 }

// Rebalance says which pinned issues change hands. Work that is pinned to nobody needs no moving: the next idle agent
// takes it. Like Decide it is a pure function of the snapshot, and an agent may only get what Decide would let it
// start.
func Rebalance(s Snapshot) []Move { return Weigh(s).Moves }

// Weigh is Rebalance with all that it looked at.
func Weigh(s Snapshot) Balance {
	if s.Config == nil {
		return Balance{}
	}
	s = s.withFleet()
	_, d := decide(&s)
	b := newBalancer(d)
	if b.rules.PerCycle > 0 {
		b.steal()
	}
	return b.Balance
}

// balancer is a balance in the making.
type balancer struct {
	*decision
	Balance
	rules  Stealing
	queues map[string][]*work // pending, by agent; what moves first stands first
	load   map[string]*Load
	taken  map[string]int // by the agent that takes
	stays  map[*work]stay
}

// stay is how far an idle agent came with an issue.
type stay struct {
	at  int
	why *Reason
}

func newBalancer(d *decision) *balancer {
	b := &balancer{
		decision: d, rules: d.Config.Stealing,
		queues: make(map[string][]*work), load: make(map[string]*Load), taken: make(map[string]int), stays: make(map[*work]stay),
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

// pending reports whether the issue is pinned to one agent and nothing but that agent's other work keeps it from being
// started. What is blocked or rests is no load.
func (w *work) pending(v *view) bool {
	return w.issue != nil && w.class != nil && !w.taken && w.pin != "" && v.Config.Agent(w.pin) != nil && v.intruder(w) == nil
}

// leastFirst orders what may be taken: the least urgent first, and of those the newest, which would wait longest.
func leastFirst(a, b *work) int {
	return cmp.Or(b.Priority-a.Priority, b.Since.Compare(a.Since), b.Ref.Compare(a.Ref))
}

func (b *balancer) loadOf(a *agentState) Load {
	l := Load{Agent: a.Name, State: LoadIdle, Pending: len(b.queues[a.Name])}
	known := b.History.Agent(a.Name)
	switch why, stuck := b.gate(a); {
	case known.Fruitless >= SickAfter:
		l.State, l.Why = LoadSick, &Reason{Code: AgentSick, Agent: a.Name, Count: known.Fruitless}
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

// gate is what keeps an agent from starting anything in any of its roles; nil when nothing does. stuck means that it
// is not only the agent's own session, or those of others in its slots.
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

// steal moves issues, one at a time, because each one changes who is busy. Who has been idle longest takes first.
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

// isIdle wants to know since when: an agent of which that is not known, or is yet to come by another host's clock, is
// not. Neither is one that has nothing to do with issues.
func (b *balancer) isIdle(l *Load) bool {
	return b.Config.HasTrigger(b.Config.Agent(l.Agent), agents.OnIssue) && l.State == LoadIdle && !l.IdleSince.IsZero() && b.Now.Sub(l.IdleSince) >= b.rules.Idle
}

// isBusy leaves out who does not get anything done. An agent whose slots others hold does.
func (b *balancer) isBusy(l *Load) bool {
	if len(b.queues[l.Agent]) <= b.rules.Busy || l.State == LoadSick {
		return false
	}
	return l.State != LoadGated || l.Why.Code == NoSlot
}

// takeOne moves one issue to an agent: the first that may move in the longest queue that has such a one.
func (b *balancer) takeOne(thief string) bool {
	victims := slices.Clone(b.Busy)
	slices.SortFunc(victims, func(x, y string) int { return cmp.Or(len(b.queues[y])-len(b.queues[x]), cmp.Compare(x, y)) })
	for _, victim := range victims {
		for i, w := range b.queues[victim] {
			if old, noted := b.stays[w]; noted && stealRules[old.at].whoever {
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
		b.thread(b.Config.Agent(thief).Thread).running++ // it begins at once, and another one has that slot less
	}
	b.Moves = append(b.Moves, Move{
		Ref: w.Ref, Title: w.Title, Priority: w.Priority, From: w.pin, To: thief,
		FromLogin: b.Config.Agent(w.pin).Login, ToLogin: b.Config.Agent(thief).Login,
	})
}

// keeps is the first rule that keeps an issue where it is, and its place in the order.
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
