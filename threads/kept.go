package threads

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Returns are statistics of the verdicts on pull requests written in a thread's slots. The zero value has no
// verdicts.
type Returns struct {
	N    int     `json:"n"`    // verdicts seen
	Gap  float64 `json:"gap"`  // mean seconds from a session's end to the verdict on its work; newer ones weigh more
	Back float64 `json:"back"` // share of verdicts that requested changes, likewise
}

// Returns count from learnedAt verdicts on. learnedLeast is the least weight of a new verdict: about ten verdicts
// show that a reviewer became slow.
const (
	learnedAt    = 3
	learnedLeast = 0.1
)

// Learn adds a verdict. The first ten weigh the same.
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

// Soon reports whether waiting for a verdict costs less than it saves. The cost is the mean wait. The gain is the
// time to read the context again, times the share of verdicts that need it. Waiting for a slow reviewer costs most:
// with verdicts after four minutes issues took 1.6 times as long.
func (r Returns) Soon(reload time.Duration) bool {
	return r.N >= learnedAt && r.Gap < r.Back*reload.Seconds()
}

// urgentMost is the highest priority number whose items do not wait for a cache.
const urgentMost = 2

// keeping is a free slot that is kept for its resident, whose last work there is in review.
type keeping struct {
	agent string
	slot  int
	chain forge.Ref
	pull  forge.Ref
	until time.Time
}

// indexKept finds the slots of a thread that are kept for their residents. If a resident left several slots, only the
// last one is kept.
func (v *view) indexKept(t *threadState) {
	if !v.History.Thread(t.Name).Returns.Soon(t.Hold) {
		return
	}
	for slot, w := range t.warm {
		until := w.Left.Add(t.Hold)
		if t.sessions[slot] > 0 || w.Left.Before(v.History.Agent(w.Agent).IdleSince) || !until.After(v.Now) {
			continue
		}
		if p := v.reviewed(w); p != nil && v.canReturn(t, w.Agent) {
			v.wake(until)
			t.kept = append(t.kept, keeping{w.Agent, slot, w.Chain, p.Ref, until})
		}
	}
}

// reviewed returns the open pull request of a resident that waits for an agent's verdict; nil without one. It also
// returns one whose rework waits only for the next scan after the review: otherwise another item would get the slot
// between the verdict and that scan.
func (v *view) reviewed(w Warm) *forge.Pull {
	for i := range v.Facts.Pulls {
		p, st := &v.Facts.Pulls[i], &v.stages[i]
		if st.chain != w.Chain || p.Draft || forge.SkipLabel(p.Labels) != "" || v.unwanted(p) {
			continue
		}
		late := st.kind == agents.KindRework && v.stale(v.repo(p.Repo), p.Ref, st.chain)
		if st.kind != agents.KindReview && !late {
			continue
		}
		a := v.Config.AgentByLogin(p.Author)
		if a != nil && a.Name == w.Agent && v.reviewable(p.Repo, st.writers) {
			return p
		}
	}
	return nil
}

// canReturn reports whether the agent could start on the thread at once: it is configured there, idle, and not held.
func (v *view) canReturn(t *threadState, agent string) bool {
	return v.byAgent[agent] == nil && slices.ContainsFunc(v.cands, func(c candidate) bool {
		return c.agent.Name == agent && c.agent.thread == t && !c.stuck
	})
}

// noFreeSlotFor returns why the last free slot of the agent's thread is kept; nil when the agent may take the item into
// one of them.
func (v *view) noFreeSlotFor(w *work, c candidate) (why *Reason) {
	for _, slot := range freeSlots(c.agent.thread) {
		if why = v.notKept(w, c, slot); why == nil {
			return nil
		}
	}
	return why
}

// notKept reserves a kept slot and its resident until the resident's pull request has its verdict. The same chain may
// continue there, and items that insist do not wait.
func (v *view) notKept(w *work, c candidate, slot int) *Reason {
	if w.insists() {
		return nil
	}
	for i := range c.agent.thread.kept {
		k := &c.agent.thread.kept[i]
		switch {
		case k.slot != slot && k.agent != c.agent.Name, k.chain == w.Chain, !v.stillKept(c.agent.thread, k):
		default:
			return &Reason{
				Code: SlotKept, Agent: k.agent, Thread: c.agent.thread.Name, Refs: []forge.Ref{k.pull}, Until: k.until,
			}
		}
	}
	return nil
}

// stillKept reports whether no start of this plan took the slot or the agent.
func (v *view) stillKept(t *threadState, k *keeping) bool {
	return t.sessions[k.slot] == 0 && v.byAgent[k.agent] == nil
}

// insists reports whether an item takes kept slots too: it is urgent, or was passed over too often.
func (w *work) insists() bool { return w.Priority <= urgentMost || w.starved() }
