package ledger

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Start records that a session is about to claim its item.
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
	Rung    int           `json:"rung,omitempty"` // rung of the ladder that the chain has reached
	// PassedOver is the item that was ahead and could have had the slot.
	PassedOver Key `json:"passed_over,omitzero"`
	// Author is the person whose pull request is reviewed.
	Author string `json:"author,omitempty"`
	// Opener is the agent or stranger whose daily limit the session counts for.
	Opener string `json:"opener,omitempty"`
	// Ready, Priority, Skills and Pinned are for simulations of the past.
	Ready    time.Time `json:"ready,omitzero"`
	Priority int       `json:"priority,omitempty"`
	Skills   []string  `json:"skills,omitempty"`
	Labels   []string  `json:"labels,omitempty"` // of the issue, for reports: neither ours nor those of skills
	Pinned   bool      `json:"pinned,omitempty"` // the issue was assigned to this agent: no other could have started it
	Model    string    `json:"model,omitempty"`  // of the agent; empty where its program chooses
	Title    string    `json:"title,omitempty"`  // of the item, at most pastWords
	// NewWriter is set in the open record of an agent that had not written on the chain before the session.
	NewWriter bool `json:"new_writer,omitempty"`
	// WriterBefore is set in the open record of an agent that did not write on the chain last: the one that did.
	WriterBefore string `json:"writer_before,omitempty"`
	// Used is set in the open record of a session that has reported its usage.
	Used agents.Usage `json:"used,omitzero"`

	// Executor is where the session runs; empty is the supervisor's own machine.
	Executor string `json:"executor,omitempty"`
	// Sent, Stop, Place and Began are set in the open record of a session; see Sent, Stop and Placed.
	Sent  *Sent     `json:"sent,omitempty"`
	Stop  *Stop     `json:"stop,omitempty"`
	Place string    `json:"place,omitempty"`
	Began time.Time `json:"began,omitzero"`
}

func (r *Start) valid() bool {
	over := r.PassedOver == (Key{}) || r.PassedOver.Ref.Repo != ""
	return r.Rung >= 0 && r.Run != "" && r.Agent != "" && r.Thread != "" && r.Item.Kind != "" && r.Item.Ref.Repo != "" &&
		r.Chain.Repo != "" && over
}

func (r *Start) apply(s *State, at time.Time) {
	opened := Open{*r, at}
	if r.Item.Kind != agents.KindSchedule {
		c := s.chain(r.Item.Ref)
		c.Claimed, c.Login = r.Agent, r.Login
		c.Labelled = threads.Labelled{} // work on it means that its label is gone
		s.chain(r.Chain).Labelled = threads.Labelled{}
	}
	if c := s.Chain(forge.Ref(r.Chain)); r.Item.Kind.Writes() && c.Finisher() != r.Agent {
		opened.NewWriter = !slices.Contains(c.Writers, r.Agent)
		opened.WriterBefore = c.Finisher()
		s.chain(r.Chain).Wrote(r.Agent)
	}
	if r.Cause.Plans() {
		s.chain(r.Item.Ref).Planner = r.Agent
	}
	s.count(r, at, 1)
	if c := s.chain(r.Chain); r.Item.Kind.Writes() {
		c.Rung = max(c.Rung, r.Rung)
	}
	if r.Author != "" {
		s.reviewed(r.Author, r.Run, at)
	}
	Entry(s.Repos, r.Item.Ref.Repo).Turn(r.Item.Kind, at)
	s.Open[r.Run] = opened
	s.takeTells(r)
	it := s.item(r.Item.Of())
	it.PassedOver = 0
	it.Rest(time.Time{}, "")
	if r.PassedOver != (Key{}) {
		s.item(r.PassedOver.Of()).PassedOver++
	}
}

// Used records how much a running session has used so far, as its program reports it. The usage counts at once, and
// is journalled now and then.
type Used struct {
	Run   string       `json:"run"`
	Usage agents.Usage `json:"usage"`
}

func (r *Used) valid() bool { return r.Run != "" }

func (r *Used) apply(s *State, at time.Time) {
	if open, known := s.Open[r.Run]; known {
		s.Open[r.Run] = s.use(open, at, r.Usage)
	}
}

// use adds the usage of a session up to a time to its agent's, its thread's, its repository's and its issue's, and
// returns the session with it. Usage that shrinks counts for nothing.
func (s *State) use(open Open, at time.Time, u agents.Usage) Open {
	total := open.Used.Max(u.Bounded())
	more := total.Less(open.Used)
	if more == (agents.Usage{}) {
		return open
	}
	open.Used = total
	agent, thread := Entry(s.Agents, open.Agent), Entry(s.Threads, open.Thread)
	agent.Spent, thread.Spent = agent.Spent.Add(at, more), thread.Spent.Add(at, more)
	repo := Entry(s.Repos, open.Item.Ref.Repo)
	repo.Spent = repo.Spent.Add(at, more)
	thread.Use(at, more)
	if open.Item.Kind != agents.KindSchedule {
		c := s.chain(open.Chain)
		c.Used = c.Used.Add(more)
	}
	return open
}

// End records how a session ended, with everything that decides the consequences.
type End struct {
	Run    string        `json:"run"`
	Result agents.Result `json:"result"`
	Reason string        `json:"reason,omitempty"`
	// Remarked marks a session that left only comments or labels: see threads.Remarked.
	Remarked bool          `json:"remarked,omitempty"`
	Claim    ClaimFailure  `json:"claim,omitempty"`     // of agents.ClaimFailed
	Stop     threads.Code  `json:"stop,omitempty"`      // of agents.Cancelled by reconcile or a person
	Words    string        `json:"words,omitempty"`     // of agents.Question and agents.Planned
	RetryAt  time.Time     `json:"retry_at,omitzero"`   // of agents.Limited; zero means unknown
	Breaker  time.Duration `json:"breaker,omitempty"`   // the thread's breaker_interval
	Tail     string        `json:"tail,omitempty"`      // last lines of output of a failure, redacted
	LastLine string        `json:"last_line,omitempty"` // last line of Tail, where the program gave no reason itself
	Session  string        `json:"session,omitempty"`   // the program's own session id
	Usage    *agents.Usage `json:"usage,omitempty"`     // nil means unknown
	CPU      time.Duration `json:"cpu,omitempty"`       // user and system time of the whole tree
	MaxRSS   int64         `json:"max_rss,omitempty"`   // bytes
	Exit     string        `json:"exit,omitempty"`      // exit code or signal, where it is not 0
	NeverRan bool          `json:"no_start,omitempty"`  // the program could not be started
	Verdict  Verdict       `json:"verdict,omitempty"`   // of a review; empty where it left none
	// Talk is the size of its conversation at its end, in tokens; 0 means unknown. Restored is how many tokens of it
	// came from a file before the session's first request, and Found how many of these that request did not compute
	// again. Saved is how many went into a file at its end.
	Talk     int64 `json:"talk,omitempty"`
	Saved    int64 `json:"saved,omitempty"`
	Restored int64 `json:"restored,omitempty"`
	Found    int64 `json:"found,omitempty"`
	// Approved is the change that the session approved; nil where that is unknown, as in journals of older versions.
	Approved *threads.Approval `json:"approved,omitempty"`
	// Unshown is the change that the session could not be shown whole; nil with another result than agents.TooBig. Its
	// words are in Reason.
	Unshown *threads.Unshown `json:"unshown,omitempty"`
	// Resumed is how much a cache had of the first request; nil if the session continued no conversation. Cold says why
	// it had little, and is empty otherwise.
	Resumed *agents.Resumption `json:"resumed,omitempty"`
	Cold    string             `json:"cold,omitempty"`
	// Steps are the commands that ran beside the agent.
	Steps    []agents.Step    `json:"steps,omitempty"`
	Verified *agents.Verified `json:"verified,omitempty"` // nil if the work was not verified
	Refused  agents.Refusals  `json:"refused,omitempty"`  // the hosts that its egress did not allow
	// Receipt is nil if none could be written, and in journals of older versions.
	Receipt *Receipt `json:"receipt,omitempty"`
}

func (r *End) valid() bool {
	receipted := r.Receipt == nil || r.Receipt.valid()
	return receipted && r.Run != "" && r.Result != "" && min(r.Talk, r.Restored, r.Found) >= 0
}

// Verdict is a forge.Verdict that decides something.
type Verdict string

// The verdicts.
const (
	Approved         Verdict = "approved"
	ChangesRequested Verdict = "changes"
)

// ClaimFailure is the cause of a failed claim.
type ClaimFailure string

// The causes of a failed claim.
const (
	ClaimTaken       ClaimFailure = "taken"       // the item is claimed by another supervisor or a person
	ClaimForbidden   ClaimFailure = "forbidden"   // the account lacks the right
	ClaimUnavailable ClaimFailure = "unavailable" // the forge did not answer, or not as expected
)

// Released records that the item no longer carries a claim of this supervisor.
type Released struct {
	Ref Ref `json:"ref"`
}

func (r *Released) valid() bool { return r.Ref.Repo != "" }

func (r *Released) apply(s *State, _ time.Time) { s.Drop(forge.Ref(r.Ref)) }

// Blocked records that the label blocked was written after the last attempt.
type Blocked struct {
	Chain Ref         `json:"chain"`
	Kind  agents.Kind `json:"kind"`
	Why   string      `json:"why,omitempty"` // for people
}

func (r *Blocked) valid() bool { return r.Chain.Repo != "" && r.Kind != "" }

func (r *Blocked) apply(s *State, _ time.Time) {
	c := s.chain(r.Chain)
	if a := c.Attempt(r.Kind); a.Count > 0 {
		c.SetAttempt(threads.Attempt{Kind: r.Kind, Count: a.Count, Until: a.Until, Marked: true})
	}
	labelled(c, forge.LabelBlocked, r.Why)
}

// labelled keeps the cause of a label. Records of older versions have none.
func labelled(c *threads.ChainHistory, label, why string) {
	if why != "" {
		c.Labelled = threads.Labelled{Label: label, Why: why}
	}
}

// Handed records that needs-human was written because of how a session ended, or because of its usage. A person has
// the item now.
type Handed struct {
	Ref    Ref    `json:"ref"`
	Rounds int    `json:"rounds,omitempty"` // rounds that led there; only in journals of older versions
	Used   Ref    `json:"used,omitzero"`    // the issue whose usage led there
	Why    string `json:"why,omitempty"`    // for people
}

func (r *Handed) valid() bool { return r.Ref.Repo != "" && r.Rounds >= 0 }

// apply makes the item rest from the second time on, longer each time. A person who removes the label wants work to
// continue; but any agent with write access can remove it, too, and one did so within seconds.
func (r *Handed) apply(s *State, at time.Time) {
	c := s.chain(r.Ref)
	if c.Handed++; c.Handed > 1 {
		for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework} {
			it := s.item(threads.Key{Kind: kind, Ref: forge.Ref(r.Ref)})
			it.Rest(later(it.CoolDown, at.Add(doubled(handedRest, c.Handed-1, handedMax))), "")
		}
	}
	c.Refused, c.RefusedAt, c.RefusedAs = "", time.Time{}, ""
	labelled(c, forge.LabelNeedsHuman, r.Why)
	c.Asked += r.Rounds
	if r.Used.Repo != "" {
		s.chain(r.Used).Used = threads.Used{}
	}
}

// Asked records that the question or plan of a session is on the forge, with its label.
type Asked struct {
	Ref Ref    `json:"ref"`
	Run string `json:"run"`
}

func (r *Asked) valid() bool { return r.Ref.Repo != "" && r.Run != "" }

func (r *Asked) apply(s *State, _ time.Time) {
	if d := s.chain(r.Ref).Dialogue; d != nil && d.Run == r.Run {
		d.Asked = true
	}
}

// Answered records that people answered the question or plan, or removed the label.
type Answered struct {
	Ref      Ref     `json:"ref"`
	Comments []int64 `json:"comments,omitempty"` // the question or plan, and the answers
	// Approved is set for a plan that was approved, and Filed for a split whose issues are all filed since: it is over.
	Approved bool `json:"approved,omitempty"`
	Filed    bool `json:"filed,omitempty"`
}

func (r *Answered) valid() bool { return r.Ref.Repo != "" }

// apply also creates a dialogue that only the forge had, because the journal was lost.
func (r *Answered) apply(s *State, at time.Time) {
	c := s.chain(r.Ref)
	if r.Filed {
		c.Dialogue, c.Planner = nil, ""
		return
	}
	if c.Dialogue == nil {
		c.Dialogue = &threads.Dialogue{Asked: true}
	}
	d := c.Dialogue
	if d.Answered.IsZero() {
		d.Answered = at
	}
	d.Comments, d.Approved = r.Comments, r.Approved && d.Split
	if !d.Approved {
		d.Words = ""
	}
}

// Told records the key of a reason that was commented on an item.
type Told struct {
	Ref Ref    `json:"ref"`
	Key string `json:"key"`
	Why string `json:"why,omitempty"` // cause of the label needs-human; empty where it was not written
}

func (r *Told) valid() bool { return r.Ref.Repo != "" && r.Key != "" }

func (r *Told) apply(s *State, _ time.Time) {
	c := s.chain(r.Ref)
	c.Told = r.Key
	labelled(c, forge.LabelNeedsHuman, r.Why)
}

// NoMerge records that the forge refused to merge a pull request.
type NoMerge struct {
	Ref Ref `json:"ref"`
	threads.NoMerge
}

func (r *NoMerge) valid() bool { return r.Ref.Repo != "" && r.Head != "" && r.Cause != "" }

func (r *NoMerge) apply(s *State, _ time.Time) {
	no := r.NoMerge
	s.chain(r.Ref).NoMerge = &no
}

// Carried records that the supervisor merged the base into an approved pull request.
type Carried struct {
	Ref       Ref    `json:"ref"`
	From      string `json:"from"` // the approved head
	Head      string `json:"head"`
	Base      string `json:"base"`
	MergeBase string `json:"merge_base"`
	Same      bool   `json:"same,omitempty"` // approvals of From count for Head
	Red       bool   `json:"red,omitempty"`  // the base had been red
}

func (r *Carried) valid() bool { return r.Ref.Repo != "" && r.From != "" && r.Head != "" }

func (r *Carried) apply(s *State, at time.Time) {
	c := s.chain(r.Ref)
	to := &threads.Carried{Head: r.Head, Base: r.Base, MergeBase: r.MergeBase, At: at, Red: r.Red}
	if was := c.Carried; r.Same && was != nil && was.Head == r.From {
		to.Same = slices.Clone(was.Same)
	}
	if r.Same {
		to.Same = append(to.Same, r.From)
	}
	c.Carried = to
}

// Forget records that the issue or pull request is no longer open on the forge.
type Forget struct {
	Ref Ref `json:"ref"`
}

func (r *Forget) valid() bool { return r.Ref.Repo != "" }

// apply drops everything about an issue or pull request except a claim, which is released first, and its toll: agents
// can close an issue and reopen it.
func (r *Forget) apply(s *State, _ time.Time) {
	item := forge.Ref(r.Ref)
	c := s.Chain(item)
	if delete(s.Chains, item); c.Claimed != "" {
		s.Chains[item] = &threads.ChainHistory{Claimed: c.Claimed, Login: c.Login}
	}
	for _, k := range Keys(item) {
		delete(s.Items, k)
	}
}

// Steal records that an issue is about to change hands, or how that ended.
type Steal struct {
	Ref  Ref    `json:"ref"`
	Run  string `json:"run"` // of the claim that keeps other agents off meanwhile
	From string `json:"from"`
	To   string `json:"to"`
	// FromLogin and ToLogin are the accounts of both; a reload may change them.
	FromLogin string `json:"from_login,omitempty"`
	ToLogin   string `json:"to_login,omitempty"`
	Done      bool   `json:"done,omitempty"`
	Why       string `json:"why,omitempty"` // why the issue stays after all; with Done
}

func (r *Steal) valid() bool { return r.Ref.Repo != "" && r.Run != "" }

func (r *Steal) apply(s *State, _ time.Time) {
	if r.Done {
		delete(s.Steals, forge.Ref(r.Ref))
	} else {
		s.Steals[forge.Ref(r.Ref)] = *r
	}
}

// Pause records that a thread, an agent, a repository, new work or, with none of them, everything was paused; with Off,
// resumed.
type Pause struct {
	threads.Pause
	Off  bool   `json:"off,omitempty"`
	By   string `json:"by,omitempty"`   // the person; empty if unknown
	Why  string `json:"why,omitempty"`  // in the person's words
	Stop bool   `json:"stop,omitempty"` // of a drain: the supervisor ends then
}

func (r *Pause) valid() bool {
	one := r.Pause.Name()
	return slices.Contains([]threads.Pause{{Thread: one}, {Agent: one}, {Repo: one}, {Drain: true}}, r.Pause)
}

func (r *Pause) apply(s *State, at time.Time) {
	if r.Off {
		delete(s.Paused, r.Pause)
	} else {
		s.Paused[r.Pause] = threads.PauseNote{
			PausedAt: at, PausedBy: shortened(r.By), PausedWhy: shortened(r.Why), ThenStop: r.Stop,
		}
	}
}

// Cancel records that issues and pull requests must be labelled cancelled, even after a crash. With Done it records
// that they are.
type Cancel struct {
	Refs  []Ref `json:"refs"`
	Close bool  `json:"close,omitempty"` // they must be closed, too
	Done  bool  `json:"done,omitempty"`
}

func (r *Cancel) valid() bool { return named(r.Refs) }

func (r *Cancel) apply(s *State, _ time.Time) {
	for _, item := range r.Refs {
		c := s.chain(item)
		c.Cancel = !r.Done
		c.Close = c.Cancel && (c.Close || r.Close)
	}
}

// Retry records that a person removed every obstacle to work on an issue and its pull requests, or asked for a run of a
// scheduled role.
type Retry struct {
	Refs []Ref `json:"refs"` // the chain is among them
	// Role is the scheduled role, whose repositories are in Refs; empty without one.
	Role string `json:"role,omitempty"`
	// Opener is the account whose daily limit starts again; empty for none.
	Opener string `json:"opener,omitempty"`
}

func (r *Retry) valid() bool { return named(r.Refs) }

// apply lets an issue and its pull requests start again, and their repository's setup. The writers stay, because the
// pairing rule needs them.
func (r *Retry) apply(s *State, at time.Time) {
	if r.Role != "" {
		for _, on := range r.Refs {
			it := s.item(threads.Key{Kind: agents.KindSchedule, Ref: forge.Ref(on), Role: r.Role})
			it.Rest(time.Time{}, "")
			it.Asked = at
		}
		return
	}
	for _, item := range r.Refs {
		s.forgive(forge.Ref(item))
		s.chain(item).Retried = at
		e := Entry(s.Repos, item.Repo)
		e.SetupFails, e.SetupUntil, e.SetupWhy, e.RedBase, e.RedWhy = 0, time.Time{}, "", "", ""
	}
	delete(s.Opened, r.Opener)
}

// named reports whether a list is not empty and every reference in it has a repository.
func named(refs []Ref) bool {
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r Ref) bool { return r.Repo == "" })
}
