package threads

import (
	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// tooManyRounds holds a pull request on which agents go in circles. A standing request for changes counts at once,
// another round when it is over. Reviews of our own pull requests are bounded too: the head may move, and verdicts
// may be dismissed, without any rework.
func tooManyRounds(v *view, w *work) *Reason {
	h, most := w.past, &v.Config.Forge
	n, limit, what := 0, 0, string(w.Cause)
	switch {
	case w.Kind == agents.KindReview && w.stage.own:
		n, limit, what = h.Reviews, 1+most.MaxReviewRounds+most.MaxCIFixes, "reviewed"
	case w.Cause == CauseCI:
		n, limit = h.CIFixes, most.MaxCIFixes
	case w.Cause == CauseChanges:
		n, limit = v.rounds(w.pull), most.MaxReviewRounds+1
	case w.Cause == CauseConflict:
		n, limit = v.rounds(w.pull), most.MaxReviewRounds
	default:
		return nil
	}
	if n < limit {
		return nil
	}
	if w.Kind == agents.KindRework && w.Cause != CauseCI && 0 < h.Conflicts && h.Conflicts < n {
		what = "sent back"
	}
	return &Reason{Code: TooManyRounds, Note: what, Count: n}
}

// rounds counts the requests for changes by agents on all heads of a pull request, and the sessions that resolved a
// conflict in it, since the last retry. The rounds that a person has seen do not count.
func (v *view) rounds(p *forge.Pull) int {
	n := 0
	for i := range p.Reviews {
		r := &p.Reviews[i]
		if r.Verdict == forge.ChangesRequested && v.isAgent(r.Author) && r.Submitted.After(v.History.Chain(p.Ref).Retried) {
			n++
		}
	}
	return n + v.History.Chain(p.Ref).Conflicts - v.History.Chain(p.Ref).Asked
}
