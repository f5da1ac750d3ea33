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
		History: threads.History{
			Attempts:   make(map[threads.AttemptKey]threads.Attempts),
			CoolDown:   make(map[threads.Key]time.Time),
			Warm:       make(map[threads.SlotKey]threads.Warm),
			Writers:    make(map[forge.Ref][]string),
			CIFixes:    make(map[forge.Ref]int),
			LastRun:    make(map[threads.Key]time.Time),
			PassedOver: make(map[threads.Key]int),
			Returns:    make(map[string]threads.Returns),
			Touched:    make(map[forge.Ref]time.Time),
			Claimed:    make(map[forge.Ref]string),
			IdleSince:  make(map[string]time.Time),
			Parked:     make(map[string]threads.Parked),
			AgentHolds: make(map[string]threads.AgentHold),
			Refused:    make(map[forge.Ref]string),
			Retried:    make(map[forge.Ref]time.Time),
			Asked:      make(map[forge.Ref]int),
			Told:       make(map[forge.Ref]string),
			Paused:     make(map[threads.Pause]time.Time),
			Spent:      make(map[threads.Spender]threads.Spent),
		},
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
	delete(m.PassedOver, k)
	delete(m.CoolDown, k)
	if over != (threads.Key{}) {
		m.PassedOver[over]++
	}
	if r.Item.Kind == agents.KindSchedule {
		return
	}
	m.Claimed[r.Item.Ref] = r.Agent
	if chain := r.Item.Chain; r.Item.Kind.Writes() && !slices.Contains(m.Writers[chain], r.Agent) {
		m.Writers[chain] = append(slices.Clone(m.Writers[chain]), r.Agent)
		r.writer = true
	}
	if r.Item.Cause == threads.CauseCI {
		m.CIFixes[r.Item.Ref]++
	}
}

// unclaimed takes back what begun said, because the forge gave no claim. That burns no attempt.
func (m *memory) unclaimed(r *run, now time.Time, err error) {
	k := r.Item.Key()
	if r.writer {
		m.Writers[r.Item.Chain] = slices.DeleteFunc(slices.Clone(m.Writers[r.Item.Chain]), func(a string) bool { return a == r.Agent })
	}
	if r.Item.Cause == threads.CauseCI {
		m.CIFixes[r.Item.Ref]--
	}
	switch {
	case errors.Is(err, forge.ErrTaken): // somebody else has it; the next scans will say who
		delete(m.Claimed, k.Ref)
		m.CoolDown[k] = now.Add(takenRest)
	case errors.Is(err, forge.ErrForbidden): // a person has to give the account its right
		m.AgentHolds[r.Agent] = threads.AgentHold{Until: now.Add(forbiddenRest), Code: threads.AgentHeld, Why: "forbidden"}
	default: // it may be half written: the claim stays in the books until the forge shows none
		m.CoolDown[k] = now.Add(unavailableRest)
	}
}

// lost is the end of a session whose supervisor died. Its claim is still to be released, its attempts stand.
func (m *memory) lost(r *run, now time.Time) { m.IdleSince[r.Agent] = now }

// ended is what follows from an outcome: section 7 of the design.
func (m *memory) ended(r *run, w *world, out agents.Outcome, effect threads.Effect, verdict forge.Verdict) {
	k, now := r.Item.Key(), w.now
	attempts := threads.AttemptKey{Chain: r.Item.Chain, Kind: r.Item.Kind}
	m.IdleSince[r.Agent] = now
	m.charge(r, w, out.Usage)
	if t := w.cfg.Thread(r.Thread); !t.Overlap {
		m.Warm[threads.SlotKey{Thread: r.Thread, Slot: r.Slot}] = threads.Warm{Agent: r.Agent, Chain: r.Item.Chain, Left: now}
		if r.Item.Kind.Writes() && out.Result == agents.Done {
			m.written[r.Item.Chain] = work{r.Thread, now}
		}
	}
	if w, waits := m.written[r.Item.Chain]; waits && verdict != forge.Commented {
		m.Returns[w.thread] = m.Returns[w.thread].Learn(now.Sub(w.at), verdict == forge.ChangesRequested)
		delete(m.written, r.Item.Chain)
	}
	ran := out.Result == agents.Done || out.Result == agents.Refused || out.Result.BurnsAttempt()
	if ran && k.Kind == agents.KindSchedule {
		m.LastRun[k] = now
		return
	}
	switch {
	case out.Result == agents.Limited:
		m.park(r.Thread, out.RetryAt, out.Reason)
	case out.Result == agents.BackendDown:
		m.CoolDown[k] = now.Add(unavailableRest)
		if m.downs[r.Thread]++; m.downs[r.Thread] >= breakerCount {
			m.park(r.Thread, now.Add(w.cfg.Thread(r.Thread).BreakerInterval), out.Reason)
		}
		return
	case out.Result == agents.Cancelled && r.stopped == threads.StopReassigned: // whoever did that has more to say
		m.CoolDown[k] = now.Add(reassignedRest)
	case out.Result == agents.Refused:
		m.Refused[k.Ref] = out.Reason
	case out.Result == agents.Done && effect == threads.Remarked: // as open as before, and not to be asked every minute
		m.CoolDown[k] = now.Add(remarkRest << min(m.remarks[k], 6))
		m.remarks[k]++
	case out.Result == agents.Done:
		delete(m.Attempts, attempts)
		delete(m.remarks, k)
	case out.Result.BurnsAttempt():
		m.fail(attempts, r.Attempt, now)
	}
	delete(m.downs, r.Thread)
}

func (m *memory) fail(k threads.AttemptKey, attempt int, now time.Time) {
	m.Attempts[k] = threads.Attempts{Count: attempt, Until: now.Add(attemptRests[min(attempt, maxAttempts)-1])}
}

// park never shortens.
func (m *memory) park(thread string, until time.Time, why string) {
	if until.After(m.Parked[thread].Until) {
		m.Parked[thread] = threads.Parked{Until: until, Why: why}
	}
}

// released forgets a claim once the forge has said that it is off.
func (m *memory) released(ref forge.Ref, err error) {
	if err == nil {
		delete(m.Claimed, ref)
	}
}

// answered remembers a merge or a mark that the forge refused in the state that things are in. It rests, longer each
// time, so that one pull request which the forge will never merge does not hold up those behind it.
func (m *memory) answered(k threads.Key, now time.Time, err error) {
	if errors.Is(err, forge.ErrConflict) {
		m.CoolDown[k] = now.Add(refusedRest << min(m.refused[k], 5))
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
		delete(m.Claimed, mk.Ref)
	case threads.ActBlocked:
		k := threads.AttemptKey{Chain: mk.Item.Chain, Kind: mk.Item.Kind}
		a := m.Attempts[k]
		a.Marked = true
		m.Attempts[k] = a
	case threads.ActTell:
		m.Told[mk.Ref] = mk.Reason.Key()
	case threads.ActNeedsHuman:
		if mk.Reason.Code == threads.BlockerCancelled {
			m.Told[mk.Ref] = mk.Reason.Key()
		}
		delete(m.Refused, mk.Ref)
		switch threads.Cause(mk.Reason.Note) {
		case threads.CauseChanges:
			m.Asked[mk.Ref] += mk.Reason.Count
		case threads.CauseCI:
			delete(m.CIFixes, mk.Ref)
		}
	}
}

// retry forgets the failures of an issue or pull request, because a person said so.
func (m *memory) retry(ref forge.Ref, now time.Time) {
	for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework} {
		delete(m.Attempts, threads.AttemptKey{Chain: ref, Kind: kind})
		delete(m.CoolDown, threads.Key{Kind: kind, Ref: ref})
	}
	delete(m.Refused, ref)
	delete(m.CIFixes, ref)
	delete(m.Asked, ref)
	m.Retried[ref] = now
}
