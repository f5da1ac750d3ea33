package ledger

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Reopened is the start of a session that has not ended.
type Reopened Start

func (r *Reopened) valid() bool { return (*Start)(r).valid() }

func (r *Reopened) apply(s *State, at time.Time) { s.Open[r.Run] = Open{Start(*r), at} }

// Chain is the history of an issue or pull request.
type Chain struct {
	Ref Ref `json:"ref"`
	threads.ChainHistory
}

func (r *Chain) valid() bool {
	return r.Ref.Repo != "" && min(r.CIFixes, r.Conflicts, r.Reviews, r.Asked) >= 0
}

func (r *Chain) apply(s *State, _ time.Time) {
	c := s.chain(r.Ref)
	*c = r.ChainHistory
	c.Writers, c.Attempts = slices.Clone(c.Writers), slices.Clone(c.Attempts)
}

// Item is the history of one piece of work.
type Item struct {
	Key Key `json:"key"`
	threads.ItemHistory
}

func (r *Item) valid() bool { return r.Key.Ref.Repo != "" && min(r.PassedOver, r.Remarks) >= 0 }

func (r *Item) apply(s *State, _ time.Time) { *s.item(r.Key) = r.ItemHistory }

// Agent is the history of an agent.
type Agent struct {
	Name string `json:"name"`
	threads.AgentHistory
}

func (r *Agent) valid() bool { return r.Name != "" }

func (r *Agent) apply(s *State, _ time.Time) { *Entry(s.Agents, r.Name) = r.AgentHistory }

// Thread is the history of a thread.
type Thread struct {
	Name string `json:"name"`
	threads.ThreadHistory
}

func (r *Thread) valid() bool { return r.Name != "" && r.Downs >= 0 }

func (r *Thread) apply(s *State, _ time.Time) { *Entry(s.Threads, r.Name) = r.ThreadHistory }

// Slot is the resident of a sticky slot.
type Slot struct {
	Thread string    `json:"thread"`
	Slot   int       `json:"slot"`
	Agent  string    `json:"agent"`
	Chain  Ref       `json:"chain"`
	Left   time.Time `json:"left,omitzero"` // when its session ended
}

func (r *Slot) valid() bool { return r.Thread != "" && r.Slot >= 0 }

func (r *Slot) apply(s *State, _ time.Time) {
	s.Slots[threads.SlotKey{Thread: r.Thread, Slot: r.Slot}] = threads.Warm{
		Agent: r.Agent, Chain: forge.Ref(r.Chain), Left: r.Left,
	}
}

// Recent is a session that ended, as the status document shows it.
type Recent struct {
	RunID   string        `json:"run_id"`
	Agent   string        `json:"agent"`
	Repo    string        `json:"repo"`
	Number  int64         `json:"number"`
	Kind    agents.Kind   `json:"kind"`
	Outcome agents.Result `json:"outcome"`
	Reason  string        `json:"reason"`
	// LastLine is the last line of output, redacted, of a session that failed without giving a reason.
	LastLine string `json:"last_line,omitempty"`
	// Log is the path of its log, in the journal relative to the state directory; left out when it never ran.
	Log       string    `json:"log,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

func (r *Recent) valid() bool { return true }

func (r *Recent) apply(s *State, _ time.Time) { s.remember(*r) }

func (s *State) remember(r Recent) {
	n := min(len(s.Recent), RecentLimit-1)
	s.Recent = append([]Recent{r}, s.Recent[:n]...)
}

// Past is the short form of a session that ran and ended. Fields from Run on are empty in journals of versions before
// 0.2.
type Past struct {
	Agent    string      `json:"agent"`
	Kind     agents.Kind `json:"kind"`
	Ref      Ref         `json:"ref"`
	Chain    Ref         `json:"chain"`              // the issue that it was about
	Ready    time.Time   `json:"ready,omitzero"`     // could be worked on since then; zero if unknown
	Priority int         `json:"priority,omitempty"` // 0 where the journal does not say
	Skills   []string    `json:"skills,omitempty"`   // of its labels
	Start    time.Time   `json:"start"`
	End      time.Time   `json:"end"`

	Run     string        `json:"run,omitempty"`
	Role    string        `json:"role,omitempty"`
	Thread  string        `json:"thread,omitempty"`
	Slot    int           `json:"slot,omitempty"`
	Attempt int           `json:"attempt,omitempty"`
	Outcome agents.Result `json:"outcome,omitempty"`
	Reason  string        `json:"reason,omitempty"` // the program's, or its last line of output; at most pastWords
	Verdict Verdict       `json:"verdict,omitempty"`
	Usage   *agents.Usage `json:"usage,omitempty"` // nil means unknown
}

func (r *Past) valid() bool { return r.Kind != "" && r.Ref.Repo != "" && r.Chain.Repo != "" }

func (r *Past) apply(s *State, _ time.Time) { s.bury(*r) }

// bury adds a session. The oldest are cut off by slicing, so that a long journal is not copied once for each of its
// lines.
func (s *State) bury(p Past) {
	s.Past = append(s.Past[max(0, len(s.Past)-PastLimit+1):], p)
}
