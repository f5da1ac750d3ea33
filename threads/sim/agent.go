package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// fate is how a session goes: whether it does what it is for, what it says in the end, and how long that takes.
type fate struct {
	achieves bool
	remarks  bool
	slow     time.Duration // added to its length
	out      agents.Outcome
}

// good and bad are the ways of a session. On a calm day everything goes the first way.
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
		{out: agents.Outcome{Result: agents.Failed, Reason: "killed", Signal: "SIGKILL", ExitCode: -1}},
		{out: agents.Outcome{Result: agents.Stalled, Reason: "silent"}, slow: 15 * time.Minute},
		{out: agents.Outcome{Result: agents.TimedOut, Reason: "2h"}, slow: 2 * time.Hour},
		{out: agents.Outcome{Result: agents.Done}, remarks: true},
		{out: agents.Outcome{Result: agents.Refused, Reason: "too large", Claimed: true}},
		{out: agents.Outcome{Result: agents.Limited, Reason: "usage limit", Claimed: true}},
		{out: agents.Outcome{Result: agents.BackendDown, Reason: "connection refused", Claimed: true}},
	}
)

// temper draws a fate. Some issues are beyond every agent, or the attempts would never be used up.
func (w *world) temper(r *run) fate {
	switch {
	case w.calm:
		return good[0]
	case w.chance(w.mood.failure) && r.Item.Ref.Number%5 == 3:
		return bad[w.rng.IntN(4)]
	case w.chance(w.mood.failure):
		return oneOf(w, bad...)
	}
	return oneOf(w, good...)
}

// work is an agent's program: it does something to the forge, and a moment later it ends.
func (w *world) work(r *run) {
	f := w.temper(r)
	length := w.between(time.Minute, 20*time.Minute) + f.slow
	if f.out.Result == agents.Limited {
		f.out.RetryAt = w.now.Add(length + w.between(0, time.Hour))
	}
	f.out.Usage = w.spend()
	w.after(length, func() {
		if r.dead {
			return
		}
		r.remarked = f.remarks
		if is := w.forge.issue(r.Item.Ref); is != nil && f.out.Result == agents.Refused && w.chance(0.4) {
			w.forge.label(is, "underspecified", "") // it says so on the forge as well
		}
		if f.achieves && w.achieve(r) {
			return // it waits for its review, and ends by itself
		}
		w.after(w.between(0, time.Minute), func() { w.shell.exited(r, f.out) })
	})
}

// achieve does what a session is for. It reports whether the session stays to wait for a review.
func (w *world) achieve(r *run) (waits bool) {
	switch r.Item.Kind {
	case agents.KindIssue:
		return w.implement(r)
	case agents.KindReview:
		if p := w.forge.pull(r.Item.Ref); !p.Closed {
			v := forge.Approved
			if w.trouble(w.mood.changes) {
				v = forge.ChangesRequested
			}
			w.forge.review(p, w.logins[r.Agent], r.Item.HeadSHA, v, w.chance(0.7))
			w.log("agent  %s reviews %s at %s: %v", r.Agent, p.Ref, r.Item.HeadSHA, v)
		}
	case agents.KindRework:
		if p := w.forge.pull(r.Item.Ref); !p.Closed {
			w.forge.push(p)
			w.log("agent  %s pushes %s to %s", r.Agent, p.HeadSHA, p.Ref)
		}
	case agents.KindSchedule:
		if w.trouble(0.3) {
			w.forge.file(w.forge.repo(r.Item.Ref.Repo), forge.LabelBacklog)
		}
	}
	return false
}

// implement opens a pull request for the session's issue; now and then it says that there is nothing to do, or that the
// issue is not fit to be worked on, or takes a second issue along.
func (w *world) implement(r *run) (waits bool) {
	is, login := w.forge.issue(r.Item.Ref), w.logins[r.Agent]
	if w.trouble(0.04) {
		w.forge.label(is, "underspecified", "")
		return false
	}
	if w.trouble(0.04) {
		_ = w.forge.close(is) // a refusal is the program's to see, and no progress for us
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
	w.attend(r, p, w.now.Add(2*time.Hour))
	return true
}

// attend is a program that stays until its pull request is merged, and answers reviews by itself.
func (w *world) attend(r *run, p *pull, until time.Time) {
	w.after(w.between(time.Minute, 4*time.Minute), func() {
		switch {
		case r.dead:
			return
		case p.Closed:
			w.shell.exited(r, agents.Outcome{Result: agents.Done})
			return
		case !w.now.Before(until):
			w.shell.exited(r, agents.Outcome{Result: agents.TimedOut, Reason: "2h"})
			return
		case w.verdicts(&p.Pull, nil).changes || p.CI == forge.CIFailure || p.conflict:
			w.forge.push(p)
			w.log("agent  %s pushes %s to %s", r.Agent, p.HeadSHA, p.Ref)
		}
		w.attend(r, p, until)
	})
}

// openIssues and openPulls are what people and agents find on the forge.
func (s *server) openIssues(r *repo) []*issue {
	return slices.DeleteFunc(slices.Clone(r.issues), func(is *issue) bool { return is.Closed })
}

func (s *server) openPulls(r *repo) []*pull {
	return slices.DeleteFunc(slices.Clone(r.pulls), func(p *pull) bool { return p.Closed })
}
