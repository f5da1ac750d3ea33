package threads

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// StillMerges decides again on one merge of a plan, with the pull request as it was read just now. It returns why
// not; empty means that it is merged. Between a scan and the merge an approval may be dismissed, a person may object,
// the base may change, and the new reading may show a fact that no scan reads. Our writes since the scan count as
// known, because the reading came after them.
func StillMerges(s Snapshot, m Merge, now forge.Pull) (why string) {
	if s.Config == nil {
		return "no valid configuration"
	}
	s.History.Touched = nil
	s.Facts.Pulls = slices.Clone(s.Facts.Pulls)
	byRef := func(p forge.Pull, r forge.Ref) int { return p.Ref.Compare(r) }
	at, known := slices.BinarySearchFunc(s.Facts.Pulls, m.Ref, byRef)
	if !known {
		s.Facts.Pulls = slices.Insert(s.Facts.Pulls, at, now)
	}
	s.Facts.Pulls[at] = now
	d := newDecision(newView(&s))
	w, err := d.find(m.Ref)
	switch {
	case err != nil:
		return err.Error()
	case now.Merged:
		return ""
	case now.HeadSHA != m.HeadSHA || now.Base != m.Base:
		return "head or base moved"
	}
	if no := d.objection(w); no != nil {
		return no.Text()
	}
	if w.Kind != stageMerge {
		why = "waits for " + string(w.Kind)
		if w.Cause != "" {
			why += ", " + string(w.Cause)
		}
	}
	return why
}

// landed reports whether one of our open pull requests is merged although the forge does not say so: its base has all
// its commits. The forge may have stopped in the middle of the merge. A pull request without commits looks the same.
// Therefore it must also be approved, or its issues must be closed, as in the middle of a merge.
func (v *view) landed(p *forge.Pull) bool {
	if !p.Contained || p.Closed {
		return false
	}
	st := v.stageOf(p)
	return st.own && !st.stray && (st.kind == stageMerge || v.unwanted(p))
}

// unnoted holds a merged pull request until it is closed. Its issues are closed first.
func unnoted(v *view, w *work) *Reason {
	if !v.landed(w.pull) {
		return nil
	}
	var open []forge.Ref
	for _, ref := range w.pull.Closes {
		if is := v.Facts.Issue(ref); is != nil && !is.Closed {
			open = append(open, ref)
		}
	}
	return &Reason{Code: MergedNotClosed, Refs: open, Note: w.pull.Base}
}

func mergeManual(v *view, w *work) *Reason {
	return when(w.Kind == stageMerge && !v.Config.Forge.MergeAuto, MergeManual)
}

// aheadMost is how long a pull request that was brought up to date with its base keeps the others back, while it waits
// for its checks or a review.
const aheadMost = 2 * time.Hour

// mergeBehind holds a merge while another pull request into the same branch, which was brought up to date, waits for
// its own. The branch then merges only what has its newest commit, and n siblings that are all brought up to date after
// each merge would need n² runs of the checks.
func mergeBehind(v *view, w *work) *Reason {
	if w.Kind != stageMerge {
		return nil
	}
	own := v.broughtUp(w.pull)
	for i := range v.Facts.Pulls {
		p := &v.Facts.Pulls[i]
		if p.Ref == w.Ref || p.Repo != w.Ref.Repo || p.Base != w.pull.Base {
			continue
		}
		at := v.broughtUp(p)
		first := own.IsZero() || at.Before(own) || at.Equal(own) && p.Ref.Compare(w.Ref) < 0
		if !at.IsZero() && first {
			v.wake(at.Add(aheadMost))
			return &Reason{Code: MergeQueued, Refs: []forge.Ref{p.Ref}}
		}
	}
	return nil
}

// broughtUp returns when we brought an open pull request to its present head; zero if we did not, or if it no longer
// keeps others back: it needs rework, a person, or too long.
func (v *view) broughtUp(p *forge.Pull) time.Time {
	h := v.History.Chain(p.Ref)
	c, no := h.Carried, h.NoMerge
	switch {
	case p.Closed || p.Draft || c == nil || c.Red || c.Head != p.HeadSHA || !v.later(c.At.Add(aheadMost)):
		return time.Time{}
	case no != nil && no.Head == p.HeadSHA && no.Cause == forge.RefusedRule:
		return time.Time{}
	case forge.SkipLabel(p.Labels) != "" || v.stageOf(p).kind == agents.KindRework:
		return time.Time{}
	}
	return c.At
}

// lateMost is how often in a row the forge may refuse a merge for a cause that passes by itself, about eight minutes.
// From then on a person is told.
const lateMost = 5

// mergeRefused holds a merge that the forge refused for this head and base, until it is tried again.
func mergeRefused(v *view, w *work) *Reason {
	no := v.History.Chain(w.Ref).NoMerge
	if w.Kind != stageMerge || no == nil || no.Head != w.pull.HeadSHA || no.Base != w.pull.Base || !v.later(no.Until) {
		return nil
	}
	code := MergeAgain
	if no.Cause == forge.RefusedRule || no.Count > lateMost {
		code = MergeRefused
	}
	return &Reason{Code: code, Until: no.Until, Note: no.Words}
}

func humanObjects(_ *view, w *work) *Reason {
	if w.stage.objector != "" {
		return &Reason{Code: HumanObjects, Note: w.stage.objector}
	}
	return nil
}

// mergeLate holds a merge until the forge has checked this head and base. A merge moves the base of every other pull
// request, so facts from before our last merge in the repository do not count. It holds a review while the forge says
// that the head does not merge, until that is known to be a conflict: its review would be wasted.
func mergeLate(v *view, w *work) *Reason {
	unknown := w.pull.Mergeable != forge.MergeClean || v.stale(w.repo, forge.Ref{Repo: w.Ref.Repo})
	unsettled := !w.pull.ConflictSince.IsZero() && w.pull.Mergeable == forge.MergeUnknown
	return when(w.Kind == stageMerge && unknown || w.Kind == agents.KindReview && unsettled, MergeLate)
}
