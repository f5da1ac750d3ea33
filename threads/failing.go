package threads

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// FailingAfter is how many sessions in a row, each on another item, must fail before the cause is an agent, a thread or
// a role, and not the items. An agent that failed at once took every issue of a night: 9 of 14 were blocked, while
// another agent, which could do them, was idle for 92 % of the time.
const FailingAfter = 3

// Crew is an agent, all agents of a thread, or all agents of a role. Exactly one field is set.
type Crew struct {
	Agent  string `json:"agent,omitempty"`
	Thread string `json:"thread,omitempty"`
	Role   string `json:"role,omitempty"`
}

// Compare orders crews: agents, threads, roles, each by name.
func (c Crew) Compare(other Crew) int {
	return cmp.Or(-strings.Compare(c.Agent, other.Agent), -strings.Compare(c.Thread, other.Thread),
		strings.Compare(c.Role, other.Role))
}

// String names the crew: "dev-qwen", "thread llama", "role dev".
func (c Crew) String() string {
	switch {
	case c.Thread != "":
		return "thread " + c.Thread
	case c.Role != "":
		return "role " + c.Role
	}
	return c.Agent
}

// Streak is what a crew failed at since one of its sessions last achieved something.
type Streak struct {
	Failures []Failure `json:"failures"`         // on different items, oldest first, at most FailingAfter
	Probes   int       `json:"probes,omitempty"` // how often it was held in a row; 0 while it is not failing
	Since    time.Time `json:"since,omitzero"`   // when it was held first
	Until    time.Time `json:"until,omitzero"`   // until then it starts nothing, and after that one session at a time
}

// Failure is a session that failed.
type Failure struct {
	Item   string        `json:"item"` // its chain, or for scheduled work its role and repository
	Agent  string        `json:"agent"`
	Role   string        `json:"role"`
	Result agents.Result `json:"result"`
	Words  string        `json:"words,omitempty"` // the last ones, in one line
}

// Failing reports whether the crew is held, or tried with one session.
func (s *Streak) Failing() bool { return s != nil && s.Probes > 0 }

// Add adds a failure. Of two on the same item only the newer one counts.
func (s *Streak) Add(f Failure) {
	s.Failures = slices.DeleteFunc(slices.Clone(s.Failures), func(old Failure) bool { return old.Item == f.Item })
	s.Failures = append(s.Failures, f)
	s.Failures = s.Failures[max(0, len(s.Failures)-FailingAfter):]
}

// Alike reports whether enough failures are in a row, by more than one agent, in the same way.
func (s *Streak) Alike() bool {
	first := s.Failures[0]
	other := func(f Failure) bool { return f.way() != first.way() }
	return len(s.Failures) == FailingAfter && !slices.ContainsFunc(s.Failures, other) &&
		slices.ContainsFunc(s.Failures, func(f Failure) bool { return f.Agent != first.Agent })
}

// Roles counts the roles whose sessions failed.
func (s *Streak) Roles() int {
	set := make(map[string]bool)
	for _, f := range s.Failures {
		set[f.Role] = true
	}
	return len(set)
}

// way is how it failed: the result and the words, without numbers and the agent's name.
func (f *Failure) way() string {
	words := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, strings.ReplaceAll(f.Words, f.Agent, ""))
	return string(f.Result) + words
}

// Words says that a crew is held, and quotes its failures.
func (s *Streak) Words(c Crew) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is held: %d sessions in a row failed, on different items:", c, len(s.Failures))
	for i, f := range s.Failures {
		if i > 0 {
			b.WriteByte(';')
		}
		by := ""
		if c.Agent == "" {
			by = " by " + f.Agent
		}
		fmt.Fprintf(&b, " %s%s: %s", f.Item, by, cmp.Or(f.Words, string(f.Result)))
	}
	return b.String()
}

// CrewsOf returns the crews of a session: its role, its thread and its agent.
func CrewsOf(agent, thread, role string) [3]Crew {
	return [3]Crew{{Role: role}, {Thread: thread}, {Agent: agent}}
}

// notFailing holds an agent that fails whatever it does, alone or with its thread or role.
func notFailing(v *view, c candidate) *Reason {
	for _, crew := range CrewsOf(c.agent.Name, c.agent.Thread, c.role.Name) {
		if s := v.History.Failing[crew]; s.Failing() && v.later(s.Until) {
			return s.reason(crew)
		}
	}
	return nil
}

// FailingWhy returns why an agent, which may have several roles, starts nothing because it, its thread or all its roles
// fail; empty if it may start something.
func (h *History) FailingWhy(a *agents.Agent, now time.Time) (why string) {
	for _, role := range a.Roles {
		why = ""
		for _, crew := range CrewsOf(a.Name, a.Thread, role) {
			if s := h.Failing[crew]; s.Failing() && s.Until.After(now) {
				why = s.reason(crew).Text()
			}
		}
		if why == "" {
			break
		}
	}
	return why
}

// oneProbe lets a failing thread or role start one session at a time, after its rest. An agent has no more anyway.
func oneProbe(v *view, c candidate) *Reason {
	for _, crew := range CrewsOf(c.agent.Name, c.agent.Thread, c.role.Name) {
		if s := v.History.Failing[crew]; !s.Failing() || crew.Agent != "" {
			continue
		}
		for i := range v.agents {
			x := v.byAgent[v.agents[i].Name]
			if x != nil && (x.Thread == crew.Thread || x.Role == crew.Role) {
				why := v.History.Failing[crew].reason(crew)
				why.Until = time.Time{}
				return why
			}
		}
	}
	return nil
}

func (s *Streak) reason(c Crew) *Reason {
	last := s.Failures[len(s.Failures)-1]
	return &Reason{
		Code: AgentFailing, Agent: c.Agent, Thread: c.Thread, Until: s.Until,
		Note: fmt.Sprintf("%s is held: %d sessions in a row failed, last %s: %s", c, len(s.Failures), last.Item,
			cmp.Or(last.Words, string(last.Result))),
	}
}

// failedBy returns the agent that failed at an item last, while the item goes to another one: for ReworkWait, where
// another could start it now. No slot stands idle for that.
func (v *view) failedBy(w *work, t traits) string {
	last := w.memo.FailedBy
	if last == "" || !v.later(w.memo.FailedAt.Add(ReworkWait)) {
		return ""
	}
	can := func(o candidate) bool {
		if o.agent.Name == last || !v.free(o) {
			return false
		}
		_, why := v.refusal(&t, o)
		return why == nil
	}
	if !slices.ContainsFunc(v.cands, can) {
		return ""
	}
	return last
}

// anotherFirst keeps an agent from an item at which it failed last, while another one could start it.
func anotherFirst(_ *view, t *traits, c candidate) *Reason {
	if t.failed == "" || t.failed != c.agent.Name {
		return nil
	}
	return &Reason{Code: AnotherFirst, Agent: c.agent.Name}
}
