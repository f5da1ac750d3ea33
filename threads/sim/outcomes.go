package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// aftermath tells section 7 of the design a second time, without the ledger: what must not begin because of the way a
// session ended. It knows no more than the supervisor may, so losing the journal empties it.
type aftermath struct {
	items    map[threads.Key]time.Time // no session on the item before that
	agents   map[string]time.Time      // none of the agent
	threads  map[string]time.Time      // none on the thread
	failures map[attemptKey]failures
	downs    map[string]int // sessions in a row that found no backend, by thread
	// lonely are those of an agent, or on an item, at which others of the thread found it.
	lonely  map[any]int
	limits  map[string]int     // usage limits that a thread met one after the other
	refused map[forge.Ref]bool // an agent refused it, and no person was asked yet
	// reviews and conflicts count the sessions on a pull request since a person looked at it that came to something, or
	// were ended from outside.
	reviews, conflicts map[forge.Ref]int
	waits              map[forge.Ref]bool // a question about it has no answer yet
	plans              map[forge.Ref]bool // a plan of it waits for people
	spoke              map[speech]int     // questions and plans since a person last said retry
	asked              map[forge.Ref]int  // how often a person was asked about an issue or pull request
	// setbacks counts the writing sessions of a chain that failed, and rungs has how high it got on a ladder.
	setbacks, rungs map[forge.Ref]int
	// reviewed says when the reviews of pull requests of other accounts than ours began, by account and run.
	reviewed map[string]map[string]time.Time
}

// speech is a kind of words about an item: agents.Question or agents.Planned.
type speech struct {
	ref  forge.Ref
	kind agents.Result
}

type attemptKey struct {
	chain forge.Ref
	kind  agents.Kind
}

// failures are the failed attempts at a kind of work since it last came to something.
type failures struct {
	count int
	last  time.Time // when the last of them ended
}

// attemptRests are the rests after the first four failed attempts. After the fifth a person is asked.
var attemptRests = [maxAttempts - 1]time.Duration{2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

func newAftermath() aftermath {
	return aftermath{
		items: make(map[threads.Key]time.Time), agents: make(map[string]time.Time), threads: make(map[string]time.Time),
		failures: make(map[attemptKey]failures), downs: make(map[string]int),
		lonely: make(map[any]int), limits: make(map[string]int), refused: make(map[forge.Ref]bool),
		reviewed: make(map[string]map[string]time.Time),
		reviews:  make(map[forge.Ref]int), conflicts: make(map[forge.Ref]int),
		asked: make(map[forge.Ref]int), setbacks: make(map[forge.Ref]int), rungs: make(map[forge.Ref]int),
		waits: make(map[forge.Ref]bool), plans: make(map[forge.Ref]bool), spoke: make(map[speech]int),
	}
}

// loseTimes forgets all rests, because a corrected clock makes them longer or shorter. Counts stay.
func (a *aftermath) loseTimes() {
	clear(a.items)
	clear(a.agents)
	clear(a.threads)
	clear(a.reviewed)
	for k, f := range a.failures {
		a.failures[k] = failures{count: f.count}
	}
}

func later[K comparable](m map[K]time.Time, k K, at time.Time) {
	if at.After(m[k]) {
		m[k] = at
	}
}

// unclaimed is a failed claim: a taken item rests for a minute, a 403 holds the agent, and no attempt is burnt.
func (a *aftermath) unclaimed(r *run, now time.Time, err error) {
	for _, runs := range a.reviewed {
		delete(runs, r.RunID)
	}
	switch {
	case errors.Is(err, forge.ErrForbidden):
		later(a.agents, r.Agent, now.Add(time.Minute))
	case errors.Is(err, forge.ErrTaken):
		later(a.items, r.Item.Key(), now.Add(time.Minute))
	default: // the forge did not answer
		later(a.items, r.Item.Key(), now.Add(5*time.Second))
	}
}

// placeless is a session that no node of an engine can run: its agent rests a minute, twice as long each time that
// follows before one finds its backend, and no attempt is burnt.
func (a *aftermath) placeless(r *run, now time.Time) {
	for _, runs := range a.reviewed {
		delete(runs, r.RunID)
	}
	a.lonely[r.Agent]++
	later(a.agents, r.Agent, now.Add(min(time.Hour, time.Minute<<(a.lonely[r.Agent]-1))))
}

// ended is the end of a session that ran.
func (a *aftermath) ended(r *run, w *world, out agents.Outcome, effect threads.Effect) {
	k, at := r.Item.Key(), attemptKey{r.Item.Chain, r.Item.Kind}
	scheduled := r.Item.Kind == agents.KindSchedule
	a.round(r, out.Result)
	if p := w.forge.pull(r.Item.Ref); out.Result == agents.Done && effect == threads.Achieved && p != nil &&
		r.Item.Kind == agents.KindRework && !p.Closed && p.sentBack() {
		w.fail("a push answers what was asked", fmt.Errorf("%s is done, and changes of %s were requested", r, p.HeadSHA))
	}
	switch out.Result {
	case agents.Limited: // the thread is parked until the reset
		a.limited(r, w, out.RetryAt)
	case agents.BackendDown: // the third in a row opens the breaker, every further one keeps it open
		a.down(r, w)
	case agents.TokenRejected: // it is asked again after five minutes, and no attempt is burnt
		later(a.agents, r.Agent, w.now.Add(5*time.Minute))
	case agents.Cancelled:
		if r.stopped == threads.StopReassigned { // the person who took the agent off has more to do
			later(a.items, k, w.now.Add(time.Minute))
		}
	case agents.Refused:
		a.refused[k.Ref] = !scheduled
	case agents.Question, agents.Planned: // one too many is a refusal
		most, of := maxQuestions, speech{k.Ref, out.Result}
		if out.Result == agents.Planned {
			most = maxPlans
		}
		if a.spoke[of]++; scheduled {
		} else if a.spoke[of] > most {
			a.spoke[of], a.refused[k.Ref] = most, true
		} else {
			a.waits[k.Ref], a.plans[k.Ref] = out.Result == agents.Question, out.Result == agents.Planned
		}
	case agents.Done:
		if effect == threads.Remarked { // the item is as open as before, and must not be tried again at once
			later(a.items, k, w.now.Add(time.Minute))
		} else if r.Item.Cause != threads.CauseCI && r.Item.Cause != threads.CauseConflict { // what a push did shows later
			delete(a.failures, at)
		}
	case agents.OverBudget: // no attempt is burnt; at a limit a person is asked first, the day's budget ends by itself
		if r.stopped == threads.StopOverLimit {
			a.refused[k.Ref] = !scheduled
		}
	case agents.Failed, agents.NoProgress, agents.Stalled, agents.TimedOut, agents.Looped:
		if !scheduled {
			a.failures[at] = failures{r.Attempt, w.now} // of two reviews at once the later one counts
		}
		if r.Item.Kind.Writes() {
			a.setbacks[r.Item.Chain]++
		}
	}
	switch out.Result {
	case agents.Limited, agents.BackendDown, agents.Cancelled, agents.TokenRejected:
	default: // the session found its backend
		a.downs[r.Thread], a.limits[r.Thread] = 0, 0
		delete(a.lonely, k)
		delete(a.lonely, r.Agent)
	}
}

// limited is a usage limit: at least a minute, twice as long each time until it is an hour, and a week at most, unless
// the reset is one that no backend has.
func (a *aftermath) limited(r *run, w *world, reset time.Time) {
	parked := w.shell.books.Thread(r.Thread).ParkedUntil.Sub(w.now)
	if !r.Started.Before(a.threads[r.Thread]) {
		a.limits[r.Thread]++
	}
	later(a.threads, r.Thread, w.now.Add(min(time.Hour, time.Minute<<max(0, a.limits[r.Thread]-1))))
	switch week := 7 * 24 * time.Hour; {
	case reset.Sub(w.now) <= week:
		later(a.threads, r.Thread, reset)
	case parked > time.Hour && parked > a.threads[r.Thread].Sub(w.now):
		w.fail("a bogus reset is not believed", fmt.Errorf("%s is parked for %s", r.Thread, parked))
	}
}

// down is a session that found no backend. Where others find it, the item rests from ten seconds to an hour, and from
// the third time on the agent too, from the interval of the breaker on.
func (a *aftermath) down(r *run, w *world) {
	interval := w.cfg.Thread(r.Thread).BreakerInterval
	if a.downs[r.Thread]++; a.downs[r.Thread] >= 3 {
		later(a.threads, r.Thread, w.now.Add(interval))
		return
	}
	a.lonely[r.Item.Key()]++
	a.lonely[r.Agent]++
	later(a.items, r.Item.Key(), w.now.Add(min(time.Hour, 10*time.Second<<(a.lonely[r.Item.Key()]-1))))
	if n := a.lonely[r.Agent]; n >= 3 {
		later(a.agents, r.Agent, w.now.Add(min(time.Hour, interval<<(n-3))))
	}
}

// sentBack reports whether changes of the head were requested by an account that may write, and still are.
func (p *pull) sentBack() bool {
	for i := range p.Reviews {
		r := &p.Reviews[i]
		if r.CommitSHA == p.HeadSHA && r.Verdict == forge.ChangesRequested && r.Official && !r.Dismissed &&
			!slices.ContainsFunc(p.Reviews[i+1:], func(o forge.Review) bool {
				return o.Author == r.Author && o.Official && !o.Dismissed && o.CommitSHA == p.HeadSHA && o.Verdict == forge.Approved
			}) {
			return true
		}
	}
	return false
}

// round counts a session that no attempt limits.
func (a *aftermath) round(r *run, result agents.Result) {
	free := result == agents.Done || result == agents.Cancelled
	if free && r.Item.Kind == agents.KindReview {
		a.reviews[r.Item.Ref]++
	}
	if free && r.Item.Cause == threads.CauseConflict {
		a.conflicts[r.Item.Ref]++
	}
}

// began is the start of a session. A review begins only once all that was asked for is answered.
func (a *aftermath) began(r *run, w *world) {
	a.rungs[r.Item.Chain] = max(a.rungs[r.Item.Chain], r.Rung)
	if r.Item.Kind != agents.KindReview {
		return
	}
	delete(a.failures, attemptKey{r.Item.Chain, agents.KindRework})
	author := w.forge.pull(r.Item.Ref).Author
	if w.ours(author) || w.bot(author) { // those reviews do not count, also when the agent is gone later
		return
	}
	if a.reviewed[author] == nil {
		a.reviewed[author] = make(map[string]time.Time)
	}
	a.reviewed[author][r.RunID] = w.now
}

// retried is a person who lets failures count no longer.
func (a *aftermath) retried(ref forge.Ref) {
	for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework} {
		delete(a.failures, attemptKey{ref, kind})
		delete(a.items, threads.Key{Kind: kind, Ref: ref})
		delete(a.lonely, threads.Key{Kind: kind, Ref: ref})
	}
	delete(a.refused, ref)
	delete(a.reviews, ref)
	delete(a.conflicts, ref)
	delete(a.asked, ref)
	delete(a.setbacks, ref)
	delete(a.rungs, ref)
	delete(a.waits, ref)
	delete(a.plans, ref)
	delete(a.spoke, speech{ref, agents.Question})
	delete(a.spoke, speech{ref, agents.Planned})
}

// marked is a label that was written: a person has the item now. From the second time on nothing begins for ten
// minutes, the third time for twenty, and so on up to a day, whichever account takes the label off.
func (a *aftermath) marked(m *threads.Mark, now time.Time) {
	switch m.Action {
	case threads.ActAnswered:
		delete(a.waits, m.Ref)
		delete(a.plans, m.Ref)
	case threads.ActNeedsHuman:
		delete(a.refused, m.Ref)
		if m.Reason.Code == threads.BlockerCancelled {
			return
		}
		delete(a.reviews, m.Ref)
		if a.asked[m.Ref]++; a.asked[m.Ref] > 1 {
			for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework} {
				rest := min(24*time.Hour, 10*time.Minute<<min(a.asked[m.Ref]-2, 8))
				later(a.items, threads.Key{Kind: kind, Ref: m.Ref}, now.Add(rest))
			}
		}
	case threads.ActBlocked:
		delete(a.failures, attemptKey{m.Item.Chain, m.Item.Kind})
	}
}

// outcomesKept checks the starts of a plan against the ends of earlier sessions.
func outcomesKept(in *inspection) error {
	a := &in.checks.after
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		failed := a.failures[attemptKey{st.Item.Chain, st.Item.Kind}]
		why := ""
		switch {
		case a.items[st.Item.Key()].After(in.now):
			why = "the item rests until " + in.since(a.items[st.Item.Key()])
		case a.agents[st.Agent].After(in.now):
			why = "the agent rests until " + in.since(a.agents[st.Agent])
		case a.threads[st.Thread].After(in.now):
			why = "the thread is parked until " + in.since(a.threads[st.Thread])
		case a.refused[st.Item.Ref] && st.Item.Kind != agents.KindSchedule:
			why = "an agent refused it, and no person was asked"
		case a.waits[st.Item.Ref] && st.Item.Kind != agents.KindSchedule:
			why = "an agent asked, and nobody answered"
		case a.plans[st.Item.Ref] && st.Item.Cause == threads.CausePlan:
			why = "its plan waits for people"
		case failed.count >= maxAttempts:
			why = "no attempt is left"
		case failed.count > 0 && in.now.Before(failed.last.Add(attemptRests[failed.count-1])):
			why = fmt.Sprintf("attempt %d ended at %s", failed.count, in.since(failed.last))
		case st.Attempt != failed.count+1:
			why = fmt.Sprintf("it is called attempt %d, and is attempt %d", st.Attempt, failed.count+1)
		default:
			continue
		}
		return fmt.Errorf("%s %s by %s on %s: %s", st.Item.Kind, st.Item.Ref, st.Agent, st.Thread, why)
	}
	return nil
}

func (in *inspection) since(t time.Time) string { return t.Sub(epoch).Round(time.Second).String() }
