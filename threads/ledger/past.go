package ledger

import (
	"cmp"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// RecentLimit is how many ended sessions State.Recent keeps: a screenful of the status.
const RecentLimit = 20

// The newest PastLimit sessions that ran are kept, for pastAge: 570 a day for a week, or 130 a day for a month. They
// take 1 MB of the journal and 50 ms of a start.
const (
	PastLimit = 4000
	pastAge   = 30 * 24 * time.Hour
)

// labelsMost bounds the labels of a session: agents can add some.
const labelsMost = 10

// pastWords bounds the reason of a past session in bytes, so that 4,000 of them take 2 MB at most.
const pastWords = 200

// shortened returns the start of a text, in at most pastWords bytes.
func shortened(text string) string {
	if len(text) <= pastWords {
		return text
	}
	return strings.ToValidUTF8(text[:pastWords-3], "") + "…"
}

// Recent is a session that ended, as the status document shows it.
type Recent struct {
	RunID   string        `json:"run_id"`
	Agent   string        `json:"agent"`
	Repo    string        `json:"repo"`
	Number  int64         `json:"number"`
	Title   string        `json:"title,omitempty"` // of the item; empty in journals of versions before 0.4
	Kind    agents.Kind   `json:"kind"`
	Outcome agents.Result `json:"outcome"`
	Reason  string        `json:"reason"`
	// LastLine is the last line of output, redacted, of a session that failed without giving a reason.
	LastLine string `json:"last_line,omitempty"`
	// Log is the path of its log; in the journal it is relative to the state directory. Absent if the session never ran.
	Log       string    `json:"log,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

func (r *Recent) valid() bool { return true }

func (r *Recent) apply(s *State, _ time.Time) { s.remember(*r) }

func (s *State) remember(r Recent) {
	if len(s.Recent) < RecentLimit {
		s.Recent = append(s.Recent, Recent{})
	}
	copy(s.Recent[1:], s.Recent) // a new list for each end was a quarter of what reading a long journal allocated
	s.Recent[0] = r
}

// Past is the short form of a session that ran and ended. Fields from Run on are empty in journals of versions before
// 0.2.
type Past struct {
	Agent    string      `json:"agent"`
	Kind     agents.Kind `json:"kind"`
	Ref      Ref         `json:"ref"`
	Title    string      `json:"title,omitempty"`    // of the item, at most pastWords; empty in older journals
	Chain    Ref         `json:"chain"`              // the issue that it was for
	Ready    time.Time   `json:"ready,omitzero"`     // since when it could be worked on; zero if unknown
	Priority int         `json:"priority,omitempty"` // 0 if the journal does not have it
	Skills   []string    `json:"skills,omitempty"`   // of its labels
	Labels   []string    `json:"labels,omitempty"`   // the others of the issue; see Start.Labels
	Pinned   bool        `json:"pinned,omitempty"`   // it was assigned to the agent before, and waited for it
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
	Model   string        `json:"model,omitempty"`

	Resumed  *agents.Resumption `json:"resumed,omitempty"`  // nil if it continued no conversation
	Cold     string             `json:"cold,omitempty"`     // why a cache had little of it; at most pastWords
	Steps    []agents.Step      `json:"steps,omitempty"`    // the last beside its agent; at most pastSteps
	Verified *agents.Verified   `json:"verified,omitempty"` // nil if the work was not verified
	Heard    int                `json:"heard,omitempty"`    // messages of people that it heard while it ran
	Refused  agents.Refusals    `json:"refused,omitempty"`  // the hosts that its egress did not allow
	Receipt  string             `json:"receipt,omitempty"`  // the SHA-256 of its receipt; empty without one
	Pull     Ref                `json:"pull,omitzero"`      // the pull request whose comment shows it since its end
}

func (r *Past) valid() bool { return r.Kind != "" && r.Ref.Repo != "" && r.Chain.Repo != "" }

func (r *Past) apply(s *State, _ time.Time) { s.appendPast(*r) }

// appendPast adds an ended session to Past. Of the one that it displaces, the sums of its day remain.
func (s *State) appendPast(p Past) {
	if len(s.Past) == PastLimit {
		s.day(s.Past[0].End).session(&s.Past[0])
	}
	s.Past = bounded(s.Past, p)
	s.priced(&p)
}

// appendRecent remembers the session itself. A session without a claim never was one.
func (s *State) appendRecent(e *ended) {
	if e.Result == agents.ClaimFailed {
		return
	}
	r := Recent{
		RunID: e.Start.Run, Agent: e.Agent, Repo: e.Item.Ref.Repo, Number: e.Item.Ref.Number,
		Title: shortened(e.Start.Title), Kind: e.Item.Kind,
		Outcome: e.Result, Reason: e.Reason, LastLine: e.LastLine, StartedAt: e.At, EndedAt: e.at,
	}
	var receipt Receipt
	if e.End.Receipt != nil {
		receipt = *e.End.Receipt
	}
	if !e.NeverRan {
		s.appendPast(Past{
			Agent: e.Agent, Kind: e.Item.Kind, Ref: e.Item.Ref, Title: r.Title, Chain: e.Chain, Ready: e.Ready,
			Priority: e.Priority, Skills: e.Skills, Labels: e.Labels, Pinned: e.Pinned, Start: e.At, End: e.at,
			Run: e.Start.Run, Role: e.Role, Thread: e.Thread, Slot: e.Slot, Attempt: e.Attempt, Outcome: e.Result,
			Reason: shortened(cmp.Or(e.Reason, e.LastLine)), Verdict: e.Verdict, Usage: credible(e.Usage),
			Model: e.Model, Resumed: plausible(e.Resumed), Cold: shortened(e.Cold), Steps: last(e.Steps),
			Verified: e.Verified, Refused: e.Refused,
			Heard:   s.heardBy(e.Start.Run),
			Receipt: receipt.Hash, Pull: receipt.Pull,
		})
		r.Log = LogPath(e.Agent, e.Start.Run)
	}
	s.remember(r)
}

// credible returns a usage within bounds: records of older versions have what a program reported.
func credible(u *agents.Usage) *agents.Usage {
	if u == nil {
		return nil
	}
	return new(u.Bounded())
}

// plausible returns a resumption within bounds.
func plausible(r *agents.Resumption) *agents.Resumption {
	if r == nil {
		return nil
	}
	r = r.Bounded()
	r.Changed = shortened(r.Changed)
	return r
}

// pastSteps bounds the steps of a past session.
const pastSteps = 10

func last(steps []agents.Step) []agents.Step { return steps[max(0, len(steps)-pastSteps):] }

// LogPath returns the path of a session's log, relative to the state directory, which may move.
func LogPath(agent, run string) string { return path.Join("logs", agent, run+".log") }

// ReadHistory returns the state at the end of a journal, with its sessions sorted by their start. It skips lines that
// are not valid records. A text in which no line is valid is not a journal.
func ReadHistory(journal io.Reader) (*State, error) {
	s := New()
	records, corrupt := 0, 0
	err := Read(journal, func(r Record) { records++; s.Apply(r) }, func(_, _ int64) { corrupt++ })
	if err == nil && records == 0 && corrupt > 0 {
		return nil, errors.New("cannot read the journal: none of its lines is a valid record")
	}
	slices.SortStableFunc(s.Past, func(a, b Past) int { return a.Start.Compare(b.Start) })
	return s, err
}

// typicalOf is how many of the newest sessions of a kind decide how long its sessions take, and typicalFrom how many
// are needed.
const typicalOf, typicalFrom = 50, 3

// Typical returns the median duration of the newest sessions of each kind. Fewer than three sessions have none.
func (s *State) Typical() map[agents.Kind]time.Duration {
	typical := make(map[agents.Kind]time.Duration)
	for of, list := range s.Usuals() {
		if of.agent == "" && len(list) >= typicalFrom {
			typical[of.kind] = median(list)
		}
	}
	return typical
}

// Usuals has the durations of the newest sessions of each agent and kind, and of each kind under no agent.
type Usuals map[whose][]time.Duration

type whose struct {
	agent string
	kind  agents.Kind
}

// Usuals reads the past once, however many sessions ask: for each of 1,000 sessions it was read again, in 76 ms.
func (s *State) Usuals() Usuals {
	u := make(Usuals)
	for i := len(s.Past) - 1; i >= 0; i-- {
		p := &s.Past[i]
		for _, w := range [...]whose{{p.Agent, p.Kind}, {"", p.Kind}} {
			if len(u[w]) < typicalOf {
				u[w] = append(u[w], p.End.Sub(p.Start))
			}
		}
	}
	return u
}

// Of returns the median duration of an agent's newest sessions of a kind. With fewer than three it is that of all
// agents, and 0 if they too have fewer.
func (u Usuals) Of(agent string, kind agents.Kind) time.Duration {
	for _, w := range [...]whose{{agent, kind}, {"", kind}} {
		if len(u[w]) >= typicalFrom {
			return median(u[w])
		}
	}
	return 0
}

// median sorts a list, which must not be empty.
func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// ReadySince returns since when an item could be worked on, as far as the forge shows it, and the skills and the other
// labels of its issue; see Start.Labels. An issue could be from its filing, its reopening or the end of its last
// blocker, whichever is latest.
func ReadySince(facts *forge.Facts, it *threads.Item) (since time.Time, skills, labels []string) {
	since = it.Since
	is := facts.Issue(it.Chain)
	if is == nil {
		return since, nil, nil
	}
	if it.Kind == agents.KindIssue {
		since = later(since, is.Reopened)
		for _, b := range is.Blockers {
			if on := facts.Issue(b.Ref); on != nil {
				since = later(since, on.Ended)
			}
		}
	}
	for _, l := range is.Labels {
		if !forge.Ours(l) && !strings.HasPrefix(l, forge.SkillPrefix) && len(labels) < labelsMost {
			labels = append(labels, l)
		}
	}
	return since, forge.Skills(is.Labels), labels
}

// Pinned reports whether an issue is assigned to the account that is about to start it, so that no other agent could
// have started it. With the label in-progress the assignment is that of an earlier session, and pins nothing.
func Pinned(facts *forge.Facts, it *threads.Item, login string) bool {
	is := facts.Issue(it.Ref)
	return it.Kind == agents.KindIssue && is != nil && !is.Has(forge.LabelInProgress) &&
		slices.ContainsFunc(is.Assignees, func(a string) bool { return strings.EqualFold(a, login) })
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
