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
		pullUninvited, pullOutside, pullReplaced,
		pullClosed, pullDraft, pullSkipped, pullClaimed, pullUnwanted, pullStray, pullUnplanned, pullNotGreen, pullJudged,
		pullUnshown,
	},
	agents.KindRework: {
		pullClosed, pullDraft, pullSkipped, pullClaimed, pullUnwanted, pullStray, pullUnplanned, pullStranger,
		pullContented, pullOutside, pullReplaced,
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
		no := in.s.History.Chain(m.Ref).NoMerge
		if no != nil && no.Head == m.HeadSHA && no.Base == m.Base && no.Until.After(in.Now) {
			return fmt.Errorf("merge of %s: the forge refused it, and it rests", m.Ref)
		}
		if repos[m.Ref.Repo] || !in.cfg.Forge.MergeAuto {
			return fmt.Errorf("merge of %s: a second merge at once, or people merge here", m.Ref)
		}
		repos[m.Ref.Repo] = true
	}
	return nil
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

// does reports whether an agent has a role with this trigger.
func (w *world) does(a *agents.Agent, on agents.On) bool {
	return slices.ContainsFunc(a.Roles, func(name string) bool { return w.cfg.Role(name).On == on })
}
