package worlds

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
	dues    map[forge.Ref]int64 // tokens of all sessions on an issue since the last hand-over to a person
}

func newBooks() books {
	return books{
		State: ledger.New(), refused: make(map[threads.Key]int), bills: make(map[account]int64),
		dues: make(map[forge.Ref]int64),
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
	if out.Result == agents.TooBig {
		end.Unshown = &threads.Unshown{Head: r.Item.HeadSHA, Base: r.Item.Base}
	}
	if out.Usage != (agents.Usage{}) {
		end.Usage = &out.Usage
	}
	end.Talk = talkOf(r, &out)
	return end
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
