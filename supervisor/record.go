package supervisor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// record is one line of the journal: when, and exactly one of the things that can happen or be the case. What the
// supervisor remembers is the fold of its records by history.apply, live and after a restart alike.
type record struct {
	At time.Time `json:"at"`

	// What happens.
	Start    *startRecord    `json:"start,omitempty"`
	End      *endRecord      `json:"end,omitempty"`
	Released *releasedRecord `json:"released,omitempty"`
	Blocked  *blockedRecord  `json:"blocked,omitempty"`
	Handed   *handedRecord   `json:"handed,omitempty"`
	Told     *toldRecord     `json:"told,omitempty"`
	Forget   *forgetRecord   `json:"forget,omitempty"`
	Steal    *stealRecord    `json:"steal,omitempty"`

	// What a person said, which is also what is the case.
	Pause *pauseRecord `json:"pause,omitempty"`

	// What else a person said.
	Cancel *cancelRecord `json:"cancel,omitempty"`
	Retry  *retryRecord  `json:"retry,omitempty"`

	// What is the case: the lines that compaction writes.
	Open   *startRecord            `json:"open,omitempty"`
	Chain  *chainRecord            `json:"chain,omitempty"`
	Item   *itemRecord             `json:"item,omitempty"`
	Agent  *agentRecord            `json:"agent,omitempty"`
	Thread *threadRecord           `json:"thread,omitempty"`
	Slot   *slotRecord             `json:"slot,omitempty"`
	Recent *control.RecentDocument `json:"recent,omitempty"`
	Past   *pastRecord             `json:"past,omitempty"`
}

// startRecord says that a session is about to claim its item.
type startRecord struct {
	Run     string        `json:"run"`
	Thread  string        `json:"thread"`
	Slot    int           `json:"slot"`
	Sticky  bool          `json:"sticky,omitempty"` // the slot keeps a cache between sessions
	Agent   string        `json:"agent"`
	Login   string        `json:"login"` // the account that claims
	Role    string        `json:"role"`
	Item    key           `json:"item"`
	Chain   ref           `json:"chain"`
	Cause   threads.Cause `json:"cause,omitempty"`
	Attempt int           `json:"attempt"`
	// PassedOver is the item that stood ahead and could have had the slot.
	PassedOver key `json:"passed_over,omitzero"`
	// Ready, Priority and Skills are what a simulation of the past has to know.
	Ready    time.Time `json:"ready,omitzero"`
	Priority int       `json:"priority,omitempty"`
	Skills   []string  `json:"skills,omitempty"`
	// NewWriter is set in the open record of an agent that had not written on the chain before.
	NewWriter bool `json:"new_writer,omitempty"`
}

// endRecord says how a session ended, with all that its consequences follow from.
type endRecord struct {
	Run    string        `json:"run"`
	Result agents.Result `json:"result"`
	Reason string        `json:"reason,omitempty"`
	// Remarked marks a session that left words only: see threads.Remarked.
	Remarked bool          `json:"remarked,omitempty"`
	Claim    claimFailure  `json:"claim,omitempty"`     // of agents.ClaimFailed
	Stop     threads.Code  `json:"stop,omitempty"`      // of agents.Cancelled by reconcile or a person
	RetryAt  time.Time     `json:"retry_at,omitzero"`   // of agents.Limited; zero means unknown
	Breaker  time.Duration `json:"breaker,omitempty"`   // the thread's breaker_interval
	Tail     string        `json:"tail,omitempty"`      // last lines of output of a failure, redacted
	LastLine string        `json:"last_line,omitempty"` // of them, where the program said nothing itself
	Session  string        `json:"session,omitempty"`   // the program's own session id
	Usage    *agents.Usage `json:"usage,omitempty"`     // nil means unknown
	CPU      time.Duration `json:"cpu,omitempty"`       // user and system time of the whole tree
	MaxRSS   int64         `json:"max_rss,omitempty"`   // bytes
	Exit     string        `json:"exit,omitempty"`      // exit code or signal, where it is not 0
	NeverRan bool          `json:"no_start,omitempty"`  // the program could not be started
	Verdict  verdict       `json:"verdict,omitempty"`   // of a review; empty where it left none
}

// verdict is a forge.Verdict that decides something.
type verdict string

const (
	verdictApproved verdict = "approved"
	verdictChanges  verdict = "changes"
)

// claimFailure says why a claim failed.
type claimFailure string

const (
	claimTaken       claimFailure = "taken"       // somebody else has it
	claimForbidden   claimFailure = "forbidden"   // the account may not
	claimUnavailable claimFailure = "unavailable" // the forge did not answer, or said something unexpected
)

// releasedRecord says that no claim of ours is left on the item.
type releasedRecord struct {
	Ref ref `json:"ref"`
}

// blockedRecord says that the label blocked was written after the last attempt.
type blockedRecord struct {
	Chain ref         `json:"chain"`
	Kind  agents.Kind `json:"kind"`
}

// handedRecord says that needs-human was written: a person has it now, and what led there is forgotten.
type handedRecord struct {
	Ref    ref  `json:"ref"`
	Rounds int  `json:"rounds,omitempty"` // review rounds that led there
	Fixes  bool `json:"fixes,omitempty"`  // CI fixes led there
}

// toldRecord says what people were told of an item, as the key of a reason.
type toldRecord struct {
	Ref ref    `json:"ref"`
	Key string `json:"key"`
}

// forgetRecord says that the issue or pull request is gone from the forge's open work.
type forgetRecord struct {
	Ref ref `json:"ref"`
}

// stealRecord says that an issue is to change hands, or how that ended.
type stealRecord struct {
	Ref  ref    `json:"ref"`
	Run  string `json:"run"` // of the claim that keeps others off meanwhile
	From string `json:"from"`
	To   string `json:"to"`
	// FromLogin and ToLogin are their accounts, which a reload may change.
	FromLogin string `json:"from_login,omitempty"`
	ToLogin   string `json:"to_login,omitempty"`
	Done      bool   `json:"done,omitempty"`
	Why       string `json:"why,omitempty"` // it stays after all; with Done
}

// pauseRecord says that a thread, an agent or, with neither, everything was paused, or is no more.
type pauseRecord struct {
	Thread string `json:"thread,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Off    bool   `json:"off,omitempty"`
}

// cancelRecord says that issues and pull requests are to be labelled cancelled, whatever comes in between, or that it is
// done.
type cancelRecord struct {
	Refs  []ref `json:"refs"`
	Close bool  `json:"close,omitempty"` // they are to be closed as well
	Done  bool  `json:"done,omitempty"`
}

// retryRecord says that what keeps an issue and its pull requests from being worked on is forgotten.
type retryRecord struct {
	Refs []ref `json:"refs"` // the chain is among them
}

// chainRecord is what is known of an issue or pull request.
type chainRecord struct {
	Ref       ref             `json:"ref"`
	Claimed   string          `json:"claimed,omitempty"` // agent
	Login     string          `json:"login,omitempty"`   // its account
	Writers   []string        `json:"writers,omitempty"`
	CIFixes   int             `json:"ci_fixes,omitempty"`
	Asked     int             `json:"asked,omitempty"`
	Told      string          `json:"told,omitempty"`
	Refused   string          `json:"refused,omitempty"`
	RefusedAt time.Time       `json:"refused_at,omitzero"`
	Retried   time.Time       `json:"retried,omitzero"`
	Cancel    bool            `json:"cancel,omitempty"` // the label cancelled is still to be written
	Close     bool            `json:"close,omitempty"`  // and the issue then closed
	Attempts  []attemptRecord `json:"attempts,omitempty"`

	Written   time.Time `json:"written,omitzero"`     // when the newest session in a sticky slot ended that has no verdict yet
	WrittenOn string    `json:"written_on,omitempty"` // the thread of that slot
}

// attemptRecord is the failure count of one kind of work on a chain.
type attemptRecord struct {
	Kind   agents.Kind `json:"kind"`
	Count  int         `json:"count"`
	Until  time.Time   `json:"until,omitzero"`
	Marked bool        `json:"marked,omitempty"`
	Failed time.Time   `json:"failed,omitzero"` // when the last one ended
	Reason string      `json:"reason,omitempty"`
	Tail   string      `json:"tail,omitempty"`
}

// itemRecord is what is known of one piece of work.
type itemRecord struct {
	Key        key       `json:"key"`
	CoolDown   time.Time `json:"cool_down,omitzero"`
	LastRun    time.Time `json:"last_run,omitzero"`
	PassedOver int       `json:"passed_over,omitempty"`
	Remarks    int       `json:"remarks,omitempty"`
}

// agentRecord is what is known of an agent.
type agentRecord struct {
	Name      string    `json:"name"`
	IdleSince time.Time `json:"idle_since,omitzero"`
	HeldUntil time.Time `json:"held_until,omitzero"`
	HeldWhy   string    `json:"held_why,omitempty"`
	Done      int       `json:"done,omitempty"`
	Failed    int       `json:"failed,omitempty"`
	Fruitless int       `json:"fruitless,omitempty"` // sessions in a row that achieved nothing

	Spent *spentRecord `json:"spent,omitempty"`
}

// spentRecord is what an agent or a thread used on one day.
type spentRecord struct {
	Day    time.Time `json:"day"`
	Tokens int64     `json:"tokens"`
	USD    float64   `json:"usd"`
}

// threadRecord is what is known of a thread.
type threadRecord struct {
	Name        string    `json:"name"`
	ParkedUntil time.Time `json:"parked_until,omitzero"`
	ParkedWhy   string    `json:"parked_why,omitempty"`
	Downs       int       `json:"downs,omitempty"`

	Returns *threads.Returns `json:"returns,omitempty"`

	Spent *spentRecord `json:"spent,omitempty"`
}

// slotRecord is the resident of a sticky slot.
type slotRecord struct {
	Thread string `json:"thread"`
	Slot   int    `json:"slot"`
	Agent  string `json:"agent"`
	Chain  ref    `json:"chain"`

	Left time.Time `json:"left,omitzero"` // when its session ended
}

// pastRecord is what is kept of a session that ended long ago: who did what from when to when.
type pastRecord struct {
	Agent    string      `json:"agent"`
	Kind     agents.Kind `json:"kind"`
	Ref      ref         `json:"ref"`
	Chain    ref         `json:"chain"`
	Ready    time.Time   `json:"ready,omitzero"`
	Priority int         `json:"priority,omitempty"`
	Skills   []string    `json:"skills,omitempty"`
	Start    time.Time   `json:"start"`
	End      time.Time   `json:"end"`
}

// ref is a forge.Ref that is written as people write it.
type ref forge.Ref

// MarshalText writes owner/name#12.
func (r ref) MarshalText() ([]byte, error) { return []byte(forge.Ref(r).String()), nil }

// UnmarshalText reads owner/name#12, and owner/name for the repository itself.
func (r *ref) UnmarshalText(text []byte) error {
	repo, number, numbered := strings.Cut(string(text), "#")
	*r = ref{Repo: repo}
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

// key is a threads.Key in a journal line.
type key struct {
	Kind agents.Kind `json:"kind"`
	Ref  ref         `json:"ref"`
	Role string      `json:"role,omitempty"`
}

func keyOf(k threads.Key) key { return key{k.Kind, ref(k.Ref), k.Role} }
func (k key) threads() threads.Key {
	return threads.Key{Kind: k.Kind, Ref: forge.Ref(k.Ref), Role: k.Role}
}

// valid reports whether a line says something that this version understands, and says it wholly.
func (r *record) valid() bool {
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
	}
	if r.Past != nil {
		return r.Past.Kind != "" && r.Past.Ref.Repo != "" && r.Past.Chain.Repo != ""
	}
	return r.Recent != nil
}

// named reports whether a list names something, and nothing that has no repository.
func named(refs []ref) bool {
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r ref) bool { return r.Repo == "" })
}

func (s *startRecord) valid() bool {
	over := s.PassedOver == (key{}) || s.PassedOver.Ref.Repo != ""
	return s.Run != "" && s.Agent != "" && s.Thread != "" && s.Item.Kind != "" && s.Item.Ref.Repo != "" && s.Chain.Repo != "" && over
}
