package threads

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Returns is what is known of how pull requests that were written in the slots of a thread come back from review. The zero
// value knows nothing.
type Returns struct {
	N    int     `json:"n"`    // verdicts seen
	Gap  float64 `json:"gap"`  // seconds from the end of the session to the verdict on what it wrote, the newer the heavier
	Back float64 `json:"back"` // part of them that wanted changes, likewise
}

// learnedAt is the number of verdicts from which on they are believed, and learnedLeast the least weight of a new one: a
// reviewer that became slow is noticed within some ten verdicts.
const (
	learnedAt    = 3
	learnedLeast = 0.1
)

// Learn adds a verdict. The first ones count as much as all before them.
func (r Returns) Learn(gap time.Duration, back bool) Returns {
	r.N++
	weight := max(learnedLeast, 1/float64(r.N))
	came := 0.0
	if back {
		came = 1
	}
	r.Gap += weight * (gap.Seconds() - r.Gap)
	r.Back += weight * (came - r.Back)
	return r
}

// Soon reports whether waiting for a verdict costs less than it saves: the time that it takes, against what reading the
// context again takes, times how often it has to be. Waiting for a slow reviewer is the worst that can be done: with
// verdicts after four minutes it made issues take 1.6 times as long.
func (r Returns) Soon(reload time.Duration) bool {
	return r.N >= learnedAt && r.Gap < r.Back*reload.Seconds()
}

// urgentMost is the priority up to which nobody waits for the sake of a cache.
const urgentMost = 2

// keeping is a free slot whose resident is expected back: what it wrote there last is being reviewed.
type keeping struct {
	agent string
	slot  int
	chain forge.Ref
	pull  forge.Ref
	until time.Time
}

// indexKept finds the slots of a thread that are kept for their residents. Of several slots that are warm for one agent it
// is the one that it left last.
func (v *view) indexKept(t *threadState) {
	if t.Hold == 0 || t.Overlap || !v.History.Thread(t.Name).Returns.Soon(t.Hold) {
		return
	}
	for slot, w := range t.warm {
		until := w.Left.Add(t.Hold)
		if w.Agent == "" || t.sessions[slot] > 0 || w.Left.Before(v.History.Agent(w.Agent).IdleSince) || !until.After(v.Now) {
			continue
		}
		if p := v.reviewed(w); p != nil && v.canReturn(t, w.Agent) {
			v.wake(until)
			t.kept = append(t.kept, keeping{w.Agent, slot, w.Chain, p.Ref, until})
		}
	}
}

// reviewed is the open pull request of a resident that waits for the verdict of an agent, or whose rework waits for nothing
// but facts that are newer than the end of the review: else somebody would slip in between the verdict and the next scan. Nil
// when there is none.
func (v *view) reviewed(w Warm) *forge.Pull {
	for i := range v.Facts.Pulls {
		p, st := &v.Facts.Pulls[i], &v.stages[i]
		if p.Closed || st.chain != w.Chain || p.Draft || forge.SkipLabel(p.Labels) != "" || v.unwanted(p) {
			continue
		}
		if late := st.kind == agents.KindRework && v.stale(v.repo(p.Repo), p.Ref, st.chain); st.kind != agents.KindReview && !late {
			continue
		}
		if a := v.Config.AgentByLogin(p.Author); a != nil && a.Name == w.Agent && v.Config.reviewable(st.writers) {
			return p
		}
	}
	return nil
}

// canReturn reports whether nothing but the verdict is waited for: the agent works on the thread, is idle, and is not held.
func (v *view) canReturn(t *threadState, agent string) bool {
	return v.byAgent[agent] == nil && slices.ContainsFunc(v.cands, func(c candidate) bool {
		return c.agent.Name == agent && c.agent.thread == t && !c.stuck
	})
}

// slotRule says why an agent may not take an item into a slot that is free; nil when it may.
type slotRule struct {
	name string
	why  func(v *view, w *work, c candidate, slot int) *Reason
}

var slotRules = []slotRule{
	{"slot not kept", notKept},
}

// noSlotFor is the first slot rule that objects.
func (v *view) noSlotFor(w *work, c candidate, slot int) *Reason {
	for _, rule := range slotRules {
		if why := rule.why(v, w, c, slot); why != nil {
			return why
		}
	}
	return nil
}

// noFreeSlotFor is what keeps an agent that is free from taking an item into any free slot of its thread.
func (v *view) noFreeSlotFor(w *work, c candidate) (why *Reason) {
	for _, slot := range freeSlots(c.agent.thread) {
		if why = v.noSlotFor(w, c, slot); why == nil {
			return nil
		}
	}
	return why
}

// notKept leaves a slot, and the agent that it is kept for, alone until the agent's pull request is judged. The review itself
// goes on, and nothing that is urgent or was passed over too often is kept waiting.
func notKept(v *view, w *work, c candidate, slot int) *Reason {
	if w.insists() {
		return nil
	}
	for i := range c.agent.thread.kept {
		k := &c.agent.thread.kept[i]
		switch {
		case k.slot != slot && k.agent != c.agent.Name, k.chain == w.Chain, !v.stillKept(c.agent.thread, k):
		default:
			return &Reason{Code: SlotKept, Agent: k.agent, Thread: c.agent.thread.Name, Refs: []forge.Ref{k.pull}, Until: k.until}
		}
	}
	return nil
}

// stillKept reports whether no start of this very plan took the slot or the agent.
func (v *view) stillKept(t *threadState, k *keeping) bool {
	return t.sessions[k.slot] == 0 && v.byAgent[k.agent] == nil
}

// insists reports whether an item does not wait for the sake of a cache.
func (w *work) insists() bool { return w.Priority <= urgentMost || w.starved() }
