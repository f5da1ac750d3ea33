package sim

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Policy is a way of giving work to agents: when it looks for work, and which changes it sees. threads.Decide decides
// which agent may do what and in which order, and threads.Rebalance moves work, so only the policy differs.
type Policy struct {
	Name string
	// Latency is the time from a change to the decision on it, if the policy notices changes.
	Latency time.Duration
	// Claim is the time from a decision to the start of the program, on a real forge and machine. In that time the agent
	// is idle, and agent and issue are taken.
	Claim time.Duration
	// Poll is the interval at which an agent looks for work; 0 means that changes are noticed. Together means that all
	// agents look at the same moment, as with cron.
	Poll     time.Duration
	Together bool
	// Push is the interval at which a hub assigns new issues. Agents do not see them before. 0 means no hub.
	Push time.Duration
	// Steal is the interval at which moves of pinned work are considered; 0 means never. Deaf means that every answer is
	// lost, so nothing ever moves.
	Steal time.Duration
	Deaf  bool
	// Bound means that a slot of a local server belongs to one session. Otherwise sessions send their requests to any
	// free slot, and may outnumber the slots.
	Bound bool
	// Trusting ignores what was learnt, and always expects a verdict at once that requests changes: slots are kept for
	// their residents for the whole hold.
	Trusting bool
}

// The compared policies.
var (
	// Ours is the policy of the supervisor.
	Ours = Policy{Name: "disinto", Latency: time.Second, Steal: threads.StealEvery, Bound: true}
	// Cron is a shell loop that starts every idle agent every five minutes.
	Cron = Policy{Name: "cron-5min", Poll: 5 * time.Minute, Together: true}
	// Push is a hub that assigns by skill every half hour, to agents that read their queue every minute. The real one
	// assigned at most ten issues each time, and so would need days for a load; this one has no limit.
	Push = Policy{Name: "push-30min", Poll: time.Minute, Push: 30 * time.Minute}
	// Arc is Push with work stealing as designed.
	Arc = Policy{Name: "arc", Poll: time.Minute, Push: 30 * time.Minute, Steal: threads.StealEvery}
	// ArcShipped is Arc as it ran in production: the five minutes were 360.4 s on average, and a quote in the query lost
	// every answer. It moved nothing in 56 cycles with an idle and a busy agent.
	ArcShipped = Policy{
		Name: "arc-shipped", Poll: time.Minute, Push: 30 * time.Minute, Steal: 360400 * time.Millisecond, Deaf: true,
	}
)

// Policies returns all policies, ours last.
func Policies() []Policy { return []Policy{Cron, Push, ArcShipped, Arc, Ours} }
