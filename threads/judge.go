package threads

import (
	"fmt"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Effect is what a session left behind on the forge.
type Effect int

// The effects, from nothing to what the work was for.
const (
	// NoEffect means that the forge shows nothing of the agent since the session began.
	NoEffect Effect = iota
	// Remarked means words or a label and no more: the agent got somewhere, and the item is as open as before.
	Remarked
	// Achieved means that the kind of work is done: a pull request, new commits, a verdict, or an item that is closed.
	Achieved
)

// Judge says how a session really ended, from what its program reported and what the forge shows afterwards. An exit
// code says neither: programs end with 0 after a usage limit, and with 1 after a pull request that is fine. So a
// session that reached what it was for is done however it ended, one that says done and left nothing is
// no-progress (believing it would start it again at once, for ever), and every other claim of the program stands.
// One that we ended because its item was closed is done if that was by the merge of its own work.
// The look must have been requested after the session ended; its comments must count since the session began.
// headBefore is the head of the pull request when the session began. Scheduled work leaves no trace to look for: its
// outcome is returned as it is.
func Judge(item Item, login string, out agents.Outcome, look forge.Look, headBefore string) (agents.Outcome, Effect) {
	if out.Result == agents.Cancelled {
		return judgeCancelled(item, login, out, look)
	}
	if !AsksForge(item, out) {
		return out, NoEffect
	}
	effect, words := effectOf(item.Kind, login, look, headBefore)
	switch {
	case effect == Achieved && out.Result != agents.Done:
		out.Result, out.Reason = agents.Done, words+", although it "+howEnded(out)
	case effect != NoEffect && out.Result == agents.Done && !out.Claimed && out.Reason != "":
		out.Reason = words + "; " + out.Reason // such as a result that could not be read
	case effect != NoEffect && out.Result == agents.Done && out.Reason == "":
		out.Reason = words
	case effect == NoEffect && out.Result == agents.Done:
		out.Result, out.Reason = agents.NoProgress, endedWithout(item.Kind, out)
	}
	return out, effect
}

// AsksForge reports whether the forge has a say in how a session ended by itself, so that Judge needs a look. A program
// that reports a failure, a refusal or a limit is believed.
func AsksForge(item Item, out agents.Outcome) bool {
	return item.Kind != agents.KindSchedule && (out.Result == agents.Done || out.Result.BurnsAttempt() && !out.Claimed)
}

func judgeCancelled(item Item, login string, out agents.Outcome, look forge.Look) (agents.Outcome, Effect) {
	if item.Kind.Writes() {
		if p := ownMerged(login, look); p != nil {
			out.Result, out.Reason = agents.Done, "merged "+p.Short()
			return out, Achieved
		}
	}
	return out, NoEffect
}

// ownMerged is a merged pull request of the account for the item, or the item itself if that is one.
func ownMerged(login string, look forge.Look) *forge.Pull {
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

// endedWithout tells what is not there, and what there was to hear: a result that could not be read is no silence.
func endedWithout(kind agents.Kind, out agents.Outcome) string {
	words := "ended without " + missing[kind]
	switch {
	case out.Reason == "":
		return words
	case out.Claimed:
		return words + ", and said: " + out.Reason
	}
	return words + "; " + out.Reason
}

func effectOf(kind agents.Kind, login string, look forge.Look, headBefore string) (Effect, string) {
	effect, words := NoEffect, ""
	switch kind {
	case agents.KindIssue:
		effect, words = implemented(login, look)
	case agents.KindReview:
		effect, words = reviewed(login, look, headBefore)
	case agents.KindRework:
		effect, words = reworked(look, headBefore)
	}
	if effect == NoEffect && look.Comments[login] > 0 {
		return Remarked, "commented"
	}
	return effect, words
}

func implemented(login string, look forge.Look) (Effect, string) {
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
		// It carried no such label when it was started.
		return Remarked, "labelled " + forge.SkipLabel(is.Labels)
	}
	return NoEffect, ""
}

// VerdictOf is the verdict that a review session left on the pull request: the last that it gave, approved or changes
// requested. Commented where it left none.
func VerdictOf(item Item, login string, look forge.Look) (v forge.Verdict) {
	if look.Pull == nil || item.Kind != agents.KindReview {
		return forge.Commented
	}
	for _, r := range look.Pull.Reviews {
		onHead := r.CommitSHA == item.HeadSHA || r.CommitSHA == look.Pull.HeadSHA
		if r.Author == login && onHead && !r.Dismissed && r.Verdict != forge.Commented {
			v = r.Verdict
		}
	}
	return v
}

// reviewed accepts a verdict on the head that the session was started for, and on the one it ended with: a head that
// moved is reviewed again anyway.
func reviewed(login string, look forge.Look, headBefore string) (Effect, string) {
	p := look.Pull
	if p == nil {
		return NoEffect, ""
	}
	effect, words := NoEffect, ""
	for _, r := range p.Reviews {
		onHead := r.CommitSHA == headBefore || r.CommitSHA == p.HeadSHA
		if r.Author != login || r.Dismissed || !onHead {
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

func reworked(look forge.Look, headBefore string) (Effect, string) {
	p := look.Pull
	if p == nil {
		return NoEffect, ""
	}
	if gone, how := over(p); gone {
		return Achieved, how
	}
	if p.HeadSHA != headBefore {
		return Achieved, fmt.Sprintf("pushed %.7s", p.HeadSHA)
	}
	return NoEffect, ""
}

// over reports whether a pull request needs no more work, and how that came.
func over(p *forge.Pull) (bool, string) {
	switch {
	case p.Merged:
		return true, "merged"
	case p.Closed:
		return true, "closed"
	}
	return false, ""
}
