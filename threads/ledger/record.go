package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Record is one line of the journal: a time, and exactly one event or, in a compacted journal, one fact. Field names
// and their order are a contract with older and newer versions: fields are added, never renamed or removed.
type Record struct {
	At time.Time `json:"at"`

	// Events.
	Start    *Start    `json:"start,omitempty"`
	End      *End      `json:"end,omitempty"`
	Released *Released `json:"released,omitempty"`
	Blocked  *Blocked  `json:"blocked,omitempty"`
	Handed   *Handed   `json:"handed,omitempty"`
	Told     *Told     `json:"told,omitempty"`
	Forget   *Forget   `json:"forget,omitempty"`
	Steal    *Steal    `json:"steal,omitempty"`

	// Commands of people. A pause is also a fact.
	Pause  *Pause  `json:"pause,omitempty"`
	Cancel *Cancel `json:"cancel,omitempty"`
	Retry  *Retry  `json:"retry,omitempty"`

	// Facts, which only compaction writes.
	Open   *Start  `json:"open,omitempty"`
	Chain  *Chain  `json:"chain,omitempty"`
	Item   *Item   `json:"item,omitempty"`
	Agent  *Agent  `json:"agent,omitempty"`
	Thread *Thread `json:"thread,omitempty"`
	Slot   *Slot   `json:"slot,omitempty"`
	Recent *Recent `json:"recent,omitempty"`
	Past   *Past   `json:"past,omitempty"`
}

// Start says that a session is about to claim its item.
type Start struct {
	Run     string        `json:"run"`
	Thread  string        `json:"thread"`
	Slot    int           `json:"slot"`
	Sticky  bool          `json:"sticky,omitempty"` // the slot keeps a cache between sessions
	Agent   string        `json:"agent"`
	Login   string        `json:"login"` // the account that claims
	Role    string        `json:"role"`
	Item    Key           `json:"item"`
	Chain   Ref           `json:"chain"`
	Cause   threads.Cause `json:"cause,omitempty"`
	Attempt int           `json:"attempt"`
	// PassedOver is the item that stood ahead and could have had the slot.
	PassedOver Key `json:"passed_over,omitzero"`
	// Ready, Priority and Skills are for simulations of the past.
	Ready    time.Time `json:"ready,omitzero"`
	Priority int       `json:"priority,omitempty"`
	Skills   []string  `json:"skills,omitempty"`
	// NewWriter is set in the open record of an agent that had not written on the chain before.
	NewWriter bool `json:"new_writer,omitempty"`
}

// End says how a session ended, with everything that its consequences follow from.
type End struct {
	Run    string        `json:"run"`
	Result agents.Result `json:"result"`
	Reason string        `json:"reason,omitempty"`
	// Remarked marks a session that left nothing but words: see threads.Remarked.
	Remarked bool          `json:"remarked,omitempty"`
	Claim    ClaimFailure  `json:"claim,omitempty"`     // of agents.ClaimFailed
	Stop     threads.Code  `json:"stop,omitempty"`      // of agents.Cancelled by reconcile or a person
	RetryAt  time.Time     `json:"retry_at,omitzero"`   // of agents.Limited; zero means unknown
	Breaker  time.Duration `json:"breaker,omitempty"`   // the thread's breaker_interval
	Tail     string        `json:"tail,omitempty"`      // last lines of output of a failure, redacted
	LastLine string        `json:"last_line,omitempty"` // of them, where the program gave no reason itself
	Session  string        `json:"session,omitempty"`   // the program's own session id
	Usage    *agents.Usage `json:"usage,omitempty"`     // nil means unknown
	CPU      time.Duration `json:"cpu,omitempty"`       // user and system time of the whole tree
	MaxRSS   int64         `json:"max_rss,omitempty"`   // bytes
	Exit     string        `json:"exit,omitempty"`      // exit code or signal, where it is not 0
	NeverRan bool          `json:"no_start,omitempty"`  // the program could not be started
	Verdict  Verdict       `json:"verdict,omitempty"`   // of a review; empty where it left none
}

// Verdict is a forge.Verdict that decides something.
type Verdict string

// The verdicts.
const (
	Approved         Verdict = "approved"
	ChangesRequested Verdict = "changes"
)

// VerdictOf returns the journal's form of a review's verdict; empty for one that decides nothing.
func VerdictOf(v forge.Verdict) Verdict {
	switch v {
	case forge.Approved:
		return Approved
	case forge.ChangesRequested:
		return ChangesRequested
	}
	return ""
}

// ClaimFailure says why a claim failed.
type ClaimFailure string

// The ways in which a claim fails.
const (
	ClaimTaken       ClaimFailure = "taken"       // the item is claimed by another supervisor or a person
	ClaimForbidden   ClaimFailure = "forbidden"   // the account lacks the right
	ClaimUnavailable ClaimFailure = "unavailable" // the forge did not answer, or not as expected
)

// Released says that no claim of ours is left on the item.
type Released struct {
	Ref Ref `json:"ref"`
}

// Blocked says that the label blocked was written after the last attempt.
type Blocked struct {
	Chain Ref         `json:"chain"`
	Kind  agents.Kind `json:"kind"`
}

// Handed says that needs-human was written: a person has the item now, and what led there is forgotten.
type Handed struct {
	Ref    Ref  `json:"ref"`
	Rounds int  `json:"rounds,omitempty"` // review rounds that led there
	Fixes  bool `json:"fixes,omitempty"`  // CI fixes led there
}

// Told says which reason was commented on an item, by its key.
type Told struct {
	Ref Ref    `json:"ref"`
	Key string `json:"key"`
}

// Forget says that the issue or pull request is gone from the forge's open work.
type Forget struct {
	Ref Ref `json:"ref"`
}

// Steal says that an issue is to change hands, or how that ended.
type Steal struct {
	Ref  Ref    `json:"ref"`
	Run  string `json:"run"` // of the claim that keeps others off meanwhile
	From string `json:"from"`
	To   string `json:"to"`
	// FromLogin and ToLogin are their accounts, which a reload may change.
	FromLogin string `json:"from_login,omitempty"`
	ToLogin   string `json:"to_login,omitempty"`
	Done      bool   `json:"done,omitempty"`
	Why       string `json:"why,omitempty"` // the issue stays after all; with Done
}

// Pause says that a thread, an agent or, with neither, everything was paused or, with Off, resumed.
type Pause struct {
	Thread string `json:"thread,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Off    bool   `json:"off,omitempty"`
}

// Cancel says that issues and pull requests are to be labelled cancelled, whatever comes in between, or that it is
// done.
type Cancel struct {
	Refs  []Ref `json:"refs"`
	Close bool  `json:"close,omitempty"` // they are to be closed as well
	Done  bool  `json:"done,omitempty"`
}

// Retry says that what keeps an issue and its pull requests from being worked on is forgotten.
type Retry struct {
	Refs []Ref `json:"refs"` // the chain is among them
}

// Chain is the history of an issue or pull request.
type Chain struct {
	Ref Ref `json:"ref"`
	threads.ChainHistory
}

// Item is the history of one piece of work.
type Item struct {
	Key Key `json:"key"`
	threads.ItemHistory
}

// Agent is the history of an agent.
type Agent struct {
	Name string `json:"name"`
	threads.AgentHistory
}

// Thread is the history of a thread.
type Thread struct {
	Name string `json:"name"`
	threads.ThreadHistory
}

// Slot is the resident of a sticky slot.
type Slot struct {
	Thread string    `json:"thread"`
	Slot   int       `json:"slot"`
	Agent  string    `json:"agent"`
	Chain  Ref       `json:"chain"`
	Left   time.Time `json:"left,omitzero"` // when its session ended
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

// Ref is a forge.Ref in a journal line, written as people write it.
type Ref forge.Ref

// MarshalText writes owner/name#12.
func (r Ref) MarshalText() ([]byte, error) { return []byte(forge.Ref(r).String()), nil }

// UnmarshalText reads owner/name#12, and owner/name for the repository itself.
func (r *Ref) UnmarshalText(text []byte) error {
	repo, number, numbered := strings.Cut(string(text), "#")
	*r = Ref{Repo: repo}
	if !numbered {
		return nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("cannot read %q as an issue", text)
	}
	r.Number = n
	return nil
}

// Key is a threads.Key in a journal line.
type Key struct {
	Kind agents.Kind `json:"kind"`
	Ref  Ref         `json:"ref"`
	Role string      `json:"role,omitempty"`
}

// KeyOf returns the journal's form of a key.
func KeyOf(k threads.Key) Key { return Key{k.Kind, Ref(k.Ref), k.Role} }

// Of returns the scheduler's form of a key.
func (k Key) Of() threads.Key { return threads.Key{Kind: k.Kind, Ref: forge.Ref(k.Ref), Role: k.Role} }

// valid reports whether a line says something that this version understands, and says it wholly.
func (r *Record) valid() bool {
	switch {
	case r.At.IsZero():
		return false
	case r.Start != nil:
		return r.Start.valid()
	case r.Open != nil:
		return r.Open.valid()
	case r.End != nil:
		return r.End.Run != "" && r.End.Result != ""
	case r.Released != nil:
		return r.Released.Ref.Repo != ""
	case r.Blocked != nil:
		return r.Blocked.Chain.Repo != "" && r.Blocked.Kind != ""
	case r.Handed != nil:
		return r.Handed.Ref.Repo != "" && r.Handed.Rounds >= 0
	case r.Told != nil:
		return r.Told.Ref.Repo != "" && r.Told.Key != ""
	case r.Steal != nil:
		return r.Steal.Ref.Repo != "" && r.Steal.Run != ""
	case r.Forget != nil:
		return r.Forget.Ref.Repo != ""
	case r.Pause != nil:
		return r.Pause.Thread == "" || r.Pause.Agent == ""
	case r.Cancel != nil:
		return named(r.Cancel.Refs)
	case r.Retry != nil:
		return named(r.Retry.Refs)
	}
	return r.validFact()
}

func (r *Record) validFact() bool {
	switch {
	case r.Chain != nil:
		return r.Chain.Ref.Repo != "" && min(r.Chain.CIFixes, r.Chain.Asked) >= 0
	case r.Item != nil:
		return r.Item.Key.Ref.Repo != "" && min(r.Item.PassedOver, r.Item.Remarks) >= 0
	case r.Agent != nil:
		return r.Agent.Name != ""
	case r.Thread != nil:
		return r.Thread.Name != "" && r.Thread.Downs >= 0
	case r.Slot != nil:
		return r.Slot.Thread != "" && r.Slot.Slot >= 0
	case r.Past != nil:
		return r.Past.Kind != "" && r.Past.Ref.Repo != "" && r.Past.Chain.Repo != ""
	}
	return r.Recent != nil
}

// named reports whether a list is not empty and each reference in it has a repository.
func named(refs []Ref) bool {
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r Ref) bool { return r.Repo == "" })
}

func (s *Start) valid() bool {
	over := s.PassedOver == (Key{}) || s.PassedOver.Ref.Repo != ""
	return s.Run != "" && s.Agent != "" && s.Thread != "" && s.Item.Kind != "" && s.Item.Ref.Repo != "" &&
		s.Chain.Repo != "" && over
}
