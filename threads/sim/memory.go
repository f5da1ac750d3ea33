package sim

import (
	"errors"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// How long an item, an agent or a thread rests. What each is for is said where it is used.
const (
	takenRest       = time.Minute
	unavailableRest = 10 * time.Second
	forbiddenRest   = 5 * time.Minute
	reassignedRest  = time.Minute
	limitRest       = 5 * time.Minute
	refusedRest     = 15 * time.Second
	remarkRest      = time.Minute
	breakerCount    = 3
)

// attemptRests are the cool-downs after attempts 1 to 4; after the fifth a person is asked.
var attemptRests = [maxAttempts]time.Duration{2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// memory keeps a threads.History. It survives a restart, except Touched: every fact is then newer than every write.
type memory struct {
	threads.History
	remarks map[threads.Key]int // sessions in a row that left nothing but words
	refused map[threads.Key]int // merges and closings in a row that the forge refused
	downs   map[string]int      // sessions in a row that found no backend, per thread
	bills   map[account]int64   // tokens
	written map[forge.Ref]work  // by chain: who wrote last, and has no verdict yet
}

// work is the end of a session that wrote in a sticky slot.
type work struct {
	thread string
	at     time.Time
}

func newMemory() memory {
	return memory{
		History: threads.NewHistory(),
		remarks: make(map[threads.Key]int),
		refused: make(map[threads.Key]int),
		downs:   make(map[string]int),
		bills:   make(map[account]int64),
		written: make(map[forge.Ref]work),
	}
}

func (m *memory) touch(now time.Time, refs ...forge.Ref) {
	for _, ref := range refs {
		m.Touched[ref] = now
	}
}

// begun remembers a start before anything is done about it: whose claim it is, who writes, and who was passed over.
func (m *memory) begun(r *run, over threads.Key) {
	k := r.Item.Key()
	it := threads.Entry(m.Items, k)
	it.PassedOver, it.CoolDown = 0, time.Time{}
	if over != (threads.Key{}) {
		threads.Entry(m.Items, over).PassedOver++
	}
	if r.Item.Kind == agents.KindSchedule {
		return
	}
	threads.Entry(m.Chains, r.Item.Ref).Claimed = r.Agent
	if chain := r.Item.Chain; r.Item.Kind.Writes() && !slices.Contains(m.Chain(chain).Writers, r.Agent) {
		threads.Entry(m.Chains, chain).Writers = append(slices.Clone(m.Chain(chain).Writers), r.Agent)
		r.writer = true
	}
	if r.Item.Cause == threads.CauseCI {
		threads.Entry(m.Chains, r.Item.Ref).CIFixes++
	}
}

// unclaimed takes back what begun said, because the forge gave no claim. That burns no attempt.
func (m *memory) unclaimed(r *run, now time.Time, err error) {
	k := r.Item.Key()
	if r.writer {
		threads.Entry(m.Chains, r.Item.Chain).Writers = slices.DeleteFunc(slices.Clone(m.Chain(r.Item.Chain).Writers), func(a string) bool { return a == r.Agent })
	}
	if r.Item.Cause == threads.CauseCI {
		threads.Entry(m.Chains, r.Item.Ref).CIFixes--
	}
	switch {
	case errors.Is(err, forge.ErrTaken): // somebody else has it; the next scans will say who
		threads.Entry(m.Chains, k.Ref).Claimed = ""
		threads.Entry(m.Items, k).CoolDown = now.Add(takenRest)
	case errors.Is(err, forge.ErrForbidden): // a person has to give the account its right
		threads.Entry(m.Agents, r.Agent).Hold(now.Add(forbiddenRest), "forbidden")
	default: // it may be half written: the claim stays in the books until the forge shows none
		threads.Entry(m.Items, k).CoolDown = now.Add(unavailableRest)
	}
}

// lost is the end of a session whose supervisor died. Its claim is still to be released, its attempts stand.
func (m *memory) lost(r *run, now time.Time) { threads.Entry(m.Agents, r.Agent).IdleSince = now }

// ended is what follows from an outcome: section 7 of the design.
func (m *memory) ended(r *run, w *world, out agents.Outcome, effect threads.Effect, verdict forge.Verdict) {
	k, now := r.Item.Key(), w.now
	threads.Entry(m.Agents, r.Agent).IdleSince = now
	m.charge(r, w, out.Usage)
	if t := w.cfg.Thread(r.Thread); !t.Overlap {
		m.Slots[threads.SlotKey{Thread: r.Thread, Slot: r.Slot}] = threads.Warm{Agent: r.Agent, Chain: r.Item.Chain, Left: now}
		if r.Item.Kind.Writes() && out.Result == agents.Done {
			m.written[r.Item.Chain] = work{r.Thread, now}
		}
	}
	if w, waits := m.written[r.Item.Chain]; waits && verdict != forge.Commented {
		threads.Entry(m.Threads, w.thread).Returns = m.Thread(w.thread).Returns.Learn(now.Sub(w.at), verdict == forge.ChangesRequested)
		delete(m.written, r.Item.Chain)
	}
	ran := out.Result == agents.Done || out.Result == agents.Refused || out.Result.BurnsAttempt()
	if ran && k.Kind == agents.KindSchedule {
		threads.Entry(m.Items, k).LastRun = now
		return
	}
	switch {
	case out.Result == agents.Limited:
		m.park(r.Thread, out.RetryAt, out.Reason)
	case out.Result == agents.BackendDown:
		threads.Entry(m.Items, k).CoolDown = now.Add(unavailableRest)
		if m.downs[r.Thread]++; m.downs[r.Thread] >= breakerCount {
			m.park(r.Thread, now.Add(w.cfg.Thread(r.Thread).BreakerInterval), out.Reason)
		}
		return
	case out.Result == agents.Cancelled && r.stopped == threads.StopReassigned: // whoever did that has more to say
		threads.Entry(m.Items, k).CoolDown = now.Add(reassignedRest)
	case out.Result == agents.Refused:
		c := threads.Entry(m.Chains, k.Ref)
		c.Refused, c.RefusedAt = out.Reason, now
	case out.Result == agents.Done && effect == threads.Remarked: // as open as before, and not to be asked every minute
		threads.Entry(m.Items, k).CoolDown = now.Add(remarkRest << min(m.remarks[k], 6))
		m.remarks[k]++
	case out.Result == agents.Done:
		threads.Entry(m.Chains, r.Item.Chain).ClearAttempt(r.Item.Kind)
		delete(m.remarks, k)
	case out.Result.BurnsAttempt():
		m.fail(r, now)
	}
	delete(m.downs, r.Thread)
}

func (m *memory) fail(r *run, now time.Time) {
	until := now.Add(attemptRests[min(r.Attempt, maxAttempts)-1])
	threads.Entry(m.Chains, r.Item.Chain).SetAttempt(threads.Attempt{Kind: r.Item.Kind, Count: r.Attempt, Until: until})
}

// park never shortens.
func (m *memory) park(thread string, until time.Time, why string) {
	if t := threads.Entry(m.Threads, thread); until.After(t.ParkedUntil) {
		t.ParkedUntil, t.ParkedWhy = until, why
	}
}

// released forgets a claim once the forge has said that it is off.
func (m *memory) released(ref forge.Ref, err error) {
	if err == nil {
		threads.Entry(m.Chains, ref).Claimed = ""
	}
}

// answered remembers a merge or a mark that the forge refused in the state that things are in. It rests, longer each
// time, so that one pull request which the forge will never merge does not hold up those behind it.
func (m *memory) answered(k threads.Key, now time.Time, err error) {
	if errors.Is(err, forge.ErrConflict) {
		threads.Entry(m.Items, k).CoolDown = now.Add(refusedRest << min(m.refused[k], 5))
		m.refused[k]++
		return
	}
	delete(m.refused, k)
}

// marked remembers that a label was written: what led to it is then over, and starts anew when a person takes it off.
func (m *memory) marked(mk threads.Mark, now time.Time, err error) {
	m.answered(mk.Key(), now, err)
	if err != nil {
		return
	}
	switch mk.Action {
	case threads.ActRelease:
		threads.Entry(m.Chains, mk.Ref).Claimed = ""
	case threads.ActBlocked:
		c := threads.Entry(m.Chains, mk.Item.Chain)
		a := c.Attempt(mk.Item.Kind)
		a.Kind, a.Marked = mk.Item.Kind, true
		c.SetAttempt(a)
	case threads.ActTell:
		threads.Entry(m.Chains, mk.Ref).Told = mk.Reason.Key()
	case threads.ActNeedsHuman:
		if mk.Reason.Code == threads.BlockerCancelled {
			threads.Entry(m.Chains, mk.Ref).Told = mk.Reason.Key()
		}
		c := threads.Entry(m.Chains, mk.Ref)
		c.Refused, c.RefusedAt = "", time.Time{}
		switch threads.Cause(mk.Reason.Note) {
		case threads.CauseChanges:
			threads.Entry(m.Chains, mk.Ref).Asked += mk.Reason.Count
		case threads.CauseCI:
			c.CIFixes = 0
		}
	}
}

// retry forgets the failures of an issue or pull request, because a person said so.
func (m *memory) retry(ref forge.Ref, now time.Time) {
	for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework} {
		threads.Entry(m.Items, threads.Key{Kind: kind, Ref: ref}).CoolDown = time.Time{}
	}
	c := threads.Entry(m.Chains, ref)
	*c = threads.ChainHistory{Claimed: c.Claimed, Writers: c.Writers, Told: c.Told, Retried: now}
}
