package threads

import (
	"fmt"
	"maps"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Effect is the trace of a session on the forge.
type Effect int

// The effects, from none to all of the task.
const (
	// NoEffect means that the forge shows nothing by the agent since the session started.
	NoEffect Effect = iota
	// Remarked means a comment or a label: the agent made progress, and the item still needs the same work.
	Remarked
	// Achieved means that the work is done: a pull request, new commits, a verdict, or a closed item.
	Achieved
)

// Judge decides how a session really ended, from its program's report and the state of the forge afterwards. Exit
// codes say little: programs exit with 0 after a usage limit, and with 1 after opening a good pull request. A session
// that achieved its work is done however it ended. One that reports done and left no trace is no-progress: otherwise
// its item would start again at once, for ever. Every other report stands. A session that we stopped because its item
// was closed is done if the merge of its own work closed it. A lost session may have achieved its work before its
// machine ended, such as a review, which would be paid for again.
//
// The look must have been requested after the session ended, and must count comments since the session started.
// headBefore is the pull request's head when the session started. Judge does not change the outcome of scheduled
// work, because nothing on the forge shows it.
func Judge(
	item Item, login string, out agents.Outcome, look forge.ItemFacts, headBefore string,
) (agents.Outcome, Effect) {
	if out.Result == agents.Cancelled {
		return judgeCancelled(item, login, out, look)
	}
	if !AsksForge(item, out) {
		return out, NoEffect
	}
	switch out.Result {
	case agents.Planned:
		out.Result, out.Reason, out.Words = agents.Done, "a plan, which was not asked for", ""
	case agents.TooBig:
		out.Result, out.Reason = agents.Done, "too big to review, although it was no review"
	}
	effect, words := effectOf(item, login, look, headBefore)
	switch {
	case effect == Achieved && out.Result != agents.Done:
		out.Result, out.Reason = agents.Done, words+", although it "+howEnded(out)
	case effect != NoEffect && out.Result == agents.Done && !out.Claimed && out.Reason != "":
		out.Reason = words + "; " + out.Reason // such as a result that could not be read
	case effect != NoEffect && out.Result == agents.Done && out.Reason == "":
		out.Reason = words
	case effect == NoEffect && out.Result == agents.Done:
		out.Result, out.Reason = agents.NoProgress, endedWithout(&item, out)
	}
	return out, effect
}

// AsksForge reports whether Judge needs a look at the forge for a session that ended by itself. Without one, Judge
// believes a program that reports a failure, a refusal, a question, a requested plan, a limit, or a change that was too
// big to review: an approval that its account gave all the same does not count.
func AsksForge(item Item, out agents.Outcome) bool {
	ended := out.Result == agents.Done || out.Result == agents.OverBudget || out.Result == agents.Lost ||
		out.Result.Fails() && !out.Claimed || out.Result == agents.Planned && !item.Cause.Plans() ||
		out.Result == agents.TooBig && item.Kind != agents.KindReview
	return item.Kind != agents.KindSchedule && ended
}

func judgeCancelled(item Item, login string, out agents.Outcome, look forge.ItemFacts) (agents.Outcome, Effect) {
	if item.Kind.Writes() {
		if p := ownMerged(login, look); p != nil {
			out.Result, out.Reason = agents.Done, "merged "+p.Short()
			return out, Achieved
		}
	}
	return out, NoEffect
}

// ownMerged returns the item if it is a merged pull request, or else the account's merged pull request for the item.
func ownMerged(login string, look forge.ItemFacts) *forge.Pull {
	if look.Pull != nil && look.Pull.Merged {
		return look.Pull
	}
	for i := range look.Pulls {
		if p := &look.Pulls[i]; p.Merged && p.Author == login {
			return p
		}
	}
	return nil
}

func howEnded(out agents.Outcome) string {
	switch {
	case out.Result == agents.Stalled:
		return "stalled afterwards"
	case out.Result == agents.TimedOut:
		return "ran out of time afterwards"
	case out.Result == agents.OverBudget:
		return "reached a limit afterwards: " + out.Reason
	case out.Result == agents.Lost:
		return "was lost: " + out.Reason
	case out.Signal != "":
		return "ended by " + out.Signal
	}
	return fmt.Sprintf("exited with %d", out.ExitCode)
}

var missing = map[agents.Kind]string{
	agents.KindIssue:  "a pull request",
	agents.KindReview: "a verdict",
	agents.KindRework: "a new commit",
}

// endedWithout names the missing result, and adds the words of the program or the executor.
func endedWithout(item *Item, out agents.Outcome) string {
	words := "ended without " + missing[item.Kind]
	if item.Cause.Plans() {
		words = "ended without a plan"
	}
	switch {
	case out.Reason == "":
		return words
	case out.Claimed:
		return words + ", and said: " + out.Reason
	}
	return words + "; " + out.Reason
}

func effectOf(item Item, login string, look forge.ItemFacts, headBefore string) (Effect, string) {
	effect, words := NoEffect, ""
	switch item.Kind {
	case agents.KindIssue:
		if item.Cause.Plans() {
			look.Pulls = nil // code is not a plan: its pull request is held until there is one
		}
		effect, words = implemented(login, look)
	case agents.KindReview:
		effect, words = reviewed(item, login, look, headBefore)
	case agents.KindRework:
		effect, words = reworked(look, headBefore)
	}
	if effect == NoEffect && look.Comments[login] > 0 {
		return Remarked, "commented"
	}
	return effect, words
}

func implemented(login string, look forge.ItemFacts) (Effect, string) {
	if p := ownMerged(login, look); p != nil {
		return Achieved, "merged " + p.Short()
	}
	for i := range look.Pulls {
		if p := &look.Pulls[i]; p.Author == login && !p.Closed {
			return Achieved, "opened " + p.Short()
		}
	}
	switch is := look.Issue; {
	case is == nil:
		return NoEffect, ""
	case is.Closed:
		return Achieved, "closed " + is.Short()
	case forge.SkipLabel(is.Labels) != "":
		// The issue had no such label when the session started.
		return Remarked, "labelled " + forge.SkipLabel(is.Labels)
	}
	return NoEffect, ""
}

// VerdictOf returns the last verdict, Approved or ChangesRequested, of a review session on its pull request;
// Commented without one.
func VerdictOf(item Item, login string, look forge.ItemFacts) (v forge.Verdict) {
	if look.Pull == nil || item.Kind != agents.KindReview {
		return forge.Commented
	}
	for _, r := range item.given(login, look.Pull) {
		onHead := r.CommitSHA == item.HeadSHA || r.CommitSHA == look.Pull.HeadSHA
		if onHead && r.Verdict != forge.Commented {
			v = r.Verdict
		}
	}
	return v
}

// given returns a session's reviews of a pull request. Reviews that its account gave before the session do not count:
// otherwise a session that crashed would appear to have given them.
func (it *Item) given(login string, p *forge.Pull) (list []forge.Review) {
	for _, r := range p.Reviews {
		before := r.ID <= it.Reviewed && it.Reviewed != 0
		if r.Author == login && !r.Dismissed && !before {
			list = append(list, r)
		}
	}
	return list
}

// ApprovalOf returns the approval of a review session. It is nil when the session approved nothing, or when the pull
// request has changed since it started. A base that was changed and changed back counts as a change: see Item.Seen.
func ApprovalOf(item Item, login string, look forge.ItemFacts) *Approval {
	p := look.Pull
	if p == nil || item.Kind != agents.KindReview || p.HeadSHA != item.HeadSHA || p.Base != item.Base ||
		p.Retargeted.After(item.Seen) {
		return nil
	}
	var last forge.Review
	for _, r := range item.given(login, p) {
		if r.Verdict != forge.Commented {
			last = r
		}
	}
	if last.Verdict != forge.Approved || last.CommitSHA != item.HeadSHA {
		return nil
	}
	return &Approval{Head: p.HeadSHA, Base: p.Base, MergeBase: p.MergeBase}
}

// reviewed accepts a verdict on the head at the session's start and on the present head. A head that moved is
// reviewed again anyway.
func reviewed(item Item, login string, look forge.ItemFacts, headBefore string) (Effect, string) {
	p := look.Pull
	if p == nil {
		return NoEffect, ""
	}
	effect, words := NoEffect, ""
	for _, r := range item.given(login, p) {
		if r.CommitSHA != headBefore && r.CommitSHA != p.HeadSHA {
			continue
		}
		switch r.Verdict {
		case forge.Approved:
			effect, words = Achieved, "approved"
		case forge.ChangesRequested:
			effect, words = Achieved, string(CauseChanges)
		case forge.Commented:
			if effect == NoEffect {
				effect, words = Remarked, "commented"
			}
		}
	}
	if effect != Achieved {
		if gone, how := over(p); gone {
			return Achieved, how
		}
	}
	return effect, words
}

func reworked(look forge.ItemFacts, headBefore string) (Effect, string) {
	p := look.Pull
	if p == nil {
		return NoEffect, ""
	}
	if gone, how := over(p); gone {
		return Achieved, how
	}
	if p.HeadSHA != headBefore && !sentBack(p) {
		return Achieved, fmt.Sprintf("pushed %.7s", p.HeadSHA)
	}
	return NoEffect, ""
}

// sentBack reports whether changes were already requested on the present head of a pull request. To switch back and
// forth between two such heads answers nothing, and asks for no new review that could be counted.
func sentBack(p *forge.Pull) bool {
	back := make(map[string]bool)
	for _, r := range p.Reviews {
		if r.CommitSHA == p.HeadSHA && r.Official && !r.Dismissed && r.Verdict != forge.Commented {
			back[r.Author] = r.Verdict == forge.ChangesRequested
		}
	}
	return slices.Contains(slices.Collect(maps.Values(back)), true)
}

// over reports whether a pull request needs no more work, and why.
func over(p *forge.Pull) (bool, string) {
	switch {
	case p.Merged:
		return true, "merged"
	case p.Closed:
		return true, "closed"
	}
	return false, ""
}
