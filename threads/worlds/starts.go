package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// asOf returns the request time of the scan that the facts of some items come from. The error says why these facts
// must not be used.
func (in *inspection) asOf(refs ...forge.Ref) (time.Time, error) {
	repo, known := in.s.Facts.Repo(refs[0].Repo)
	if !known || repo.AsOf.IsZero() {
		return time.Time{}, fmt.Errorf("%s was never read", refs[0].Repo)
	}
	for _, ref := range refs {
		if t, wrote := in.s.History.Touched[ref]; wrote && !repo.AsOf.After(t) {
			return time.Time{}, fmt.Errorf("the facts of %s are older than our last write to it", ref)
		}
	}
	return repo.AsOf, nil
}

// startsAllowed checks the starts against the real state of the forge, except for changes after the scan.
func startsAllowed(in *inspection) error {
	for i := range in.plan.Starts {
		it := &in.plan.Starts[i].Item
		if it.Kind == agents.KindSchedule { // scheduled work needs no item, but the repository must have been read
			if r, _ := in.s.Facts.Repo(it.Ref.Repo); r.AsOf.IsZero() {
				return fmt.Errorf("%s was never read", it.Ref.Repo)
			}
			continue
		}
		asOf, err := in.asOf(it.Ref, it.Chain)
		switch {
		case err != nil:
		case it.Kind == agents.KindIssue:
			err = in.issueFree(it, asOf)
		default:
			err = in.pullFree(it, asOf)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", it.Kind, it.Ref, err)
		}
	}
	return nil
}

func (in *inspection) issueFree(it *threads.Item, asOf time.Time) error {
	for o, since := range in.forge.issue(it.Ref).obstacle {
		if stood(since, asOf) && !(it.Cause == threads.CausePlan && o == issueUncleared) {
			return fmt.Errorf("it has been %s since %s", issueObstacles[o].words, since.Sub(epoch))
		}
	}
	if it.Cause == threads.CausePlan {
		if err := in.planFree(it); err != nil {
			return err
		}
	}
	fact := in.s.Facts.Issue(it.Ref)
	unread := func(b forge.Blocker) bool { return b.State == forge.BlockerUnknown }
	if !fact.BlockersKnown || slices.ContainsFunc(fact.Blockers, unread) {
		return fmt.Errorf("its blockers were not read")
	}
	return nil
}

// needs has the obstacles that prevent each kind of work on a pull request.
var needs = map[agents.Kind][]pullObstacle{
	agents.KindReview: {
		pullUninvited,
		pullClosed, pullDraft, pullSkipped, pullClaimed, pullUnwanted, pullStray, pullUnplanned, pullNotGreen, pullJudged,
	},
	agents.KindRework: {
		pullClosed, pullDraft, pullSkipped, pullClaimed, pullUnwanted, pullStray, pullUnplanned, pullStranger,
		pullContented,
	},
	"merge": {
		pullClosed, pullDraft, pullSkipped, pullClaimed, pullUnwanted, pullStranger, pullNotGreen, pullUnapproved,
		pullObjected, pullConflicts, pullAstray, pullUnplanned, pullLanded,
	},
}

func (in *inspection) pullFree(it *threads.Item, asOf time.Time) error {
	p := in.forge.pull(it.Ref)
	for _, o := range needs[it.Kind] {
		if stood(p.obstacle[o], asOf) {
			return fmt.Errorf("it has been %s since %s", pullObstacleNames[o], p.obstacle[o].Sub(epoch))
		}
	}
	if p.HeadSHA != it.HeadSHA && !p.moved.After(asOf) {
		return fmt.Errorf("its head has been %s since %s, not %s", p.HeadSHA, p.moved.Sub(epoch), it.HeadSHA)
	}
	if p.Base != it.Base && !p.Retargeted.After(asOf) {
		return fmt.Errorf("its base has been %s since %s, not %s", p.Base, p.Retargeted.Sub(epoch), it.Base)
	}
	return nil
}

// mergesAllowed does the same for merges.
func mergesAllowed(in *inspection) error {
	repos := make(map[string]bool)
	for _, m := range in.plan.Merges {
		asOf, err := in.asOf(m.Ref, in.forge.pull(m.Ref).home, forge.Ref{Repo: m.Ref.Repo})
		if err == nil {
			err = in.pullFree(&threads.Item{Kind: "merge", Ref: m.Ref, HeadSHA: m.HeadSHA, Base: m.Base}, asOf)
		}
		if err != nil {
			return fmt.Errorf("merge of %s: %w", m.Ref, err)
		}
		for _, r := range in.shell.runs {
			if in.forge.branch(r) == in.forge.pull(m.Ref).home && !(r.Item.Kind.Writes() && in.waits(r)) {
				return fmt.Errorf("merge of %s beside %s", m.Ref, r)
			}
		}
		if in.s.History.Item(m.Key()).CoolDown.After(in.Now) {
			return fmt.Errorf("merge of %s: it cools down", m.Ref)
		}
		if repos[m.Ref.Repo] || !in.cfg.Forge.MergeAuto {
			return fmt.Errorf("merge of %s: a second merge at once, or people merge here", m.Ref)
		}
		repos[m.Ref.Repo] = true
	}
	return nil
}

// startsRemembered checks the starts against the history.
func startsRemembered(in *inspection) error {
	h := &in.s.History
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		a, last := h.Chain(st.Item.Chain).Attempt(st.Item.Kind), h.Item(st.Item.Key()).LastRun
		var why string
		switch {
		case h.Item(st.Item.Key()).CoolDown.After(in.Now), !a.Marked && a.Until.After(in.Now):
			why = "it cools down"
		case a.Count >= maxAttempts && !a.Marked:
			why = "its attempts are used up"
		case a.Marked && st.Attempt != 1, !a.Marked && st.Attempt != a.Count+1:
			why = fmt.Sprintf("got attempt %d after %d attempts", st.Attempt, a.Count)
		case h.Chain(st.Item.Ref).HasRefusal():
			why = "an agent refused it"
		case h.Thread(st.Thread).ParkedUntil.After(in.Now):
			why = st.Thread + " is parked"
		case h.Agent(st.Agent).Held(in.Now):
			why = st.Agent + " is held"
		case in.paused(st.Agent, st.Thread):
			why = st.Agent + " is paused"
		case in.crowded(st.Thread):
			why = "the machine is full"
		case in.unserved(st.Agent):
			why = "the model of " + st.Agent + " is not served"
		case in.costly(&st.Item):
			why = "its issue has used its limit"
		case in.broke(st.Agent):
			why = st.Agent + " has no budget left"
		case st.Item.Kind == agents.KindSchedule && !last.IsZero() && last.Add(in.cfg.Role(st.Role).Every).After(in.Now):
			why = "it is not due"
		case in.tooOften(&st.Item):
			why = "it was reviewed or sent back too often"
		case st.Item.Kind == agents.KindReview && in.reviewedOften(&st.Item, i):
			why = "its author has used up the reviews of an hour"
		case st.Item.Kind == agents.KindIssue && in.backlogFull(st.Item.Ref.Repo):
			why = "too many pull requests wait for review"
		default:
			continue
		}
		return fmt.Errorf("%s %s by %s: %s", st.Item.Kind, st.Item.Ref, st.Agent, why)
	}
	return nil
}

// reviewedOften reports whether the author of a person's pull request has used up the reviews of an hour. The first
// starts of the plan count.
func (in *inspection) reviewedOften(it *threads.Item, starts int) bool {
	p := in.s.Facts.Pull(it.Ref)
	if in.own(p) || in.bot(p.Author) {
		return false
	}
	n := 0
	for _, at := range in.checks.after.reviewed[p.Author] {
		if in.Now.Sub(at) < time.Hour {
			n++
		}
	}
	for _, st := range in.plan.Starts[:starts] {
		if st.Item.Kind == agents.KindReview && in.s.Facts.Pull(st.Item.Ref).Author == p.Author {
			n++
		}
	}
	return n >= in.cfg.Forge.MaxReviewsHour
}

// paused reports whether an agent, its thread, or everything is paused.
func (in *inspection) paused(agent, thread string) bool {
	for _, p := range []threads.Pause{{Agent: agent}, {Thread: thread}, {}} {
		if _, paused := in.s.History.Paused[p]; paused {
			return true
		}
	}
	return false
}

// tooOften reports whether a pull request was sent back, or an issue's pull requests were closed by agents, as often
// as the configuration allows.
func (in *inspection) tooOften(it *threads.Item) bool {
	if it.Kind == agents.KindIssue {
		return in.thrownOut(in.s.Facts.Issue(it.Ref)) > in.cfg.Forge.MaxReviewRounds
	}
	p := in.s.Facts.Pull(it.Ref)
	most := &in.cfg.Forge
	switch {
	case it.Cause == threads.CauseChanges:
		return in.rounds(p) > most.MaxReviewRounds
	case it.Cause == threads.CauseConflict:
		return in.rounds(p) >= most.MaxReviewRounds
	case it.Cause == threads.CauseCI:
		return in.s.History.Chain(it.Ref).CIFixes >= most.MaxCIFixes
	case it.Kind == agents.KindReview && p != nil && in.own(p):
		return in.checks.after.reviews[it.Ref] > most.MaxReviewRounds+most.MaxCIFixes
	}
	return false
}

// rounds counts agents' requests for changes and the handled conflicts since a person last saw the pull request.
func (in *inspection) rounds(p *forge.Pull) int {
	n := in.checks.after.conflicts[p.Ref] - in.s.History.Chain(p.Ref).Asked
	for _, r := range p.Reviews {
		agent := in.ours(r.Author) || in.bot(r.Author)
		if r.Verdict == forge.ChangesRequested && agent && r.Submitted.After(in.s.History.Chain(p.Ref).Retried) {
			n++
		}
	}
	return n
}

// thrownOut counts our agents' pull requests for an issue that agents closed unmerged since a person last saw it.
func (in *inspection) thrownOut(is *forge.Issue) int {
	known := in.s.History.Chain(is.Ref)
	n := -known.Asked
	for _, p := range in.s.Facts.Pulls {
		byAgent := in.ours(p.ClosedBy) || in.bot(p.ClosedBy)
		since := p.Ended.After(is.Reopened) && p.Ended.After(known.Retried)
		if p.Closed && !p.Merged && byAgent && in.ours(p.Author) && since && slices.Contains(p.Closes, is.Ref) {
			n++
		}
	}
	return n
}

// backlogFull reports whether max_unreviewed holds new issues.
func (in *inspection) backlogFull(repo string) bool {
	return len(in.unreviewed(repo)) >= in.cfg.Forge.MaxUnreviewed
}

// unreviewed returns our pull requests that wait for a review, or will once their checks are green. The reviewer is an
// agent, or a person in a factory without review agents.
func (in *inspection) unreviewed(repo string) []forge.Ref {
	var refs []forge.Ref
	for i := range in.s.Facts.Pulls {
		p := &in.s.Facts.Pulls[i]
		ours := in.own(p) && !in.stray(p)
		ready := p.Repo == repo && !p.Closed && !p.Draft && ours && forge.SkipLabel(p.Labels) == "" && !in.unwanted(p)
		people := !slices.ContainsFunc(in.cfg.Agents, in.reviewer)
		rests := in.checks.after.asked[p.Ref] > 1 &&
			in.s.History.Item(threads.Key{Kind: agents.KindReview, Ref: p.Ref}).CoolDown.After(in.Now)
		if ready && !rests && in.wantsReview(p) && (people || in.reviewable(in.writers(p))) {
			refs = append(refs, p.Ref)
		}
	}
	return refs
}

// unwanted reports whether the facts show each issue of a pull request as closed, or merged by another one.
func (in *inspection) unwanted(p *forge.Pull) bool {
	return allOf(p.Closes, func(ref forge.Ref) bool {
		is := in.s.Facts.Issue(ref)
		return is != nil && (is.Closed || slices.ContainsFunc(in.s.Facts.Pulls, func(o forge.Pull) bool {
			return o.Ref != p.Ref && o.Merged && o.Ended.After(is.Reopened) && slices.Contains(o.Closes, ref)
		}))
	})
}

// wantsReview reports whether, according to the facts, an open pull request needs a review, and not rework or a merge.
func (in *inspection) wantsReview(p *forge.Pull) bool {
	v := in.forge.verdicts(p, in.writers(p), true)
	return !v.changes && !v.approved && p.CI != forge.CIFailure && !in.conflicts(p)
}

// conflicts reports whether a conflict has lasted long enough to count.
func (in *inspection) conflicts(p *forge.Pull) bool {
	return !p.ConflictSince.IsZero() && p.AsOf.Sub(p.ConflictSince) >= settledAfter
}

// home returns the chain of a pull request, according to the facts.
func home(p *forge.Pull) forge.Ref {
	for _, refs := range [][]forge.Ref{forge.Closes(p.Head, "", "", p.Repo), p.Closes} {
		if len(refs) > 0 {
			return refs[0]
		}
	}
	return p.Ref
}

// writers returns the agents that wrote to a pull request, according to the ledger and the facts.
func (in *inspection) writers(p *forge.Pull) []string {
	list := slices.Clone(in.s.History.Chain(home(p)).Writers)
	for _, login := range append(slices.Clone(p.Coders), p.Author) {
		if a := in.cfg.AgentByLogin(login); a != nil {
			list = append(list, a.Name)
		}
	}
	return list
}

// landed reports whether the base of our pull request contains all of it, and the facts show it as approved or its
// issues as closed.
func (in *inspection) landed(p *forge.Pull) bool {
	v := in.forge.verdicts(p, in.writers(p), true)
	passed := v.approved && !v.changes && p.CI != forge.CIFailure && !in.conflicts(p)
	return p.Contained && !p.Closed && in.own(p) && !in.stray(p) && (passed || in.unwanted(p))
}

// stray reports whether our pull request has a base that we do not merge into.
func (in *inspection) stray(p *forge.Pull) bool { return in.own(p) && !in.target(p.Base) }

// own reports whether one of our agents opened a pull request, or a former one that the ledger knows as a writer.
func (in *inspection) own(p *forge.Pull) bool {
	return in.ours(p.Author) || slices.Contains(in.s.History.Chain(home(p)).Writers, p.Author)
}

func (in *inspection) reviewer(a agents.Agent) bool { return in.does(&a, agents.OnReview) }

// does reports whether an agent has a role with this trigger.
func (w *world) does(a *agents.Agent, on agents.On) bool {
	return slices.ContainsFunc(a.Roles, func(name string) bool { return w.cfg.Role(name).On == on })
}

// reviewable reports whether any agent may review the work of these agents.
func (in *inspection) reviewable(writers []string) bool {
	return slices.ContainsFunc(in.cfg.Agents, func(a agents.Agent) bool {
		return in.reviewer(a) && !in.unpaired(a.Login, writers)
	})
}
