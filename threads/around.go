package threads

import (
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// Around returns an issue's blockers and the issues that it blocks, with their progress, each list sorted by
// reference. It knows only issues in the facts: one closed long ago has no blockers here and is not a dependent.
func Around(s Snapshot, ref forge.Ref) (dependsOn, dependents []Member) {
	if s.Config == nil {
		return nil, nil
	}
	_, d := decide(&s)
	if is := d.Facts.Issue(ref); is != nil {
		for _, b := range is.Blockers {
			dependsOn = append(dependsOn, d.member(b))
		}
	}
	for i := range d.Facts.Issues {
		is := &d.Facts.Issues[i]
		if is.Ref == ref || !slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool { return b.Ref == ref }) {
			continue
		}
		b := forge.Blocker{Ref: is.Ref, State: forge.BlockerOpen}
		if is.Closed {
			b.State = forge.BlockerClosed
		}
		dependents = append(dependents, d.member(b))
	}
	return dependsOn, dependents
}
