package ledger

import (
	"maps"
	"slices"
	"time"

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
	return r.Ref.Repo != "" && min(r.Asked, r.Handed, r.Failures, r.Rung, r.Questions,
		r.Plans) >= 0
}

func (r *Chain) apply(s *State, _ time.Time) {
	c := s.chain(r.Ref)
	*c = r.ChainHistory
	c.Writers, c.Attempts, c.Approved = slices.Clone(c.Writers), slices.Clone(c.Attempts), slices.Clone(c.Approved)
	if c.Dialogue != nil {
		d := *c.Dialogue
		c.Dialogue = &d
	}
}

// Item is the history of one piece of work.
type Item struct {
	Key Key `json:"key"`
	threads.ItemHistory
}

func (r *Item) valid() bool {
	return r.Key.Ref.Repo != "" && min(r.PassedOver, r.Remarks, r.Downs, r.Alone) >= 0
}

func (r *Item) apply(s *State, _ time.Time) { *s.item(r.Key.Of()) = r.ItemHistory }

// Agent is the history of an agent.
type Agent struct {
	Name string `json:"name"`
	threads.AgentHistory
}

func (r *Agent) valid() bool { return r.Name != "" && r.Downs >= 0 }

func (r *Agent) apply(s *State, _ time.Time) { *Entry(s.Agents, r.Name) = r.AgentHistory }

// Thread is the history of a thread.
type Thread struct {
	Name string `json:"name"`
	threads.ThreadHistory
}

func (r *Thread) valid() bool {
	negative := func(u threads.Use) bool { return u.Tokens < 0 || u.USD < 0 }
	unsized := func(t threads.Talk) bool { return min(t.Tokens, t.Saved) < 0 }
	return r.Name != "" && min(r.Downs, r.Limits) >= 0 && !slices.ContainsFunc(r.Uses, negative) &&
		!slices.ContainsFunc(r.Talks, unsized)
}

func (r *Thread) apply(s *State, _ time.Time) {
	t := Entry(s.Threads, r.Name)
	*t = r.ThreadHistory
	t.Uses, t.Paces = slices.Clone(t.Uses), slices.Clone(t.Paces)
	t.Talks, t.Forgotten, t.Prices = slices.Clone(t.Talks), slices.Clone(t.Forgotten), maps.Clone(t.Prices)
}

// Author is the history of a person who opened pull requests.
type Author struct {
	Login string `json:"login"`
	threads.AuthorHistory
}

func (r *Author) valid() bool { return r.Login != "" }

func (r *Author) apply(s *State, _ time.Time) {
	Entry(s.Authors, r.Login).Reviews = maps.Clone(r.Reviews)
}

// Toll is the count of a chain.
type Toll struct {
	Chain Ref `json:"chain"`
	threads.Toll
}

func (r *Toll) valid() bool {
	return r.Chain.Repo != "" && min(r.Sessions, r.Reviews, r.Rounds, r.CIFixes) >= 0
}

func (r *Toll) apply(s *State, _ time.Time) { *Entry(s.Tolls, forge.Ref(r.Chain)) = r.Toll }

// Opened is the day's count of an account that opened issues or pull requests.
type Opened struct {
	Login string `json:"login"`
	threads.OpenedDay
}

func (r *Opened) valid() bool { return r.Login != "" && r.Sessions >= 0 }

func (r *Opened) apply(s *State, _ time.Time) { *Entry(s.Opened, r.Login) = r.OpenedDay }

// Failing is the failures in a row of an agent, a thread or a role.
type Failing struct {
	threads.Crew
	threads.Streak
}

func (r *Failing) valid() bool {
	return r.Crew != threads.Crew{} && len(r.Failures) > 0 && r.Probes >= 0
}

func (r *Failing) apply(s *State, _ time.Time) {
	k := Entry(s.Failing, r.Crew)
	*k = r.Streak
	k.Failures = slices.Clone(k.Failures)
}

// Repo is the history of a repository.
type Repo struct {
	Name string `json:"name"`
	threads.RepoHistory
}

func (r *Repo) valid() bool { return r.Name != "" && r.SetupFails >= 0 }

func (r *Repo) apply(s *State, _ time.Time) { *Entry(s.Repos, r.Name) = r.RepoHistory }

// Slot is the resident of a sticky slot.
type Slot struct {
	threads.SlotKey
	Agent string    `json:"agent"`
	Chain Ref       `json:"chain"`
	Left  time.Time `json:"left,omitzero"` // when its session ended
}

func (r *Slot) valid() bool { return r.Thread != "" && r.Slot >= 0 }

func (r *Slot) apply(s *State, _ time.Time) {
	s.Slots[r.SlotKey] = threads.Warm{Agent: r.Agent, Chain: forge.Ref(r.Chain), Left: r.Left}
}
