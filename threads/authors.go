package threads

import "codeberg.org/johba/disinto/forge"

// uninvited holds a stranger's pull request until an account with write access asks for a review. The forge lets no
// other account set labels.
func uninvited(_ *view, w *work) *Reason {
	if w.Author == "" || !w.pull.Stranger || w.has(forge.LabelReview) {
		return nil
	}
	return &Reason{Code: Uninvited, Note: w.Author}
}

// reviewLimit bounds what a person can make us spend by pushing again and again. A reserved review counts at once,
// even one of this plan; see view.ask.
func reviewLimit(v *view, w *work) *Reason {
	if w.Author == "" {
		return nil
	}
	began, limit := v.History.Reviewed(w.Author, v.Now), v.Config.Forge.MaxReviewsHour
	n := len(began) + v.asked[w.Author]
	if n < limit {
		return nil
	}
	why := &Reason{Code: ReviewLimit, Note: w.Author, Count: n, Limit: limit}
	if len(began) > 0 {
		why.Until = began[0].Add(ReviewHour)
		v.wake(why.Until)
	}
	return why
}

// countReview counts a review of a person's pull request whose start is not in the journal yet.
func (v *view) countReview(s *Session) {
	if s.State != Reserved {
		return
	}
	if a := v.History.Authors[s.Item.Author]; a == nil || a.Reviews[s.RunID].IsZero() {
		v.asked[s.Item.Author]++
	}
}
