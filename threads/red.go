package threads

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// excused reports whether all checks that failed on a pull request fail without its commits, too: another round of its
// author would change nothing. Twelve reworks in three seconds, and four pull requests that needed a person, came of
// one red main.
func excused(p *forge.Pull) bool {
	return p.CI == forge.CIFailure && len(p.Red) > 0 && !slices.ContainsFunc(p.Red, func(name string) bool {
		return !slices.Contains(p.RedBefore, name)
	})
}

// redBranch returns why a pull request waits for its branch, whose checks fail; nil if it does not. A merge waits
// unless merge_on_red is set, or the pull request has the branch's newest commit and passes its checks: then it is the
// repair. behind reports that the branch has been repaired since, and has to be merged into the pull request.
func (v *view) redBranch(p *forge.Pull, kind agents.Kind) (why *Reason, behind bool) {
	repo := v.repo(p.Repo)
	if repo == nil || kind == agents.KindRework {
		return nil, false
	}
	i := slices.IndexFunc(repo.Branches, func(b forge.Branch) bool { return b.Name == p.Base })
	if i < 0 {
		return nil, false
	}
	b := &repo.Branches[i]
	repairs := p.CI == forge.CISuccess && p.MergeBase == b.SHA
	switch {
	case excused(p):
		why = &Reason{Code: MainRed, Note: redWords(b)}
		behind = b.CI != forge.CIFailure && b.CI != forge.CIPending && p.MergeBase != b.SHA
	case kind == stageMerge && b.CI == forge.CIFailure && !v.Config.Forge.MergeOnRed && !repairs:
		why = &Reason{Code: MainRed, Note: redWords(b)}
	}
	return why, behind
}

// mayRepair reports whether an issue may start although too many pull requests wait for a review: while a branch is
// red none of them can be merged, and an issue of the first priority may be its repair.
func (v *view) mayRepair(w *work) bool {
	red := func(b forge.Branch) bool { return b.CI == forge.CIFailure }
	return w.Priority == 1 && w.repo != nil && slices.ContainsFunc(w.repo.Branches, red)
}

// redWords says since when a branch is red, and which checks fail.
func redWords(b *forge.Branch) string {
	switch b.CI {
	case forge.CIFailure:
		return b.Name + " is red since " + b.Since.UTC().Format(time.RFC3339) + ": " + strings.Join(b.Red, ", ")
	case forge.CIPending:
		return b.Name + " was red, and its newest commit is being checked"
	}
	return b.Name + " was red, and is merged into it now"
}

// ciPatience is how long checks may be silent before a person is told: longer than any job that ends by itself.
const ciPatience = 6 * time.Hour

// ciPending holds reviews and merges while CI has not reported. Rework does not wait for CI.
func ciPending(v *view, w *work) *Reason {
	since := w.pull.CISince
	switch {
	case w.Kind == agents.KindRework || w.pull.CI != forge.CIPending:
		return nil
	case !since.IsZero() && !v.later(since.Add(ciPatience)):
		return &Reason{Code: CIStuck, Until: since}
	}
	return &Reason{Code: CIPending}
}

// mainRed holds a pull request while its branch is red.
func mainRed(_ *view, w *work) *Reason { return w.stage.red }

// catchUp merges branches that are no longer red into the pull requests that left them while they were.
func (d *decision) catchUp() {
	for _, w := range d.queue {
		if w.Reason != nil && w.Reason.Code == MainRed && w.stage.behind && w.stage.own && !w.stage.stray {
			d.plan.Marks = append(d.plan.Marks, Mark{Action: ActUpdate, Ref: w.Ref, Item: w.Item, Reason: *w.Reason})
		}
	}
}
