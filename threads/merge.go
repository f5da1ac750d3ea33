package threads

import (
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// StillMerges decides on one merge of a plan once more, with the pull request as a later reading shows it, and says why
// not; empty when it is to be merged. Between a scan and the merge an approval may be dismissed, a person may object,
// the base may change, and the reading may tell what no scan reads. What was written since the scan counts as known,
// because the reading came after it.
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

// landed reports whether an open pull request of ours is merged although the forge does not say so: its base has every
// commit of it. The forge may have ended in the middle of the merge. One without commits looks the same, so it also has
// to be approved, or its issues have to be closed, as they are in the middle of a merge.
func (v *view) landed(p *forge.Pull) bool {
	if !p.Contained || p.Closed {
		return false
	}
	st := v.stageOf(p)
	return st.own && !st.stray && (st.kind == stageMerge || v.unwanted(p))
}

// unnoted holds a pull request that is merged until it is closed, which is after the issues that it is for.
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
