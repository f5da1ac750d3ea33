package sim

import "time"

// Policy is a way of giving work to agents: when work is looked for, and what can be seen. Who may do what, and in
// which order, is left to threads.Decide, and moves to threads.Rebalance, so that only the policy differs.
type Policy struct {
	Name string
	// Latency is the time from a change to the decision on it, where changes are noticed.
	Latency time.Duration
	// Claim is the time from a decision to the start of the program, on a real forge and a real machine. Meanwhile the
	// agent and the issue are taken, and the agent is idle.
	Claim time.Duration
	// Poll is how often an agent looks for work; 0 means that changes are noticed. Together means that all agents look
	// at the same moment, as with cron.
	Poll     time.Duration
	Together bool
	// Push is how often a hub assigns the issues filed since. No agent sees them earlier. 0 means that there is no hub.
	Push time.Duration
	// Steal is how often pinned work is considered for a move; 0 means never. Deaf means that every answer is lost, so
	// nothing ever moves.
	Steal time.Duration
	Deaf  bool
	// Bound means that a slot of a local server belongs to one session. Otherwise every session sends its requests to
	// any free slot, and there may be more sessions than slots.
	Bound bool
	// Trusting means that verdicts are expected at once and to want changes, whatever was learned: slots are kept for
	// their residents for the whole of hold, always.
	Trusting bool
}

// The policies that are compared.
var (
	// Ours is the policy of the supervisor.
	Ours = Policy{Name: "disinto", Latency: time.Second, Steal: 5 * time.Minute, Bound: true}
	// Cron is a shell loop that starts every idle agent every five minutes.
	Cron = Policy{Name: "cron-5min", Poll: 5 * time.Minute, Together: true}
	// Push is a hub that assigns by skill every half hour, to agents that look into their queue every minute. It is
	// spared the limit of ten issues each time that the real one had, with which a load takes days.
	Push = Policy{Name: "push-30min", Poll: time.Minute, Push: 30 * time.Minute}
	// Arc is Push with work stealing as it was designed.
	Arc = Policy{Name: "arc", Poll: time.Minute, Push: 30 * time.Minute, Steal: 5 * time.Minute}
	// ArcShipped is Arc as it ran: the five minutes came out as 360.4 s on average, and a quote in the query lost every
	// answer. It moved nothing in 56 cycles with an idle and a busy agent.
	ArcShipped = Policy{
		Name: "arc-shipped", Poll: time.Minute, Push: 30 * time.Minute, Steal: 360400 * time.Millisecond, Deaf: true,
	}
)

// Policies returns all policies, ours last.
func Policies() []Policy { return []Policy{Cron, Push, ArcShipped, Arc, Ours} }
