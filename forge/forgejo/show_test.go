package forgejo

import (
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

var (
	blockerStates = map[forge.BlockerState]string{
		forge.BlockerUnknown: "unknown", forge.BlockerOpen: "open", forge.BlockerClosed: "closed",
		forge.BlockerCancelled: "cancelled", forge.BlockerUnmerged: "unmerged", forge.BlockerMissing: "missing",
		forge.BlockerUnreadable: "unreadable",
	}
	mergeabilities = map[forge.Mergeability]string{
		forge.MergeUnknown: "unknown", forge.MergeClean: "clean", forge.MergeNotClean: "conflict",
	}
	cis = map[forge.CI]string{
		forge.CINone: "none", forge.CIPending: "pending", forge.CISuccess: "success",
		forge.CIFailure: "failure",
	}
	verdicts = map[forge.Verdict]string{
		forge.Commented: "commented", forge.Approved: "approved",
		forge.ChangesRequested: "changes",
	}
)

// show describes an item of the world's repository on one line, with shortened names.
func (w *world) show(f forge.Facts, n int64) string {
	ref := w.ref(n)
	if i := f.Issue(ref); i != nil {
		return w.short(showIssue(i))
	}
	if p := f.Pull(ref); p != nil {
		return w.short(showPull(p))
	}
	return "not there"
}

func (w *world) short(s string) string {
	return strings.NewReplacer(w.repo+"#", "#", "-"+w.suffix, "").Replace(s)
}

func showIssue(i *forge.Issue) string {
	parts := []string{"issue", openOr("closed", !i.Closed), fmt.Sprintf("%q", i.Title)}
	if len(i.Labels) > 0 {
		parts = append(parts, "["+strings.Join(i.Labels, " ")+"]")
	}
	for _, login := range i.Assignees {
		parts = append(parts, "@"+login)
	}
	if !i.Reopened.IsZero() {
		parts = append(parts, "reopened")
	}
	if i.BlockersKnown {
		parts = append(parts, "blockers:")
	}
	for _, b := range i.Blockers {
		text := "hidden"
		if b.Number != 0 {
			text = b.Ref.String()
		}
		if text += " " + blockerStates[b.State]; b.InBody {
			text += " (text)"
		}
		parts = append(parts, text+";")
	}
	return strings.Join(parts, " ")
}

func showPull(p *forge.Pull) string {
	parts := []string{"pull", openOr("closed", !p.Closed)}
	if p.Merged {
		parts[1] = "merged"
	}
	if p.ClosedBy != "" {
		parts = append(parts, "by "+p.ClosedBy)
	}
	parts = append(parts, p.Author, p.Head+"->"+p.Base)
	if p.Draft {
		parts = append(parts, "draft")
	}
	if len(p.Labels) > 0 {
		parts = append(parts, "["+strings.Join(p.Labels, " ")+"]")
	}
	for _, ref := range p.Closes {
		parts = append(parts, "for "+ref.String())
	}
	if !p.Closed {
		parts = append(parts, mergeabilities[p.Mergeable], "ci "+cis[p.CI])
	}
	for _, r := range p.Reviews {
		text := verdicts[r.Verdict] + " by " + r.Author
		if r.CommitSHA != p.HeadSHA {
			text += " of an old head"
		}
		if r.Dismissed {
			text += " dismissed"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func openOr(closed string, open bool) string {
	if open {
		return "open"
	}
	return closed
}
