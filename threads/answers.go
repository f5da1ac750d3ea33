package threads

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"codeberg.org/johba/disinto/forge"

	"codeberg.org/johba/disinto/agents"
)

// Answer says what a plan does with an item, an agent or a thread, or why it waits. One of Does and Reason is set.
type Answer struct {
	Ref    forge.Ref   // zero for an agent or a thread
	Kind   agents.Kind // "agent" or "thread" for those
	Name   string      // of the agent or thread
	Does   string      // what it does, or what is done with it
	Reason *Reason     // why it waits, or why it starts nothing
}

// Answers returns the answers of a plan for every open issue and pull request, and for every agent and thread. The
// answers for sessions and starts come before those of other items.
func Answers(s *Snapshot, p *Plan) iter.Seq[Answer] {
	return func(yield func(Answer) bool) {
		if s.Config == nil {
			return
		}
		after := afterStarts(s, p.Starts)
		for i := range after.Sessions {
			x := &after.Sessions[i]
			if x.Item.Ref.Number != 0 && !yield(Answer{Ref: x.Item.Ref, Kind: asShown(x.Item.Kind), Does: x.does(p)}) {
				return
			}
		}
		for i := range p.Merges {
			if !yield(Answer{Ref: p.Merges[i].Ref, Kind: agents.KindReview, Does: "is being merged"}) {
				return
			}
		}
		for _, list := range [][]*Hold{p.Holds, p.Unqueued} {
			for _, h := range list {
				if h.Ref.Number != 0 && !yield(Answer{Ref: h.Ref, Kind: h.Kind, Reason: h.Reason}) {
					return
				}
			}
		}
		newCrew(after).answers(yield)
	}
}

// does says who works on a session's item, and whether the plan stops it.
func (s *Session) does(p *Plan) string {
	words := fmt.Sprintf("%s works on it on %s, slot %d", s.Agent, s.Thread, s.Slot)
	if i := slices.IndexFunc(p.Stops, func(x Stop) bool { return x.RunID == s.RunID }); i >= 0 {
		words += "; being stopped: " + p.Stops[i].Reason.Text()
	}
	return words
}

// answers yields the answers for the agents and threads.
func (v *view) answers(yield func(Answer) bool) {
	for i := range v.agents {
		a := Answer{Name: v.agents[i].Name, Kind: "agent", Does: "idle"}
		if s := v.byAgent[a.Name]; s != nil {
			a.Does = fmt.Sprintf("works on %s in slot %d", s.Item.words(), s.Slot)
		} else if why := v.idles(func(c candidate) bool { return c.agent == &v.agents[i] }); why != nil {
			a.Does, a.Reason = "", why
		}
		if !yield(a) {
			return
		}
	}
	for i := range v.threads {
		t := &v.threads[i]
		a := Answer{Name: t.Name, Kind: "thread", Does: t.atWork()}
		why := v.idles(func(c candidate) bool { return c.agent.thread == t })
		if why != nil && t.running == 0 && why.Agent == "" {
			a.Does, a.Reason = "", why
		}
		if !yield(a) {
			return
		}
	}
}

// idles returns the reason why none of the candidates that are chosen can start anything; nil if one can.
func (v *view) idles(chosen func(candidate) bool) (first *Reason) {
	for _, c := range v.cands {
		if !chosen(c) {
			continue
		}
		_, why := v.unfree(c)
		if why == nil {
			return nil
		}
		first = cmp.Or(first, why)
	}
	return first
}

// counts reports whether a reason with this code has operands that change while the item goes on to wait: a count, an
// amount, or which agent works on what.
func (c Code) counts() bool {
	switch c {
	case AgentBusy, NoSlot, RepoFull, SlotKept, OverBudget, OverWindow, WindowKept, NoRoom, NoPlace, Starting, Unreviewed,
		ReviewLimit, Tracking:
		return true
	}
	return false
}

// Same reports whether two reasons differ at most in operands that change while an item goes on to wait.
func (r *Reason) Same(o *Reason) bool {
	switch {
	case r == o:
		return true
	case r == nil || o == nil || r.Code != o.Code || r.Agent != o.Agent || r.Thread != o.Thread || r.Repo != o.Repo:
		return false
	case r.Code.counts():
		return r.Code != AgentBusy || r.Note == o.Note
	}
	return r.Note == o.Note && r.Person == o.Person && r.Why == o.Why && r.Count == o.Count && r.Limit == o.Limit &&
		r.Until.Equal(o.Until) && slices.Equal(r.Refs, o.Refs)
}

// Lasting returns the reason in words, without the operands that Same ignores.
func (r *Reason) Lasting() string {
	if !r.Code.counts() {
		return r.Text()
	}
	text := docs[r.Code].Means
	if who := cmp.Or(r.Agent, r.Thread); who != "" {
		text += " (" + who + ")"
	}
	return text
}

// WaitsFor returns what a waiting item waits for, in words that follow "waits for", such as "#12" or "a free dev
// agent"; empty where the code has to say it.
func (r *Reason) WaitsFor() string {
	switch {
	case r.Code == AgentBusy && r.Agent == "":
		return "a free " + r.Note
	case r.Code == NoSlot || r.Code == SlotKept:
		return "a free slot on " + r.Thread
	case r.Code == CIPending || r.Code == CIStuck:
		return "CI"
	case r.Code == BlockerOpen, r.Code == HasPull, r.Code == PeoplesPull,
		r.Code == MergeQueued, r.Code == ChainBusy:
		return join(r.Refs, ", ")
	case r.Agent != "" && (r.Code.Class() == Unfit || r.Code == AgentBusy):
		return r.Agent
	case r.NeedsPerson():
		return "a person"
	}
	return ""
}

// Verdict says the answer in one line, in words that hold as long as the answer does.
func (a *Answer) Verdict() string {
	switch {
	case a.Reason == nil:
		return a.Does
	case a.Name != "":
		return "starts nothing: " + a.Reason.Lasting()
	}
	return Waits(a.Reason.Lasting())
}
