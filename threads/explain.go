package threads

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Explanation has the answer of every rule about one item, in order. The rules are those of Decide, so the two cannot
// disagree. Its JSON form is part of the control API.
type Explanation struct {
	Repo   string      `json:"repo"`
	Number int64       `json:"number"`
	Kind   agents.Kind `json:"kind"`
	Title  string      `json:"title"`
	Steps  []Step      `json:"steps"`
	// Candidates are the agents whose role could fit, each with the answers of its rules; empty when an item rule
	// objects.
	Candidates []CandidateSteps `json:"candidates"`
	Verdict    string           `json:"verdict"` // in one line: it starts, runs, is merged, or the reason it waits
	Code       Code             `json:"code"`    // of the reason it waits; empty when it does not wait
	Mend       string           `json:"mend"`    // see Reason.Mend
	// Position is its place among the waiting items, from 1; 0 when it does not wait, or only a person can end that.
	Position int `json:"position"`
	// Name is the agent or thread that was asked about instead of an item; its Kind is then "agent" or "thread".
	Name string `json:"name,omitempty"`
	// Items are the waiting items that an agent has a role for.
	Items []ExplainedItem `json:"items,omitempty"`
	// Since is the time from which a past answer held; zero for an answer of now.
	Since time.Time `json:"since,omitzero"`
}

// Step is one rule and its answer.
type Step struct {
	Rule string `json:"rule"`
	OK   bool   `json:"ok"`
	Why  string `json:"why"` // when not OK
}

// CandidateSteps are the answers of the rules about one agent for the item.
type CandidateSteps struct {
	Agent  string `json:"agent"`
	Role   string `json:"role"`
	Thread string `json:"thread"`
	Steps  []Step `json:"steps"`
}

// Explain returns what Decide would do with one issue or pull request, and the answer of each rule. It fails when the
// snapshot has no configuration or does not know the item.
func Explain(s Snapshot, ref forge.Ref) (Explanation, error) {
	if s.Config == nil {
		return Explanation{}, fmt.Errorf("cannot explain %s: no valid configuration", ref)
	}
	plan, d := decide(&s)
	w, err := d.find(ref)
	if err != nil {
		return Explanation{}, err
	}
	ex := Explanation{Repo: w.Ref.Repo, Number: w.Ref.Number, Kind: asShown(w.Kind), Title: w.Title}
	if w.stage != nil {
		w.Kind = w.stage.kind // the rules need this kind; a hold has the kind that is shown
	}
	passed := true
	for _, rule := range rulesFor(w) {
		why := rule.why(d.view, w)
		if why != nil && w.taken && (why.Code == HasSession || why.Code == ChainBusy) {
			why = nil // the item's own start in this plan does not keep it from starting
		}
		ex.Steps = append(ex.Steps, d.stepOf(rule.name, why))
		passed = passed && why == nil
	}
	if passed && w.Kind != stageMerge {
		ex.Candidates = d.explainCandidates(w)
	}
	ex.conclude(&plan, d, w)
	return ex, nil
}

func (d *decision) find(ref forge.Ref) (*work, error) {
	for i := range d.items {
		if d.items[i].Ref == ref {
			return &d.items[i], nil
		}
	}
	var w work
	if is := d.Facts.Issue(ref); is != nil { // closed
		d.fillIssue(&w, is)
		for i := range d.Sessions {
			w.attend(&d.Sessions[i])
		}
		return &w, nil
	}
	if i := slices.IndexFunc(d.Facts.Pulls, func(p forge.Pull) bool { return p.Ref == ref }); i >= 0 {
		d.fillPull(&w, &d.Facts.Pulls[i], &d.stages[i])
		return &w, nil
	}
	return nil, fmt.Errorf("cannot explain %s: no open issue or pull request of that number has been read", ref)
}

// explainCandidates applies every rule to every agent whose role could fit.
func (d *decision) explainCandidates(w *work) []CandidateSteps {
	t := d.traitsOf(w)
	var list []CandidateSteps
	for _, c := range d.cands {
		c.kind = w.Kind
		if w.class != nil && len(w.class.able) > 0 && roleFits(d.view, &t, c) != nil {
			continue
		}
		steps := c.steps()
		for _, rule := range candidateRules {
			steps.Steps = append(steps.Steps, d.stepOf(rule.name, rule.why(d.view, &t, c)))
		}
		s := d.byAgent[c.agent.Name]
		starts := w.taken && s != nil && s.Item.Key() == w.Key()
		for _, rule := range freeRules {
			why := rule.why(d.view, c)
			if starts && rule.moves {
				why = nil // its own start in this plan does not keep it from starting
			}
			steps.Steps = append(steps.Steps, d.stepOf(rule.name, why))
		}
		if _, why := d.unfree(c); why == nil {
			steps.Steps = append(steps.Steps, d.stepOf("slot not kept", d.noFreeSlotFor(w, c)))
		}
		list = append(list, steps)
	}
	return list
}

func (d *decision) stepOf(rule string, why *Reason) Step {
	if why != nil {
		return Step{Rule: rule, Why: d.inFull(why)}
	}
	return Step{Rule: rule, OK: true}
}

// inFull returns a reason's text with more detail: what a blocker itself waits for, or which agents have the slots.
func (d *decision) inFull(why *Reason) string {
	switch why.Code {
	case BlockerOpen:
		return why.Text() + d.behind(why.Refs[0])
	case NoSlot:
		return why.Text() + ": " + d.holders(why.Thread)
	}
	return why.Text()
}

// behind returns the chain of open blockers below a blocker, such as " <- #13 <- #14".
func (d *decision) behind(ref forge.Ref) string {
	words, seen := "", []forge.Ref{ref}
	for {
		is := d.Facts.Issue(ref)
		if is == nil {
			return words
		}
		open := blockersIn(is, forge.BlockerOpen)
		if len(open) == 0 || slices.Contains(seen, open[0]) {
			return words
		}
		ref = open[0]
		seen = append(seen, ref)
		words += " <- " + ref.String()
	}
}

// holders lists the agents in a thread's slots with their items, including those that start in this plan.
func (d *decision) holders(thread string) string {
	var names []string
	for i := range d.agents {
		a := &d.agents[i]
		s := d.byAgent[a.Name]
		switch {
		case s == nil || s.Thread != thread:
		case s.Item.Ref.Number == 0:
			names = append(names, a.Name+" "+s.Item.Role)
		default:
			names = append(names, a.Name+" "+s.Item.Ref.String())
		}
	}
	return strings.Join(names, ", ")
}

// MergedNow is the verdict of a pull request that a plan merges.
const MergedNow = "is merged now"

// Words returns the verdict of an item that a plan starts.
func (s *Start) Words() string {
	return fmt.Sprintf("starts now: %s on %s, slot %d", s.Agent, s.Thread, s.Slot)
}

// conclude fills in the verdict of the plan.
func (ex *Explanation) conclude(plan *Plan, d *decision, w *work) {
	for _, s := range plan.Starts {
		if s.Item.Key() == w.Key() {
			ex.Verdict = s.Words() + d.warmed(&s) + w.onLadder()
			return
		}
	}
	if slices.ContainsFunc(plan.Merges, func(m Merge) bool { return m.Ref == w.Ref }) {
		ex.Verdict = MergedNow
		return
	}
	for i, h := range plan.Holds {
		if h.Item.Ref == w.Ref && h.Item.Role == w.Item.Role {
			ex.Verdict, ex.Code = Waits(d.inFull(h.Reason))+d.inTurn(w)+w.onLadder(), h.Reason.Code
			if ends := ex.Code.Ends(); ends == ByItself || ends == ByScan {
				ex.Position = i + 1
			}
			ex.Mend = h.Reason.MendFor(w.Ref.String())
			return
		}
	}
	if why := d.objection(w); why != nil {
		ex.Verdict, ex.Code, ex.Mend = d.inFull(why), why.Code, why.MendFor(w.Ref.String())
	}
	if s := w.session(); s != nil {
		ex.Verdict = fmt.Sprintf("%s works on it on %s, slot %d (%s)", s.Agent, s.Thread, s.Slot, s.State)
		if s.Rung > 0 {
			ex.Verdict += fmt.Sprintf("; rung %d of the ladder", s.Rung)
		}
	}
}

// warmed says which cache has the conversation that a start continues; empty where it starts a new one, or none has
// it.
func (d *decision) warmed(s *Start) string {
	t := d.thread(s.Thread)
	switch {
	case t.Overlap:
	case t.warm[s.Slot].Agent == s.Agent && t.warm[s.Slot].Chain == s.Item.Chain:
		return "; the slot has its conversation"
	case slices.ContainsFunc(t.talks, func(talk Talk) bool { return talk.is(s.Agent, s.Item.Chain) }):
		return "; the server's memory has its conversation"
	}
	return ""
}

// onLadder says on which rung an item's chain is, and after how many setbacks; empty below the ladder.
func (w *work) onLadder() string {
	if w.class == nil || w.class.level == 0 {
		return ""
	}
	return fmt.Sprintf("; rung %d of the ladder, rejected or failed: %d", w.class.level, w.class.setbacks)
}

// Waits turns a reason into a verdict. Some reasons already start with that word.
func Waits(why string) string {
	if strings.HasPrefix(why, "waits ") {
		return why
	}
	return "waits: " + why
}
