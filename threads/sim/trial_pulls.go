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
// that failed has no effect.
func (tr *trial) written(x *trialRun, t *trialIssue) {
	t.running--
	if x.stopped != "" || x.Item.Cause.Plans() {
		return
	}
	if t.wrote++; x.how.Result != agents.Done {
		return
	}
	t.done++
	if len(t.Work.Sessions) == 1 && t.pull == nil {
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
	tr.invite(t)
}

// invite makes a person review a pull request in a factory without review agents.
func (tr *trial) invite(t *trialIssue) {
	review := func() {
		tr.reviewed(t, "ada", t.verdict())
		tr.outside()
	}
	if !tr.reviewers() {
		tr.After(t.Review, review)
	}
}

// reviewers reports whether agents review.
func (tr *trial) reviewers() bool {
	return slices.ContainsFunc(tr.Config.Roles, func(r agents.Role) bool { return r.On.Does(agents.KindReview) })
}

// judged applies the effect of a review session.
func (tr *trial) judged(x *trialRun, t *trialIssue) {
	if x.stopped != "" || x.how.Result != agents.Done {
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
		tr.later(func() {
			tr.merge(t.pull.Ref)
			tr.outside()
		})
	}
}

// verdict returns the verdict of a review of the work so far. Every writing session but the last leads to
// a request for changes.
func (t *trialIssue) verdict() forge.Verdict {
	if t.done < len(t.Work.Sessions) {
		return forge.ChangesRequested
	}
	return forge.Approved
}

// mergeSoon merges a pull request after a delay, in which no session starts in the repository.
func (tr *trial) mergeSoon(ref forge.Ref) {
	if !tr.Delays {
		tr.merge(ref)
		tr.change()
		return
	}
	tr.merging[ref.Repo] = true
	tr.After(usualMerge, func() {
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
	if t.Closed {
		tr.seen.Twice++
		return
	}
	t.Closed = true
	tr.left--
	tr.seen.Done++
	tr.seen.turnarounds = append(tr.seen.turnarounds, tr.Now.Sub(t.Created))
	tr.seen.Makespan = tr.Now.Sub(epoch)
}

// later makes a person act after a delay.
func (tr *trial) later(do func()) {
	if !tr.Delays {
		do()
		return
	}
	tr.After(usualAnswer, do)
}
