package worlds

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// aftermath is a second implementation of section 7 of the design, without the ledger: what must not start because of
// how sessions ended. It knows no more than the supervisor, so losing the journal empties it.
type aftermath struct {
	lost     time.Time                 // when rests were last forgotten
	items    map[threads.Key]time.Time // no session on the item before this time
	agents   map[string]time.Time      // no session of the agent before this time
	threads  map[string]time.Time      // no session on the thread before this time
	bars     map[[2]string]time.Time   // nor of an agent in a repository
	failures map[attemptKey]failures
	downs    map[string]int // sessions in a row without a backend, by thread
	// lonely counts, by agent and by item, sessions without a backend while others of the thread found it.
	lonely  map[any]int
	runs    map[threads.Key]int // failures of scheduled work in a row
	alone   map[threads.Key]int // sessions without an answer while their agents had others
	mute    map[string]string   // the agent that had no answer last, by thread
	limits  map[string]int      // usage limits in a row, by thread
	refused map[forge.Ref]bool  // an agent refused the item, and no person was asked yet
	waits   map[forge.Ref]bool  // an agent's question has no answer yet
	plans   map[forge.Ref]bool  // the item's plan waits for people
	spoke   map[speech]int      // questions and plans since a person last said retry
	asked   map[forge.Ref]int   // how often a person was asked about an issue or pull request
	falls   map[crew]*falls
}

// speech is a question or a plan about an item.
type speech struct {
	ref  forge.Ref
	kind agents.Result
}

type attemptKey struct {
	chain forge.Ref
	kind  agents.Kind
}

// failures are the failed attempts at a kind of work since its last success.
type failures struct {
	count int
	last  time.Time // end of the last one
}

// attemptRests are the rests after the first four failed attempts. The fifth makes the item blocked, for a person.
var attemptRests = [maxAttempts - 1]time.Duration{2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

func newAftermath() aftermath {
	return aftermath{
		items: make(map[threads.Key]time.Time), agents: make(map[string]time.Time), threads: make(map[string]time.Time),
		bars:     make(map[[2]string]time.Time),
		failures: make(map[attemptKey]failures), downs: make(map[string]int),
		runs: make(map[threads.Key]int), alone: make(map[threads.Key]int), mute: make(map[string]string),
		lonely: make(map[any]int), limits: make(map[string]int), refused: make(map[forge.Ref]bool),
		asked: make(map[forge.Ref]int), falls: make(map[crew]*falls),
		waits: make(map[forge.Ref]bool), plans: make(map[forge.Ref]bool), spoke: make(map[speech]int),
	}
}

// loseTimes forgets all rests, because a corrected clock changes their length. Counts stay.
func (a *aftermath) loseTimes(now time.Time) {
	a.lost = now
	clear(a.items)
	clear(a.agents)
	clear(a.threads)
	clear(a.bars)
	for _, f := range a.falls {
		f.until = time.Time{}
	}
	for k, f := range a.failures {
		a.failures[k] = failures{count: f.count}
	}
}

func later[K comparable](m map[K]time.Time, k K, at time.Time) {
	if at.After(m[k]) {
		m[k] = at
	}
}

// unclaimed handles a failed claim: a taken item rests for a minute, and a 403 makes the agent rest in that repository.
// No attempt is burnt.
func (a *aftermath) unclaimed(r *run, now time.Time, err error) {
	switch {
	case errors.Is(err, forge.ErrForbidden):
		later(a.bars, [2]string{r.Agent, r.Item.Ref.Repo}, now.Add(time.Minute))
	case errors.Is(err, forge.ErrTaken):
		later(a.items, r.Item.Key(), now.Add(time.Minute))
	default: // the forge did not answer
		later(a.items, r.Item.Key(), now.Add(5*time.Second))
	}
}

// placeless handles a session that no node of an engine can run: its agent rests for a minute, and twice as long each
// time until one finds its backend. No attempt is burnt.
func (a *aftermath) placeless(r *run, now time.Time) {
	a.lonely[r.Agent]++
	later(a.agents, r.Agent, now.Add(min(time.Hour, time.Minute<<(a.lonely[r.Agent]-1))))
}

// ended handles the end of a session that ran.
func (a *aftermath) ended(r *run, w *world, out agents.Outcome, effect threads.Effect) {
	k, at := r.Item.Key(), attemptKey{r.Item.Chain, r.Item.Kind}
	scheduled, failing := r.Item.Kind == agents.KindSchedule, a.unable(r, w, out)
	if p := w.forge.pull(r.Item.Ref); out.Result == agents.Done && effect == threads.Achieved && p != nil &&
		r.Item.Kind == agents.KindRework && !p.Closed && p.sentBack() {
		w.fail("a rework is done only after a push", fmt.Errorf("%s is done, but %s is still rejected", r, p.HeadSHA))
	}
	switch out.Result {
	case agents.Limited: // the thread is parked until the reset
		a.limited(r, w, out.RetryAt)
	case agents.BackendDown: // the third in a row opens the breaker, every further one keeps it open
		a.down(r, w)
	case agents.Unanswered, agents.Killed: // says nothing about the item, unless only this item has no answers
		a.unanswered(r, w, out.Result)
	case agents.TokenRejected: // the agent rests for five minutes, and no attempt is burnt
		later(a.agents, r.Agent, w.Now.Add(5*time.Minute))
	case agents.Cancelled:
		if r.stopped == threads.StopReassigned { // the person who removed the agent may not be finished
			later(a.items, k, w.Now.Add(time.Minute))
		}
	case agents.Refused, agents.PushRefused:
		a.refused[k.Ref] = !scheduled
	case agents.Question, agents.Planned: // one above the limit is a refusal
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
		delete(a.runs, k)
		if effect == threads.Remarked { // the item is still open, and must not start again at once
			later(a.items, k, w.Now.Add(time.Minute))
		} else if r.Item.Cause != threads.CauseCI && r.Item.Cause != threads.CauseConflict { // a push shows its effect later
			delete(a.failures, at)
		}
	case agents.OverBudget: // no attempt is burnt; a limit needs a person, the day's budget does not
		if r.stopped == threads.StopOverLimit {
			a.refused[k.Ref] = !scheduled
		}
	case agents.Failed, agents.NoProgress, agents.Stalled, agents.TimedOut, agents.Looped:
		a.burnt(r, w, failing)
	}
	switch out.Result {
	case agents.Limited, agents.BackendDown, agents.Cancelled, agents.TokenRejected, agents.Unanswered, agents.Killed:
	default: // the session found its backend
		a.downs[r.Thread], a.limits[r.Thread] = 0, 0
		delete(a.lonely, k)
		delete(a.lonely, r.Agent)
		delete(a.alone, k)
		delete(a.mute, r.Thread)
	}
}

// burnt handles a session that achieved nothing. The rest of scheduled work doubles each time in a row, up to a day.
func (a *aftermath) burnt(r *run, w *world, failing bool) {
	k := r.Item.Key()
	switch {
	case k.Kind == agents.KindSchedule:
		a.runs[k]++
		later(a.items, k, w.Now.Add(min(24*time.Hour, 10*time.Minute<<min(a.runs[k]-1, 10))))
	case !failing:
		a.failures[attemptKey{r.Item.Chain, r.Item.Kind}] = failures{r.Attempt, w.Now} // of two reviews the later one counts
	}
}

// unanswered handles a session without an answer. The agent rests from one minute to an hour, the item at first twice
// as long, and after the second agent in a row the thread as long as the agent. From the third time that only this item
// has no answer, it fails.
func (a *aftermath) unanswered(r *run, w *world, result agents.Result) {
	k, scheduled := r.Item.Key(), r.Item.Kind == agents.KindSchedule
	if a.lonely[r.Agent] == 0 && !scheduled {
		if a.alone[k]++; a.alone[k] >= 3 {
			a.failures[attemptKey{r.Item.Chain, r.Item.Kind}] = failures{r.Attempt, w.Now}
			return
		}
	}
	a.lonely[r.Agent]++
	a.lonely[k]++
	rest := func(first time.Duration, n int) time.Time { return w.Now.Add(min(time.Hour, first<<min(n-1, 10))) }
	later(a.agents, r.Agent, rest(time.Minute, a.lonely[r.Agent]))
	later(a.items, k, rest(2*time.Minute, a.lonely[k]))
	if result == agents.Killed {
		return
	}
	if before := a.mute[r.Thread]; before != "" && before != r.Agent {
		later(a.threads, r.Thread, rest(time.Minute, a.lonely[r.Agent]))
	}
	a.mute[r.Thread] = r.Agent
}

// limited handles a usage limit. It parks the thread for a minute, and twice as long each time up to an hour, or
// until the reset. A reset more than a week away is not believed.
func (a *aftermath) limited(r *run, w *world, reset time.Time) {
	parked := w.shell.books.Thread(r.Thread).ParkedUntil.Sub(w.Now)
	if !r.Started.Before(a.threads[r.Thread]) && !r.began.Before(a.lost) {
		a.limits[r.Thread]++
	}
	later(a.threads, r.Thread, w.Now.Add(min(time.Hour, time.Minute<<max(0, a.limits[r.Thread]-1))))
	switch week := 7 * 24 * time.Hour; {
	case reset.Sub(w.Now) <= week:
		later(a.threads, r.Thread, reset)
	case parked > time.Hour && parked > a.threads[r.Thread].Sub(w.Now):
		w.fail("a reset more than a week away is not believed", fmt.Errorf("%s is parked for %s", r.Thread, parked))
	}
}

// down handles a session without a backend. While others find the backend, the item rests from ten seconds to an
// hour. From the third time on the agent rests too, at first for the breaker's interval.
func (a *aftermath) down(r *run, w *world) {
	interval := w.cfg.Thread(r.Thread).BreakerInterval
	if a.downs[r.Thread]++; a.downs[r.Thread] >= 3 {
		later(a.threads, r.Thread, w.Now.Add(interval))
		return
	}
	a.lonely[r.Item.Key()]++
	a.lonely[r.Agent]++
	later(a.items, r.Item.Key(), w.Now.Add(min(time.Hour, 10*time.Second<<(a.lonely[r.Item.Key()]-1))))
	if n := a.lonely[r.Agent]; n >= 3 {
		later(a.agents, r.Agent, w.Now.Add(min(time.Hour, interval<<(n-3))))
	}
}

// sentBack reports whether an account that may write requested changes of the head, and they still stand.
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

// retried handles a person's retry: earlier failures no longer count.
func (a *aftermath) retried(ref forge.Ref) {
	for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework} {
		delete(a.failures, attemptKey{ref, kind})
		delete(a.items, threads.Key{Kind: kind, Ref: ref})
		delete(a.lonely, threads.Key{Kind: kind, Ref: ref})
		delete(a.alone, threads.Key{Kind: kind, Ref: ref})
	}
	delete(a.refused, ref)
	delete(a.asked, ref)
	delete(a.waits, ref)
	delete(a.plans, ref)
	delete(a.spoke, speech{ref, agents.Question})
	delete(a.spoke, speech{ref, agents.Planned})
}

// marked handles a mark that was written: a person has the item now. From the second time on, nothing starts for ten
// minutes, then twenty, and so on up to a day, even if a person removes the label.
func (a *aftermath) marked(m *threads.Mark, now time.Time) {
	switch m.Action {
	case threads.ActAnswered:
		delete(a.waits, m.Ref)
		delete(a.plans, m.Ref)
	case threads.ActNeedsHuman:
		delete(a.refused, m.Ref)
		if m.Reason.Code == threads.BlockerCancelled || m.Reason.Code == threads.Duplicate {
			return
		}
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

// outcomesKept checks the starts of a plan against earlier ends of sessions.
func outcomesKept(in *inspection) error {
	a := &in.checks.after
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		failed := a.failures[attemptKey{st.Item.Chain, st.Item.Kind}]
		why := ""
		switch {
		case a.items[st.Item.Key()].After(in.Now):
			why = "the item rests until " + in.since(a.items[st.Item.Key()])
		case a.agents[st.Agent].After(in.Now):
			why = "the agent rests until " + in.since(a.agents[st.Agent])
		case a.bars[[2]string{st.Agent, st.Item.Ref.Repo}].After(in.Now):
			why = "the agent rests in this repository"
		case a.threads[st.Thread].After(in.Now):
			why = "the thread is parked until " + in.since(a.threads[st.Thread])
		case a.refused[st.Item.Ref] && st.Item.Kind != agents.KindSchedule:
			why = "an agent refused it, and no person was asked"
		case a.waits[st.Item.Ref] && st.Item.Kind != agents.KindSchedule:
			why = "an agent asked, and no person has answered"
		case a.plans[st.Item.Ref] && st.Item.Cause == threads.CausePlan:
			why = "its plan waits for people"
		case failed.count >= maxAttempts:
			why = "no attempt is left"
		case failed.count > 0 && in.Now.Before(failed.last.Add(attemptRests[failed.count-1])):
			why = fmt.Sprintf("attempt %d ended at %s", failed.count, in.since(failed.last))
		case st.Attempt != failed.count+1:
			why = fmt.Sprintf("got attempt %d, want %d", st.Attempt, failed.count+1)
		default:
			continue
		}
		return fmt.Errorf("%s %s by %s on %s: %s", st.Item.Kind, st.Item.Ref, st.Agent, st.Thread, why)
	}
	return nil
}

func (in *inspection) since(t time.Time) string { return t.Sub(epoch).Round(time.Second).String() }
