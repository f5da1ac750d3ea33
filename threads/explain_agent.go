package threads

import (
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// explainLimit bounds the items that the explanation of an agent or a thread lists.
const explainLimit = 50

// ExplainedItem is a waiting item, with the reason why one agent does not start it.
type ExplainedItem struct {
	Repo   string      `json:"repo"`
	Number int64       `json:"number"`
	Kind   agents.Kind `json:"kind"`
	Title  string      `json:"title"`
	Code   Code        `json:"code"`
	Why    string      `json:"why"`
}

// ExplainName returns what an agent, or the agents of a thread, do, and why they start nothing. It fails for a name
// that is not in the configuration.
func ExplainName(s Snapshot, name string) (Explanation, error) {
	if s.Config == nil {
		return Explanation{}, fmt.Errorf("cannot explain %s: no valid configuration", name)
	}
	_, d := decide(&s)
	for i := range d.agents {
		if d.agents[i].Name == name {
			return d.explainAgent(&d.agents[i]), nil
		}
	}
	for i := range d.threads {
		if d.threads[i].Name == name {
			return d.explainThread(&d.threads[i]), nil
		}
	}
	return Explanation{}, fmt.Errorf("cannot explain %s: it is no agent and no thread of this factory", name)
}

// explainAgent says what an agent does, or what keeps it from starting anything, and lists the items of its roles.
func (d *decision) explainAgent(a *agentState) Explanation {
	ex := Explanation{Name: a.Name, Kind: "agent", Steps: []Step{}, Title: a.title()}
	var own []candidate
	for _, c := range d.cands {
		if c.agent == a {
			own = append(own, c)
			ex.Candidates = append(ex.Candidates, d.freeSteps(c))
		}
	}
	for _, w := range d.queue {
		if why := d.keeps(own, w); why != nil && !w.taken && len(ex.Items) < explainLimit {
			ex.Items = append(ex.Items, ExplainedItem{
				Repo: w.Ref.Repo, Number: w.Ref.Number, Kind: asShown(w.Kind), Title: w.Title, Code: why.Code, Why: d.inFull(why),
			})
		}
	}
	ex.standing(d)
	return ex
}

// standing fills in what an agent does: its session or start, the rule that holds it, or that no item is for it.
func (ex *Explanation) standing(d *decision) {
	if s := d.byAgent[ex.Name]; s != nil {
		ex.Verdict = fmt.Sprintf("works on %s in slot %d (%s)", s.Item.words(), s.Slot, s.State)
		return
	}
	if why := d.idles(func(c candidate) bool { return c.agent.Name == ex.Name }); why != nil {
		ex.Verdict, ex.Code, ex.Mend = "starts nothing: "+d.inFull(why), why.Code, why.MendFor(ex.Name)
		return
	}
	ex.Verdict = "idle: no waiting item is for it"
	if len(ex.Items) > 0 {
		ex.Verdict = "idle: each item that is for it waits for something else"
	}
}

// words names an item: "issue o/r#12", "gardener of o/r".
func (it *Item) words() string {
	if it.Kind == agents.KindSchedule {
		return it.Role + " of " + it.Ref.Repo
	}
	return string(it.Kind) + " " + it.Ref.String()
}

// freeSteps applies the free rules to the candidate.
func (d *decision) freeSteps(c candidate) CandidateSteps {
	steps := c.steps()
	for _, rule := range freeRules {
		steps.Steps = append(steps.Steps, d.stepOf(rule.name, rule.why(d.view, c)))
	}
	return steps
}

func (c candidate) steps() CandidateSteps {
	return CandidateSteps{Agent: c.agent.Name, Role: c.role.Name, Thread: c.agent.Thread}
}

// keeps returns the first objection to an item for an agent in one of its roles; nil when none of its roles fits the
// item.
func (d *decision) keeps(own []candidate, w *work) *Reason {
	t := d.traitsOf(w)
	i := slices.IndexFunc(own, func(c candidate) bool { return roleFits(d.view, &t, c) == nil })
	switch {
	case i < 0 || w.Kind == stageMerge:
		return nil
	case w.class == nil:
		return w.Reason
	}
	if _, why := d.refusal(&t, own[i]); why != nil {
		return why
	}
	asked := own[i]
	asked.kind = w.Kind
	if _, why := d.unfree(asked); why != nil {
		return why
	}
	if why := d.noFreeSlotFor(w, own[i]); why != nil {
		return why
	}
	return w.Reason
}

// atWork says how many sessions the thread runs, and how many it may run.
func (t *threadState) atWork() string {
	if t.running == 0 {
		return fmt.Sprintf("no sessions running, of at most %d", t.MaxSessions)
	}
	return fmt.Sprintf("%d of at most %d sessions running", t.running, t.MaxSessions)
}

// explainThread says how many sessions a thread runs, or what keeps it from starting more, and explains each of its
// agents.
func (d *decision) explainThread(t *threadState) Explanation {
	ex := Explanation{Name: t.Name, Kind: "thread", Steps: []Step{}, Title: t.title()}
	ex.Verdict = t.atWork()
	if t.running > 0 {
		ex.Verdict += ": " + d.holders(t.Name)
	}
	var wide *Reason // holds every agent of the thread, and names none
	for _, c := range d.cands {
		if c.agent.thread != t {
			continue
		}
		ex.Candidates = append(ex.Candidates, d.freeSteps(c))
		if _, why := d.unfree(c); why != nil && why.Agent == "" && why.Code != NoSlot && why.Code != NoProgram {
			wide = why
		}
	}
	switch {
	case wide != nil:
		ex.Verdict, ex.Code, ex.Mend = "starts nothing: "+wide.Text(), wide.Code, wide.MendFor(t.Name)
	case t.reserved != nil:
		ex.Verdict += "; begins no new issue: " + t.reserved.Text()
		ex.Code, ex.Mend = t.reserved.Code, t.reserved.MendFor(t.Name)
	}
	return ex
}

// title describes an agent in one line.
func (a *agentState) title() string { return strings.Join(a.Roles, ", ") + " on " + a.Thread }

// title describes a thread in one line.
func (t *threadState) title() string { return fmt.Sprintf("%s, %s", t.Backend, count(t.Slots, "slot")) }
