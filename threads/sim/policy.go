package sim

import "time"

// Policy is a way to give work to agents: when somebody looks, and what they can see. Who may do what, and what comes
// first, every policy leaves to threads.Decide, and what is moved to threads.Rebalance, so that only the policy differs.
type Policy struct {
	Name string
	// Latency is from a change to the decision on it, where changes are noticed.
	Latency time.Duration
	// Claim is from a decision to the start of the program: what a real forge and a real machine take for that. The agent and the
	// issue are taken meanwhile, and the agent idle.
	Claim time.Duration
	// Poll is how often an agent looks for work; 0 means that changes are noticed. Together says that all look at the same
	// moment, as cron has it.
	Poll     time.Duration
	Together bool
	// Push is how often a hub assigns what was filed since; until then no agent sees it. 0 means that there is no hub.
	Push time.Duration
	// Steal is how often pinned work is looked at to be moved; 0 means never. Deaf says that the answer to what could be
	// moved is lost, and so nothing ever is.
	Steal time.Duration
	Deaf  bool
	// Bound says that a slot of a local server belongs to one session. Otherwise every session sends its requests to whatever
	// slot is free, and there may be more sessions than slots.
	Bound bool
	// Trusting says that verdicts are believed to come at once and to want changes, whatever was learned: slots are kept for
	// their residents as long as hold allows, always.
	Trusting bool
}

// The policies that are set side by side.
var (
	// Ours is what the supervisor does.
	Ours = Policy{Name: "disinto", Latency: time.Second, Steal: 5 * time.Minute, Bound: true}
	// Cron is a shell loop that starts every idle agent each five minutes.
	Cron = Policy{Name: "cron-5min", Poll: 5 * time.Minute, Together: true}
	// Push is a hub that assigns by field each half hour, to agents that look into their queue each minute. It is let off the
	// limit of ten issues each time that the real one had, which alone would make it last for days.
	Push = Policy{Name: "push-30min", Poll: time.Minute, Push: 30 * time.Minute}
	// Arc is Push with work stealing as it was designed.
	Arc = Policy{Name: "arc", Poll: time.Minute, Push: 30 * time.Minute, Steal: 5 * time.Minute}
	// ArcShipped is that as it ran: the five minutes came out as 360.4 s on average, and a quote in the query lost every
	// answer. In 56 cycles with an idle and a busy agent it moved nothing.
	ArcShipped = Policy{Name: "arc-shipped", Poll: time.Minute, Push: 30 * time.Minute, Steal: 360400 * time.Millisecond, Deaf: true}
)

// Policies are all of them, ours last.
func Policies() []Policy { return []Policy{Cron, Push, ArcShipped, Arc, Ours} }
