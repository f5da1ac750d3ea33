package threads

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// History holds the facts that the forge does not have. It is folded from the journal (see package ledger), and
// losing it loses no work. Decide only looks entries up and never iterates over the maps, so their order cannot reach
// a decision. A nil map is empty.
//
// The JSON tags are those of the journal's compacted lines.
type History struct {
	Chains  map[forge.Ref]*ChainHistory
	Items   map[Key]*ItemHistory
	Agents  map[string]*AgentHistory
	Threads map[string]*ThreadHistory
	Authors map[string]*AuthorHistory // by account: people whose pull requests were reviewed within the last hour
	Tolls   map[forge.Ref]*Toll       // by chain, also of closed issues
	Opened  map[string]*OpenedDay     // by account: agents and strangers
	Repos   map[string]*RepoHistory   // by repository
	Listens map[string]time.Time      // by repository: when we first read it, by the forge's clock
	Failing map[Crew]*Streak          // agents, threads and roles whose last session failed
	Slots   map[SlotKey]Warm          // residents of sticky slots
	Paused  map[Pause]PauseNote       // what people paused: a thread, an agent, a repository or everything
	// Touched has the time at which we last wrote to an issue or pull request, or a session on it ended. A fact
	// requested before that is stale and is not acted on. Touched is not journalled: after a restart every fact is newer
	// than every write.
	Touched map[forge.Ref]time.Time
}

// NewHistory returns an empty history that can be written to.
func NewHistory() History {
	return History{
		Chains:  make(map[forge.Ref]*ChainHistory),
		Items:   make(map[Key]*ItemHistory),
		Agents:  make(map[string]*AgentHistory),
		Threads: make(map[string]*ThreadHistory),
		Authors: make(map[string]*AuthorHistory),
		Tolls:   make(map[forge.Ref]*Toll),
		Opened:  make(map[string]*OpenedDay),
		Repos:   make(map[string]*RepoHistory),
		Listens: make(map[string]time.Time),
		Failing: make(map[Crew]*Streak),
		Slots:   make(map[SlotKey]Warm),
		Paused:  make(map[Pause]PauseNote),
		Touched: make(map[forge.Ref]time.Time),
	}
}

// Chain returns what is known of an issue or pull request. It is never nil and must not be written to; the same holds
// for the methods below.
func (h *History) Chain(r forge.Ref) *ChainHistory { return orNone(h.Chains[r], &noChain) }

// Item returns what is known of a piece of work.
func (h *History) Item(k Key) *ItemHistory { return orNone(h.Items[k], &noItem) }

// Agent returns what is known of an agent.
func (h *History) Agent(name string) *AgentHistory { return orNone(h.Agents[name], &noAgent) }

// Thread returns what is known of a thread.
func (h *History) Thread(name string) *ThreadHistory { return orNone(h.Threads[name], &noThread) }

// Repo returns what is known of a repository.
func (h *History) Repo(name string) *RepoHistory { return orNone(h.Repos[name], &noRepo) }

func orNone[V any](entry, none *V) *V {
	if entry != nil {
		return entry
	}
	return none
}

// The entries of keys that are not in the maps.
var (
	noRepo   RepoHistory
	noChain  ChainHistory
	noItem   ItemHistory
	noAgent  AgentHistory
	noThread ThreadHistory
)

// ChainHistory remembers an issue or a pull request.
type ChainHistory struct {
	Claimed string `json:"claimed,omitempty"` // the agent that holds our claim; empty without one
	Login   string `json:"login,omitempty"`   // that agent's account at the time of the claim; a reload may change it
	// Writers are the agents that ran a writing session on the chain, in the order of their first one.
	Writers []string `json:"writers,omitempty"`
	// LastWriter is the one of Writers that wrote last; empty if that is the last of them. See Finisher.
	LastWriter string `json:"last_writer,omitempty"`
	// Asked counts the rounds of a pull request that a person has sent back. The limit of rounds ignores them. Only
	// journals of older versions have it: a person now says retry.
	Asked int `json:"asked,omitempty"`
	// Failures counts the attempts that writing sessions burnt since the last retry, and Rung is the highest rung of a
	// ladder that the chain reached in that time; see Config.Ladder.
	Failures int `json:"failures,omitempty"`
	Rung     int `json:"rung,omitempty"`
	// Handed counts how often a person was asked to look at it since the last retry.
	Handed int `json:"handed,omitempty"`
	// Approved has each agent's last approval of the pull request in one of our review sessions.
	Approved []Approval `json:"approved,omitempty"`
	// Carried is the last update of the pull request; nil without one.
	Carried *Carried `json:"carried,omitempty"`
	// Unshown is the last head of which a review session was not shown all, and asked for no change; nil without one.
	// Only a person can approve that head.
	Unshown *Unshown `json:"unshown,omitempty"`
	// NoMerge is the forge's last refusal to merge the pull request; nil without one.
	NoMerge *NoMerge `json:"no_merge,omitempty"`
	// Told is the Key of the reason that was commented last, so that each reason is commented once.
	Told string `json:"told,omitempty"`
	// Refused is the reason that an agent gave for refusing the item, until the label needs-human is written.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refused_at,omitzero"`  // set after every refusal, even one without a reason
	RefusedAs Code      `json:"refused_as,omitempty"` // the code of the refusal, where it is not Refused
	Used      Used      `json:"used,omitzero"`        // by all sessions on it, since a person last looked at the usage
	// Labelled is the last label that asks a person to look, until work continues.
	Labelled Labelled `json:"labelled,omitzero"`
	// Dialogue is the last question or plan of an agent; nil when there is none, or the work is done.
	Dialogue *Dialogue `json:"dialogue,omitempty"`
	// Planner is the agent that was last started to plan it, since the last retry. From then on it needs a plan,
	// whatever happens to the label.
	Planner string `json:"planner,omitempty"`
	// Questions and Plans count those of agents since the last retry.
	Questions int `json:"questions,omitempty"`
	Plans     int `json:"plans,omitempty"`
	// Retried is the time of the last retry. Earlier rejections and review rounds do not count.
	Retried  time.Time `json:"retried,omitzero"`
	Cancel   bool      `json:"cancel,omitempty"`   // a person cancelled it, and the label is not written yet
	Close    bool      `json:"close,omitempty"`    // the issue has to be closed after that
	Attempts []Attempt `json:"attempts,omitempty"` // by kind; see Attempt
	// Written is when a writing session in a sticky slot ended whose work has no verdict yet. WrittenOn is its thread.
	Written   time.Time `json:"written,omitzero"`
	WrittenOn string    `json:"written_on,omitempty"`
	// Place is the place of the chain's last session that ran elsewhere; see agents.Started.
	Place string `json:"place,omitempty"`
}

// Labelled is one of our labels with its cause, in words. The zero value means that there is none.
type Labelled struct {
	Label string `json:"label"`
	Why   string `json:"why"`
}

// Approval is a change that an agent approved in a review session. The same head is another change if it goes to
// another branch, or if it left the same branch at another commit.
type Approval struct {
	Agent     string `json:"agent,omitempty"` // absent in the record of a session, which names the agent
	Head      string `json:"head"`
	Base      string `json:"base"`
	MergeBase string `json:"merge_base,omitempty"`
}

// Unshown is a head and a base whose difference no reviewer was shown whole. Words say what was not shown.
type Unshown struct {
	Head  string `json:"head"`
	Base  string `json:"base"`
	Words string `json:"words,omitempty"`
}

// Carried is a head of a pull request that the supervisor made, by merging the base into an approved head. Approvals of
// the heads in Same are approvals of Head.
type Carried struct {
	Head      string    `json:"head"`
	Same      []string  `json:"same,omitempty"`
	Base      string    `json:"base"`
	MergeBase string    `json:"merge_base"`
	At        time.Time `json:"at"`
	// Red reports that the base had been red, not that the branch merges only what is up to date.
	Red bool `json:"red,omitempty"`
}

// carries reports whether an approval of a head is one of the present head of a pull request, which only a merge of the
// base separates from it. A forge that does not count the old approval refuses the merge, and a new one is needed.
func (c *ChainHistory) carries(p *forge.Pull, head string) bool {
	to := c.Carried
	if to == nil || to.Head != p.HeadSHA || to.Base != p.Base || to.MergeBase != p.MergeBase {
		return false
	}
	refused := c.NoMerge != nil && c.NoMerge.Head == p.HeadSHA && c.NoMerge.Cause == forge.RefusedRule
	return !refused && slices.Contains(to.Same, head)
}

// NoMerge is the forge's refusal to merge a head into a base.
type NoMerge struct {
	Head  string             `json:"head"`
	Base  string             `json:"base"`
	Cause forge.RefusalCause `json:"cause"`
	Words string             `json:"words"`
	Count int                `json:"count"` // refusals of this head in a row
	Until time.Time          `json:"until"` // the next try
}

// Approve replaces the last approval of an agent.
func (c *ChainHistory) Approve(a Approval) {
	others := func(o Approval) bool { return o.Agent == a.Agent }
	c.Approved = append(slices.DeleteFunc(slices.Clone(c.Approved), others), a)
}

// Finisher is the agent that ran the chain's last writing session; empty if none did. A journal that was compacted by a
// version without LastWriter names the agent that joined last.
func (c *ChainHistory) Finisher() string {
	if c.LastWriter != "" || len(c.Writers) == 0 {
		return c.LastWriter
	}
	return c.Writers[len(c.Writers)-1]
}

// Wrote notes that an agent runs a writing session on the chain.
func (c *ChainHistory) Wrote(agent string) {
	if !slices.Contains(c.Writers, agent) {
		c.Writers = append(c.Writers, agent)
	}
	if c.LastWriter = ""; c.Finisher() != agent {
		c.LastWriter = agent
	}
}

// HasRefusal reports whether an agent refused the item and no person has been asked yet. The refusal may have no
// words.
func (c *ChainHistory) HasRefusal() bool { return c.Refused != "" || !c.RefusedAt.IsZero() }

// Attempt returns the failures at one kind of work; zero when there are none.
func (c *ChainHistory) Attempt(kind agents.Kind) Attempt {
	for i := range c.Attempts {
		if c.Attempts[i].Kind == kind {
			return c.Attempts[i]
		}
	}
	return Attempt{}
}

// SetAttempt replaces the failures at the kind of work that a names.
func (c *ChainHistory) SetAttempt(a Attempt) {
	i, found := c.attempt(a.Kind)
	if !found {
		c.Attempts = slices.Insert(c.Attempts, i, Attempt{})
	}
	c.Attempts[i] = a
}

// ClearAttempt forgets the failures at one kind of work.
func (c *ChainHistory) ClearAttempt(kind agents.Kind) {
	if i, found := c.attempt(kind); found {
		c.Attempts = slices.Delete(c.Attempts, i, i+1)
	}
	if len(c.Attempts) == 0 {
		c.Attempts = nil
	}
}

func (c *ChainHistory) attempt(kind agents.Kind) (i int, found bool) {
	return slices.BinarySearchFunc(c.Attempts, kind, func(a Attempt, k agents.Kind) int {
		return strings.Compare(string(a.Kind), string(k))
	})
}

// Attempt counts the failures of a chain at one kind of work since the last progress or retry. Scheduled work has none.
type Attempt struct {
	Kind  agents.Kind `json:"kind"`
	Count int         `json:"count"`
	Until time.Time   `json:"until,omitzero"` // the next attempt may start then
	// Marked reports that the label blocked was written after the last attempt. When the forge no longer shows it, a
	// person removed it, and the count starts again at zero.
	Marked bool      `json:"marked,omitempty"`
	Failed time.Time `json:"failed,omitzero"` // when the last failure ended; cleared once the label is written
	Reason string    `json:"reason,omitempty"`
	Tail   string    `json:"tail,omitempty"` // the last lines of its output, redacted
	// Allow is the line of factory.toml that would allow the hosts that it was refused; empty if there is none.
	Allow string `json:"allow,omitempty"`
}

// ItemHistory remembers one piece of work.
type ItemHistory struct {
	// CoolDown holds the item until a time for a reason that burnt no attempt, such as a lost claim.
	CoolDown   time.Time  `json:"cool_down,omitzero"`
	CoolWhy    string     `json:"cool_why,omitempty"` // the reason in words; see Rest
	LastRun    time.Time  `json:"last_run,omitzero"`  // when scheduled work last finished, whatever the outcome
	Asked      time.Time  `json:"asked,omitzero"`     // when a person asked for a run of scheduled work
	Runs       FailedRuns `json:"runs,omitzero"`
	PassedOver int        `json:"passed_over,omitempty"` // how often a slot went to an item behind this one
	Remarks    int        `json:"remarks,omitempty"`     // sessions in a row that left nothing but comments or labels
	Downs      int        `json:"downs,omitempty"`       // sessions in a row that found no backend while others did
	// FailedBy is the agent of its last session, if that failed, at FailedAt.
	FailedBy string    `json:"failed_by,omitempty"`
	FailedAt time.Time `json:"failed_at,omitzero"`
	// Behind puts the item behind the others of its priority class until a time: a failing agent was tried with it, and
	// the next try should be with another one.
	Behind time.Time `json:"behind,omitzero"`
	// Alone counts the sessions since the last answered one that were not answered although their agent's session
	// before had been: then the item may be at fault.
	Alone int `json:"alone,omitempty"`
}

// FailedRuns are the runs of scheduled work that failed since the last one that did not.
type FailedRuns struct {
	Failed int       `json:"failed,omitempty"`
	Since  time.Time `json:"since,omitzero"` // when the first of them ended
	Agent  string    `json:"agent,omitempty"`
	Words  string    `json:"words,omitempty"` // the last one's, in one line
}

// RunsFailing is how many runs of scheduled work in a row fail before a person must know.
const RunsFailing = 5

// Wanted reports whether a person asked for a run of scheduled work that has not ended since.
func (h *ItemHistory) Wanted() bool { return h.Asked.After(h.LastRun) }

// Rest holds the item until a time, and replaces the reason of an earlier rest.
func (h *ItemHistory) Rest(until time.Time, why string) { h.CoolDown, h.CoolWhy = until, why }

// AgentHistory remembers an agent.
type AgentHistory struct {
	IdleSince time.Time `json:"idle_since,omitzero"` // when its last session ended, or when it was first seen
	// HeldUntil and HeldWhy keep the agent from starting; see Held.
	HeldUntil time.Time `json:"held_until,omitzero"`
	HeldWhy   string    `json:"held_why,omitempty"`
	HeldAs    Code      `json:"held_as,omitempty"` // the code of the hold, where it is not AgentHeld
	Done      int       `json:"done,omitempty"`    // sessions that achieved something
	Failed    int       `json:"failed,omitempty"`  // sessions that burnt an attempt
	Downs     int       `json:"downs,omitempty"`   // sessions in a row without an answer while others had one
	Spent     Spent     `json:"spent,omitzero"`
}

// Hold keeps the agent from starting until a time; zero means until the configuration changes.
func (a *AgentHistory) Hold(until time.Time, why string) { a.HoldAs("", until, why) }

// HoldAs is Hold with the code of the reason.
func (a *AgentHistory) HoldAs(code Code, until time.Time, why string) {
	a.HeldAs, a.HeldUntil, a.HeldWhy = code, until, why
}

// Rejected reports whether the forge has rejected the agent's token and not recognised it since, even if the agent is
// not Held any more, so that the forge may be asked again.
func (a *AgentHistory) Rejected() bool { return a.HeldAs == TokenRejected && a.HeldWhy != "" }

// Held reports whether the agent is held now.
func (a *AgentHistory) Held(now time.Time) bool {
	if a.HeldUntil.IsZero() {
		return a.HeldWhy != ""
	}
	return a.HeldUntil.After(now)
}

// ThreadHistory remembers a thread.
type ThreadHistory struct {
	// ParkedUntil and ParkedWhy keep the thread from starting: after a usage limit, or while the breaker is open. They
	// stay set after that time until a session finds the backend, because the first session is a probe. A zero time
	// means not parked.
	ParkedUntil time.Time `json:"parked_until,omitzero"`
	ParkedWhy   string    `json:"parked_why,omitempty"`
	ParkedAs    Code      `json:"parked_as,omitempty"` // ThreadDown; empty: a provider's limit
	Downs       int       `json:"downs,omitempty"`     // sessions in a row that found no backend
	Limits      int       `json:"limits,omitempty"`    // sessions in a row, one after the other, that met a usage limit
	// Unanswered is the agent whose session had no answer, since the last session that had one.
	Unanswered string  `json:"unanswered,omitempty"`
	Returns    Returns `json:"returns,omitzero"` // how soon verdicts on the thread's work came
	Spent      Spent   `json:"spent,omitzero"`
	Uses       []Use   `json:"uses,omitempty"`  // within MaxWindow, oldest first
	Paces      []Pace  `json:"paces,omitempty"` // by kind
	// Talks are the last conversations of a sticky thread, the last used one first.
	Talks []Talk `json:"talks,omitempty"`
	// Forgotten are the models whose conversations are not saved, because a file failed to restore one.
	Forgotten []Forgotten `json:"forgotten,omitempty"`
	// Prices are the dollars for a token read, by model, in the newest session that reported a cost.
	Prices map[string]float64 `json:"prices,omitempty"`
}

// RepoHistory remembers a repository.
type RepoHistory struct {
	// SetupFails counts the sessions in a row, one after the other, whose setup failed at the base commit. No issue of the
	// repository starts before SetupUntil. SetupWhy is the command and how it ended.
	SetupFails int       `json:"setup_fails,omitempty"`
	SetupUntil time.Time `json:"setup_until,omitzero"`
	SetupWhy   string    `json:"setup_why,omitempty"`
	// RedBase is the newest base commit at which the commands that verify work failed, and RedWhy the command and how it
	// ended; empty once they have passed.
	RedBase string `json:"red_base,omitempty"`
	RedWhy  string `json:"red_why,omitempty"`
	// Turns has the last start of each kind of work. The repository whose last one is oldest has the next turn.
	Turns map[agents.Kind]time.Time `json:"turns,omitempty"`
	Spent Spent                     `json:"spent,omitzero"`
	// Barred has the agents whose accounts lack a right in the repository.
	Barred map[string]Bar `json:"barred,omitempty"`
}

// Bar keeps an agent from starting in one repository.
type Bar struct {
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}

// AuthorHistory remembers a person who opened a pull request.
type AuthorHistory struct {
	// Reviews has the start of each review of their pull requests, by run.
	Reviews map[string]time.Time `json:"reviews"`
}

// ReviewHour is how long a review counts against the author of its pull request.
const ReviewHour = time.Hour

// Reviewed returns when the reviews of a person's pull requests began, for the reviews of the last hour, oldest first.
func (h *History) Reviewed(author string, now time.Time) (began []time.Time) {
	if a := h.Authors[author]; a != nil {
		for _, at := range a.Reviews {
			if now.Sub(at) < ReviewHour {
				began = append(began, at)
			}
		}
		slices.SortFunc(began, time.Time.Compare)
	}
	return began
}

// SlotKey names a slot of a thread.
type SlotKey struct {
	Thread string `json:"thread"`
	Slot   int    `json:"slot"`
}

// Compare orders slots by thread, then by number.
func (k SlotKey) Compare(other SlotKey) int {
	return cmp.Or(strings.Compare(k.Thread, other.Thread), cmp.Compare(k.Slot, other.Slot))
}

// Warm is the resident of a sticky slot: the agent that ran there last, and its chain.
type Warm struct {
	Agent string
	Chain forge.Ref
	Left  time.Time // when that session ended; zero when that is not known
}

// Pause names what is paused: a thread, an agent, a repository, new work or, with none of them, everything.
type Pause struct {
	Thread string `json:"thread,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Repo   string `json:"repo,omitempty"`
	Drain  bool   `json:"drain,omitempty"` // issues that no session has begun, and scheduled work
}

// Name returns the name of what is paused; empty for everything.
func (p Pause) Name() string { return cmp.Or(p.Thread, p.Agent, p.Repo) }

// PauseNote says since when a pause lasts, who wanted it and why; both are empty if unknown.
type PauseNote struct {
	PausedAt  time.Time `json:"paused_at,omitzero"`
	PausedBy  string    `json:"paused_by,omitempty"`
	PausedWhy string    `json:"paused_why,omitempty"`
	ThenStop  bool      `json:"then_stop,omitempty"` // of a drain: the supervisor ends once all that was begun is done
}

// Words continues "is paused": " by ada since TIME: too many mistakes". They are empty if nobody is known.
func (p PauseNote) Words() (words string) {
	if p.PausedBy != "" {
		words = " by " + p.PausedBy + " since " + p.PausedAt.UTC().Format(time.RFC3339)
	}
	if p.PausedWhy != "" {
		words += ": " + p.PausedWhy
	}
	return words
}

// Compare orders pauses: everything, new work, then repositories, agents and threads, each by name.
func (p Pause) Compare(other Pause) int {
	if p.Drain != other.Drain && p.Name()+other.Name() == "" {
		if p.Drain {
			return 1
		}
		return -1
	}
	return cmp.Or(strings.Compare(p.Thread, other.Thread), strings.Compare(p.Agent, other.Agent),
		strings.Compare(p.Repo, other.Repo))
}
