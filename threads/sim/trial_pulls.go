package sim

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// written applies the effect of a writing session: a pull request, a new head for it, or a closed issue. A session
// that failed, or that an outage ended, has no effect.
func (tr *trial) written(x *trialRun, t *trialIssue) {
	t.running--
	if x.cut != nil || x.stopped != "" || x.Item.Cause.Plans() {
		return
	}
	if t.wrote++; x.how.Result != agents.Done && x.how.Result != "" {
		return
	}
	t.done++
	if tr.closes(t) {
		tr.close(t)
		return
	}
	if t.pull == nil {
		t.pull = &forge.Pull{
			Ref:    forge.Ref{Repo: t.Issue.Repo, Number: pullNumber + t.Number},
			Author: tr.Config.Agent(x.Agent).Login, Created: tr.Now,
			Mergeable: forge.MergeClean, Closes: []forge.Ref{t.Issue.Ref}, Head: fmt.Sprintf("fix/issue-%d", t.Number),
			Base: "main",
		}
		tr.pulls = append(tr.pulls, t)
		tr.at[t.pull.Ref] = t
	}
	t.pull.HeadSHA = fmt.Sprintf("%d", t.done)
	t.pull.Updated, t.pull.Mergeable, t.pull.ConflictSince = tr.Now, forge.MergeClean, time.Time{}
	tr.check(t, x.how.Red)
	tr.invite(t)
}

// invite makes a person review a pull request in a factory without review agents.
func (tr *trial) invite(t *trialIssue) {
	review := func() {
		tr.reviewed(t, "ada", t.verdict())
		tr.outside()
	}
	switch {
	case tr.reviewers():
	case t.drawn:
		tr.later(t, review)
	default:
		tr.After(t.Review, review)
	}
}

// closes reports whether the session that has just ended closes its issue without a pull request.
func (tr *trial) closes(t *trialIssue) bool {
	switch {
	case t.drawn || t.pull != nil:
		return false
	case len(t.Work.Steps) > 0:
		return !t.Pulls && t.wrote >= len(t.Work.Steps)
	}
	return len(t.Work.Sessions) == 1
}

// check runs the checks of a new head.
func (tr *trial) check(t *trialIssue, red bool) {
	l := lot{tr.Seed, uint64(t.seed()), lotChecks + uint64(t.done)}
	takes := tr.Model.delay(l, Checks)
	p := t.pull
	if p.CI = forge.CINone; takes == 0 && !red {
		return
	}
	p.CI = forge.CIPending
	head := p.HeadSHA
	tr.After(takes, func() {
		if p.HeadSHA != head || t.pull != p {
			return
		}
		if p.CI, p.CISince = forge.CISuccess, tr.Now; red {
			p.CI = forge.CIFailure
		}
		tr.outside()
	})
}

// reviewers reports whether agents review.
func (tr *trial) reviewers() bool {
	return slices.ContainsFunc(tr.Config.Roles, func(r agents.Role) bool { return r.On.Does(agents.KindReview) })
}

// judged applies the effect of a review session.
func (tr *trial) judged(x *trialRun, t *trialIssue) {
	if x.cut != nil || x.stopped != "" {
		return
	}
	if t.looked++; x.how.Result != agents.Done {
		return
	}
	verdict := forge.Approved
	if x.how.Verdict == ledger.ChangesRequested {
		verdict = forge.ChangesRequested
	}
	tr.reviewed(t, x.Login, verdict)
}

// reviewed posts a verdict on the head.
func (tr *trial) reviewed(t *trialIssue, by string, verdict forge.Verdict) {
	if t.pull == nil {
		return
	}
	r := forge.Review{Author: by, Verdict: verdict, CommitSHA: t.pull.HeadSHA, Official: true, Submitted: tr.Now}
	t.pull.Reviews = append(slices.Clone(t.pull.Reviews), r)
	if r.Verdict == forge.Approved && !tr.Config.Forge.MergeAuto { // people merge
		tr.later(t, func() {
			tr.merge(t.pull.Ref)
			tr.outside()
		})
	}
}

// verdict returns the verdict of a review of work without recorded reviews. Every writing session but the last leads to
// a request for changes.
func (t *trialIssue) verdict() forge.Verdict {
	if t.done < max(len(t.Work.Sessions), len(t.Work.Steps)) {
		return forge.ChangesRequested
	}
	return forge.Approved
}

// mergeSoon merges a pull request after a delay, in which no session starts in the repository.
func (tr *trial) mergeSoon(ref forge.Ref) {
	takes := tr.Model.delay(lot{tr.Seed, uint64(ref.Number), lotMerge}, Merging)
	if takes == 0 {
		tr.merge(ref)
		tr.change()
		return
	}
	tr.merging[ref.Repo] = true
	tr.After(takes, func() {
		delete(tr.merging, ref.Repo)
		tr.merge(ref)
		tr.change()
	})
}

func (tr *trial) merge(ref forge.Ref) {
	t := tr.issue(ref)
	if t == nil || t.pull == nil || t.merged {
		return
	}
	t.merged = true
	tr.seen.Merged++
	tr.pulls = slices.DeleteFunc(tr.pulls, func(o *trialIssue) bool { return o == t })
	tr.close(t)
}

func (tr *trial) close(t *trialIssue) {
	if t.bare {
		t.ended = tr.Now
		return
	}
	if t.Closed {
		tr.seen.Twice++
		return
	}
	t.Closed, t.ended = true, tr.Now
	tr.left--
	tr.seen.Done++
	tr.seen.turnarounds = append(tr.seen.turnarounds, tr.Now.Sub(t.Created))
	tr.seen.Makespan = tr.Now.Sub(tr.origin)
	tr.unblock(t)
}

// unblock marks a closed issue as closed in the blockers of its dependent issues.
func (tr *trial) unblock(t *trialIssue) {
	for _, o := range tr.waiters[t.Issue.Ref] {
		o.Blockers = slices.Clone(o.Blockers)
		for i := range o.Blockers {
			if b := &o.Blockers[i]; b.Ref == t.Issue.Ref && b.State == forge.BlockerOpen {
				b.State = forge.BlockerClosed
				o.blocked--
			}
		}
	}
}

// later makes a person act on an issue after a delay.
func (tr *trial) later(t *trialIssue, do func()) {
	t.asked++
	takes := tr.Model.delay(lot{tr.Seed, uint64(t.seed()), lotPeople + uint64(t.asked)<<32}, People)
	if takes == 0 {
		do()
		return
	}
	tr.After(takes, do)
}
