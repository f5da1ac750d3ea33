// Package answers keeps the answers of why: for each issue, pull request, agent and thread a line when its answer
// changes, so that `why --at` knows them later, with or without a supervisor.
//
// The file answers.jsonl of a state directory has the lines. When it is large it becomes answers.old.jsonl, and the
// next plan writes all present answers to a new file. A line is written at once and not synced: a kill loses none, a
// power cut the last seconds. Lines may be out of order by moments, because two threads may write theirs at once.
//
//	answers.go   the lines, and which of a plan's answers are new
//	file.go      the file
//	read.go      the answer of a moment, and what an item waited for
package answers

import (
	"slices"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Line is one line of the file: an answer that begins, the same for all its subjects, or an event of the supervisor.
// A line that has only a time shows that the supervisor ran.
type Line struct {
	At time.Time `json:"at"`
	Of []string  `json:"of,omitempty"` // agents, threads, and references such as owner/name#12
	answer
	Event   event  `json:"event,omitempty"`
	Program string `json:"program,omitempty"` // version of the disinto that began
}

// answer is the content of a line.
type answer struct {
	Kind agents.Kind  `json:"kind,omitempty"`
	Code threads.Code `json:"code,omitempty"` // empty: the subjects do not wait
	Why  string       `json:"why,omitempty"`
	For  string       `json:"for,omitempty"` // see Reason.WaitsFor
}

type event string

// The events.
const (
	began   event = "began" // a supervisor began
	stopped event = "stopped"
	failed  event = "failed" // later lines could not be written
)

// ofLimit bounds the subjects of a line, and with them its length.
const ofLimit = 1000

// subject is an item, or the name of an agent or a thread.
type subject struct {
	ref  forge.Ref
	name string
}

func (s subject) String() string {
	if s.name != "" {
		return s.name
	}
	return s.ref.String()
}

// known is the newest answer about a subject.
type known struct {
	kind   agents.Kind
	does   string
	reason *threads.Reason
	plan   int // the number of the newest plan that has it
}

// Recorder finds the new answers of plans, and writes them to the file.
type Recorder struct {
	known map[subject]*known
	plans int
	again atomic.Bool // the file may lack known answers
	file  file
}

// Changes returns lines with the answers of a plan that differ from those of the plan before. It must not be called
// twice at once. Write writes the lines.
func (r *Recorder) Changes(s *threads.Snapshot, p *threads.Plan) []Line {
	if s.Config == nil {
		return nil
	}
	if r.again.Swap(false) || r.known == nil {
		r.known = make(map[subject]*known)
	}
	r.plans++
	c := changes{at: s.Now, places: make(map[answer]int)}
	seen := 0
	for a := range threads.Answers(s, p) {
		of := subject{a.Ref, a.Name}
		k := r.known[of]
		if k == nil {
			k = new(known)
			r.known[of] = k
		}
		if k.plan == r.plans {
			continue // an item's session comes before its hold, and an agent before a thread of the same name
		}
		seen++
		if k.plan == 0 || k.kind != a.Kind || k.does != a.Does || !k.reason.Same(a.Reason) {
			c.add(of, answerOf(&a))
			k.kind, k.does, k.reason = a.Kind, a.Does, a.Reason
		}
		k.plan = r.plans
	}
	if seen < len(r.known) {
		r.drop(s.Config, &c)
	}
	return c.lines
}

// drop adds lines for the subjects that the newest plan no longer has.
func (r *Recorder) drop(config *threads.Config, c *changes) {
	var gone []subject
	for of, k := range r.known {
		if k.plan != r.plans {
			gone = append(gone, of)
		}
	}
	slices.SortFunc(gone, func(a, b subject) int { return a.ref.Compare(b.ref) })
	for _, of := range gone {
		said := answer{Kind: r.known[of].kind, Code: threads.Closed, Why: "closed"}
		if of.name != "" || !slices.Contains(config.Forge.Repos, of.ref.Repo) {
			said = answer{Kind: said.Kind, Why: "no longer in the configuration"}
		}
		c.add(of, said)
		delete(r.known, of)
	}
}

func answerOf(a *threads.Answer) answer {
	said := answer{Kind: a.Kind, Why: a.Verdict()}
	if a.Reason != nil {
		said.Code, said.For = a.Reason.Code, a.Reason.WaitsFor()
	}
	return said
}

// changes gathers lines.
type changes struct {
	at     time.Time
	lines  []Line
	places map[answer]int // of the newest line with an answer
}

func (c *changes) add(of subject, said answer) {
	i, known := c.places[said]
	if !known || len(c.lines[i].Of) == ofLimit {
		i = len(c.lines)
		c.places[said] = i
		c.lines = append(c.lines, Line{At: c.at, answer: said})
	}
	c.lines[i].Of = append(c.lines[i].Of, of.String())
}
