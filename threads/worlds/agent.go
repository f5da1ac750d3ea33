package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// fate is the course of a session: whether it achieves its purpose, its outcome, and its length.
type fate struct {
	achieves bool
	remarks  bool
	slow     time.Duration // added to its length
	out      agents.Outcome
}

// good and bad are the fates of a session. In a calm world every session has the first good one.
var (
	good = []fate{
		{achieves: true, out: agents.Outcome{Result: agents.Done}},
		{achieves: true, out: agents.Outcome{Result: agents.Done, Claimed: true}},
		{achieves: true, out: agents.Outcome{Result: agents.Failed, Reason: "exited with 1", ExitCode: 1}},
		{achieves: true, out: agents.Outcome{Result: agents.Stalled, Reason: "silent"}, slow: 15 * time.Minute},
	}
	bad = []fate{
		{out: agents.Outcome{Result: agents.Done}},
		{out: agents.Outcome{Result: agents.Failed, Reason: "tests fail", Claimed: true}},
		{out: agents.Outcome{Result: agents.Failed, Reason: "tests fail", Claimed: true}},
		{out: agents.Outcome{Result: agents.Failed, Reason: "exited with 1", ExitCode: 1}},
		{out: agents.Outcome{Result: agents.Stalled, Reason: "silent"}, slow: 15 * time.Minute},
		{out: agents.Outcome{Result: agents.TimedOut, Reason: "2h"}, slow: 2 * time.Hour},
		{out: agents.Outcome{Result: agents.Done}, remarks: true},
		{out: agents.Outcome{Result: agents.Refused, Reason: "too large", Claimed: true}},
		{out: agents.Outcome{Result: agents.PushRefused, Reason: "the hook says no", Claimed: true}},
		{out: agents.Outcome{Result: agents.TooBig, Reason: "a binary", Claimed: true}},
		{achieves: true, out: agents.Outcome{Result: agents.TooBig, Reason: "a submodule", Claimed: true}},
		{out: agents.Outcome{Result: agents.Limited, Reason: "usage limit", Claimed: true}},
		{out: agents.Outcome{Result: agents.Looped, Reason: "the same call again", Claimed: true}},
		{out: agents.Outcome{Result: agents.OverBudget, Reason: "so it says", Claimed: true}},
		{out: agents.Outcome{Result: agents.TokenRejected, Reason: "the forge refuses its token"}},
		{out: agents.Outcome{Result: agents.BackendDown, Reason: "connection refused", Claimed: true}},
		{out: agents.Outcome{Result: agents.Unanswered, Reason: "no credit", Claimed: true}},
		{out: agents.Outcome{Result: agents.Killed, Reason: "killed", Signal: "SIGKILL", ExitCode: -1}},
	}
)

// words are the fates of a session that asks a question or posts a plan.
var words = []fate{
	{out: agents.Outcome{Result: agents.Question, Reason: "which?", Words: "Which?", Claimed: true}},
	{out: agents.Outcome{Result: agents.Question, Reason: "why?", Words: "Why?", Claimed: true}},
	{out: agents.Outcome{Result: agents.Planned, Reason: "this", Words: "This.", Claimed: true}},
}

// temper draws the fate of a session. The sessions on every fifth issue can fail with any agent; otherwise no world
// would use up five attempts.
func (w *world) temper(r *run) fate {
	switch {
	case w.calm:
		return good[0]
	case r.Agent == w.cfg.Agents[0].Name && w.chance(w.mood.deaf):
		return fate{out: agents.Outcome{Result: agents.BackendDown, Reason: "connection refused", Claimed: true}}
	case w.chance(w.mood.capped):
		return fate{out: agents.Outcome{Result: agents.Limited, Reason: "usage limit", RetryAt: epoch, Claimed: true}}
	case w.mood.curious > 0 && w.chance(w.mood.curious):
		return oneOf(w, words...)
	case w.chance(w.mood.failure) && r.Item.Ref.Number%5 == 3:
		return bad[w.rng.IntN(4)]
	case w.chance(w.mood.failure):
		return oneOf(w, bad...)
	}
	return oneOf(w, good...)
}

// work runs an agent's program: it changes the forge, and exits within a minute after that.
func (w *world) work(r *run) {
	f := w.temper(r)
	length := w.between(time.Minute, 20*time.Minute) + f.slow
	if f.out.Result == agents.Limited && f.out.RetryAt.IsZero() {
		f.out.RetryAt = w.Now.Add(length + w.between(0, time.Hour))
		if w.chance(0.2) {
			f.out.RetryAt = oneOf(w, epoch, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
		}
	}
	f.out.Usage = w.spend()
	w.use(r, length, f.out.Usage)
	w.After(length, func() {
		if r.dead {
			return
		}
		r.remarked = f.remarks
		if is := w.forge.issue(r.Item.Ref); is != nil && f.out.Result == agents.Refused && w.chance(0.4) {
			w.forge.label(is, "underspecified", "") // the program labels the issue itself
		}
		switch {
		case f.achieves && r.Item.Cause == threads.CausePlan:
			w.plan(r, &f)
		case f.achieves && w.achieve(r):
			return // attend ends the session
		}
		w.After(w.between(0, time.Minute), func() { w.shell.exited(r, f.out) })
	})
}

// achieve does the work of a session. It reports whether the program stays until its review.
func (w *world) achieve(r *run) (waits bool) {
	switch r.Item.Kind {
	case agents.KindIssue:
		return w.implement(r)
	case agents.KindReview:
		if p := w.forge.pull(r.Item.Ref); !p.Closed && w.trouble(w.mood.closing) {
			w.forge.end(p, w.logins[r.Agent])
			w.log("agent  %s closes %s", r.Agent, p.Ref)
		} else if !p.Closed {
			v := forge.Approved
			if w.trouble(w.mood.changes) {
				v = forge.ChangesRequested
			}
			w.forge.review(p, w.logins[r.Agent], r.Item.HeadSHA, v, w.chance(0.7))
			w.log("agent  %s reviews %s at %s: %v", r.Agent, p.Ref, r.Item.HeadSHA, v)
			if w.trouble(w.mood.restless) {
				w.After(w.between(0, time.Minute), func() { w.unsettle(p) })
			}
		}
	case agents.KindRework:
		if p := w.forge.pull(r.Item.Ref); !p.Closed && w.trouble(w.mood.crafty) {
			w.trickery(p, w.logins[r.Agent])
		} else if !p.Closed {
			w.rework(p, w.logins[r.Agent])
			w.log("agent  %s pushes %s to %s, conflict: %v", r.Agent, p.HeadSHA, p.Ref, p.conflict)
		}
	case agents.KindSchedule:
		if w.trouble(0.3) {
			is := w.forge.file(w.forge.repo(r.Item.Ref.Repo), forge.LabelBacklog)
			is.Author, is.Title = w.logins[r.Agent], fmt.Sprintf("chore %d", w.number(1, 4)) // some are duplicates
			w.log("agent  %s files %s: %s", r.Agent, is.Ref, is.Title)
		}
	}
	return false
}

// unsettle makes the last verdict on a pull request void, by a push or by dismissing it.
func (w *world) unsettle(p *pull) {
	switch {
	case p.Closed:
	case w.chance(0.5):
		w.forge.push(p, p.Author)
		w.log("agent  pushes %s to %s", p.HeadSHA, p.Ref)
	default:
		w.dismiss(p, len(p.Reviews)-1)
	}
}

// rework pushes a commit. Some agents go back to the previous head, and some do not resolve the conflict.
func (w *world) rework(p *pull, login string) {
	conflict := p.conflict
	if w.trouble(0.3) && len(p.heads) > 1 {
		w.forge.setHead(p, p.heads[len(p.heads)-2])
	} else {
		w.forge.push(p, login)
	}
	p.conflict = conflict && w.trouble(0.3)
}

// implement opens a pull request for a session's issue. In some sessions it instead labels the issue underspecified,
// or closes it because nothing is left to do. Some pull requests also close a second issue.
func (w *world) implement(r *run) (waits bool) {
	is, login := w.forge.issue(r.Item.Ref), w.logins[r.Agent]
	if w.trouble(0.04) {
		w.forge.label(is, "underspecified", "")
		return false
	}
	if w.trouble(0.04) {
		_ = w.forge.close(is) // if the forge refuses, the session makes no progress
		return false
	}
	closes := []forge.Ref{is.Ref}
	if other := oneOf(w, w.forge.repo(is.Repo).issues...); other != is && w.trouble(0.1) {
		closes = append(closes, other.Ref)
	}
	p := w.forge.open(w.forge.repo(is.Repo), login, w.chance(0.85) || len(closes) > 1, closes...)
	w.log("agent  %s opens %s for %v", r.Agent, p.Ref, p.Closes)
	if role := w.cfg.Role(r.Role); role == nil || !role.WaitsForReview {
		return false
	}
	w.attend(r, p, w.Now.Add(2*time.Hour))
	return true
}

// attend runs a program that answers reviews itself and stays until its pull request is merged.
func (w *world) attend(r *run, p *pull, until time.Time) {
	w.After(w.between(time.Minute, 4*time.Minute), func() {
		switch {
		case r.dead:
			return
		case p.Closed:
			w.shell.exited(r, agents.Outcome{Result: agents.Done})
			return
		case !w.Now.Before(until):
			w.shell.exited(r, agents.Outcome{Result: agents.TimedOut, Reason: "2h"})
			return
		case w.forge.verdicts(&p.Pull, nil, false).changes || p.CI == forge.CIFailure || p.conflict:
			w.forge.push(p, w.logins[r.Agent])
			w.log("agent  %s pushes %s to %s", r.Agent, p.HeadSHA, p.Ref)
		}
		w.attend(r, p, until)
	})
}

// openIssues returns the open issues of a repository.
func (s *server) openIssues(r *repo) []*issue {
	return slices.DeleteFunc(slices.Clone(r.issues), func(is *issue) bool { return is.Closed })
}

// openPulls returns the open pull requests of a repository.
func (s *server) openPulls(r *repo) []*pull {
	return slices.DeleteFunc(slices.Clone(r.pulls), func(p *pull) bool { return p.Closed })
}
