package sim

import (
	"errors"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// refusedRest is the first rest after the forge refused a merge or a mark. It doubles with each refusal in a row.
const refusedRest = 15 * time.Second

// books hold what the supervisor of a world remembers: the real ledger, and what no journal keeps. A restart keeps
// the compacted ledger and loses the rest.
type books struct {
	*ledger.State
	refused map[threads.Key]int // the forge's refusals in a row, by merge or mark
	bills   map[account]int64   // tokens, counted independently for the invariants
	tolls   map[string][]toll   // the same by thread, the oldest first
	dues    map[forge.Ref]int64 // tokens of all sessions on an issue since the last hand-over to a person
}

func newBooks() books {
	return books{
		State: ledger.New(), refused: make(map[threads.Key]int), bills: make(map[account]int64),
		tolls: make(map[string][]toll),
		dues:  make(map[forge.Ref]int64),
	}
}

// reread replaces the ledger with one folded from the compacted journal, and ends the sessions that the last life
// left open.
func (b *books) reread(now time.Time, runs []*run) {
	b.State = ledger.Fold(b.Compact(now))
	for _, r := range runs {
		if _, open := b.Open[r.RunID]; open {
			b.Apply(ledger.Record{At: now, End: &ledger.End{Run: r.RunID, Result: agents.Lost}})
		}
	}
}

// touch records the time of a write to issues and pull requests. Like in the supervisor, it is not journalled: after
// a restart every fact is newer than every write.
func (b *books) touch(now time.Time, refs ...forge.Ref) {
	for _, ref := range refs {
		b.Touched[ref] = now
	}
}

// startOf returns the journal record that precedes a claim. over is the item that was passed over.
func startOf(r *threads.Session, cfg *threads.Config, over threads.Key) *ledger.Start {
	return &ledger.Start{
		Run: r.RunID, Thread: r.Thread, Slot: r.Slot, Sticky: !cfg.Thread(r.Thread).Overlap, Agent: r.Agent, Login: r.Login,
		Role: r.Role, Item: ledger.KeyOf(r.Item.Key()), Chain: ledger.Ref(r.Item.Chain), Cause: r.Item.Cause,
		Attempt: r.Attempt, Rung: r.Rung, PassedOver: ledger.KeyOf(over), Author: r.Item.Author,
		Executor: cfg.Thread(r.Thread).Executor,
	}
}

// unclaimed returns the record of a session whose claim failed.
func unclaimed(r *run, err error) *ledger.End {
	end := &ledger.End{
		Run: r.RunID, Result: agents.ClaimFailed, Claim: ledger.ClaimUnavailable, Reason: err.Error(), NeverRan: true,
	}
	switch {
	case errors.Is(err, forge.ErrTaken):
		end.Claim = ledger.ClaimTaken
	case errors.Is(err, forge.ErrForbidden):
		end.Claim = ledger.ClaimForbidden
	}
	return end
}

// endOf returns the record of a session that ran.
func endOf(r *run, cfg *threads.Config, out agents.Outcome, effect threads.Effect, verdict forge.Verdict) *ledger.End {
	end := &ledger.End{
		Run: r.RunID, Result: out.Result, Reason: out.Reason, RetryAt: out.RetryAt, Remarked: effect == threads.Remarked,
		Breaker: cfg.Thread(r.Thread).BreakerInterval, Verdict: ledger.VerdictOf(verdict),
	}
	if out.Result == agents.Cancelled || out.Result == agents.OverBudget {
		end.Stop = r.stopped
	}
	if out.Usage != (agents.Usage{}) {
		end.Usage = &out.Usage
	}
	end.Talk = talkOf(r, &out)
	return end
}

// recordOf returns the record of a mark that was written, or an empty one for a mark without a record.
func recordOf(m *threads.Mark) ledger.Record {
	ref := ledger.Ref(m.Ref)
	told := ledger.Record{Told: &ledger.Told{Ref: ref, Key: m.Reason.Key()}}
	switch m.Action {
	case threads.ActRelease:
		return ledger.Record{Released: &ledger.Released{Ref: ref}}
	case threads.ActBlocked:
		return ledger.Record{Blocked: &ledger.Blocked{Chain: ledger.Ref(m.Item.Chain), Kind: m.Item.Kind}}
	case threads.ActTell:
		return told
	case threads.ActAnswered: // written before the mark: see mark
		return ledger.Record{Answered: &ledger.Answered{Ref: ref, Comments: m.Item.Comments}}
	case threads.ActNeedsHuman:
		if m.Reason.Code == threads.BlockerCancelled {
			return told
		}
		handed := &ledger.Handed{Ref: ref}
		if m.Reason.Code == threads.OverLimit {
			handed.Used = ledger.Ref(m.Item.Chain)
		}
		if m.Reason.Code == threads.TooManyRounds && m.Item.Cause == threads.CauseCI {
			handed.Fixes = true
		} else if m.Reason.Code == threads.TooManyRounds && m.Item.Kind != agents.KindReview {
			handed.Rounds = m.Reason.Count
		}
		return ledger.Record{Handed: handed}
	}
	return ledger.Record{}
}

// answered makes a refused merge or mark rest, longer after each refusal, so that a pull request that the forge never
// merges does not block the next ones. The supervisor does not journal these rests either.
func (b *books) answered(k threads.Key, now time.Time, err error) {
	if !errors.Is(err, forge.ErrConflict) {
		delete(b.refused, k)
		return
	}
	ledger.Entry(b.Items, k).CoolDown = now.Add(refusedRest << min(b.refused[k], 5))
	b.refused[k]++
}
