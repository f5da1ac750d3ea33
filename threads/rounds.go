package threads

import (
	"cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// roundsLeft holds an issue or a pull request on which agents go in circles, or on which they had so many sessions that
// they may.
func roundsLeft(v *view, w *work) *Reason {
	if w.issue != nil {
		return cmp.Or(closedAgain(v, w), sessionsLeft(v, w))
	}
	return cmp.Or(tooManyRounds(v, w), sessionsLeft(v, w))
}

// tooManyRounds holds a pull request on whose chain agents go in circles. A standing request for changes counts at
// once, another round when it is over. Reviews of our own pull requests are bounded too: the head may move, and
// verdicts may be dismissed, without any rework.
func tooManyRounds(v *view, w *work) *Reason {
	t, most := v.History.Toll(w.Chain), &v.Config.Forge
	n, limit, what, requests := 0, 0, string(w.Cause), 0
	switch {
	case w.Kind == agents.KindReview && w.stage.own:
		n, limit, what = t.Reviews, most.MaxReviews(), "reviewed"
	case w.Cause == CauseCI:
		n, limit = t.CIFixes, most.MaxCIFixes
	case w.Cause == CauseChanges:
		requests = v.requests(w)
		n, limit = max(requests, t.Rounds+1), most.MaxReviewRounds+1
	case w.Cause == CauseConflict:
		requests = v.requests(w)
		n, limit = max(requests, t.Rounds), most.MaxReviewRounds
	default:
		return nil
	}
	if n < limit {
		return nil
	}
	if w.Cause == CauseChanges && requests < n || w.Cause == CauseConflict && requests > 0 {
		what = "sent back"
	}
	return &Reason{Code: TooManyRounds, Note: what, Count: n}
}

// requests counts the requests for changes by agents on all heads of the pull requests of a chain, since the last
// retry.
func (v *view) requests(w *work) int {
	n := 0
	for _, p := range v.pullsOf(w) {
		h := v.History.Chain(p.Ref)
		for i := range p.Reviews {
			r := &p.Reviews[i]
			if r.Verdict == forge.ChangesRequested && v.isAgent(r.Author) && r.Submitted.After(h.Retried) &&
				r.Submitted.After(w.chain.Retried) {
				n++
			}
		}
		n -= h.Asked
	}
	return n
}
