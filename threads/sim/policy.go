package sim

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Policy is a way of giving work to agents: when it looks for work, and which changes it sees. threads.Decide decides
// which agent may do what and in which order, and threads.Rebalance moves work, so only the policy differs.
type Policy struct {
	Name string
	Says string // what it does, in words
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
	// Steal is the interval at which moves of pinned work are considered; 0 means never.
	Steal time.Duration
	// Bound means that a slot of a local server belongs to one session. Otherwise sessions send their requests to any
	// free slot, and may outnumber the slots.
	Bound bool
}

// The compared policies.
var (
	// Ours is the policy of the supervisor.
	Ours = Policy{
		Name: "disinto", Says: "the scheduler of this program", Latency: time.Second, Steal: threads.StealEvery, Bound: true,
	}
	// Cron is a shell loop that starts every idle agent every five minutes.
	Cron = Policy{
		Name: "cron-5min", Says: "a loop that starts every idle agent every 5 minutes",
		Poll: 5 * time.Minute, Together: true,
	}
	// Push is a hub that assigns by skill every half hour, to agents that read their queue every minute. The real one
	// assigned at most ten issues each time, and so would need days for a load; this one has no limit.
	Push = Policy{
		Name: "push-30min", Says: "a hub that assigns issues every half hour",
		Poll: time.Minute, Push: 30 * time.Minute,
	}
	// Stealing is Push with work stealing.
	Stealing = Policy{
		Name: "stealing", Says: "push-30min, and idle agents take issues from busy ones every 5 minutes",
		Poll: time.Minute, Push: 30 * time.Minute, Steal: threads.StealEvery,
	}
)

// Policies returns all policies, ours last.
func Policies() []Policy { return []Policy{Cron, Push, Stealing, Ours} }
