package forgejo

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// facts returns the cache as forge.Facts. Structs are copied. Slices are shared: the cache replaces them and never
// modifies them.
func (c *Client) facts(more bool) forge.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	f := forge.Facts{More: more, Repos: make([]forge.Repo, 0, len(c.repos))}
	ends, shown := c.ends(), c.referredTo()
	issues, pulls := 0, 0
	for _, r := range c.repos {
		issues, pulls = issues+len(r.issues), pulls+len(r.pulls)
	}
	f.Issues, f.Pulls = make([]forge.Issue, 0, issues), make([]forge.Pull, 0, pulls)
	for _, r := range c.repos {
		f.Repos = append(f.Repos, c.repoFact(r))
		for _, n := range slices.Sorted(maps.Keys(r.issues)) {
			i := r.issues[n]
			if !i.Closed || shown[i.Ref] || now.Sub(i.ended) < keepEnded {
				f.Issues = append(f.Issues, c.issueFact(r, i, ends[i.Ref]))
			}
		}
		for _, n := range slices.Sorted(maps.Keys(r.pulls)) {
			if p := r.pulls[n]; !p.Closed || p.showEnded(c, now) {
				f.Pulls = append(f.Pulls, c.pullFact(r, p))
			}
		}
	}
	f.Commands = c.saidFacts()
	f.Twin, f.Sharer = c.peers()
	return f
}

// repoFact returns a repository as a fact. While no account can work in it, AsOf is zero, so that nothing starts or is
// written.
func (c *Client) repoFact(r *repo) forge.Repo {
	fact := forge.Repo{
		Name: r.name, AsOf: r.asOf, DefaultBranch: r.settings.branch, Off: r.settings.off, NoPush: r.settings.noPush,
		CommentsAsOf: r.said.heard, Branches: r.branchFacts(),
	}
	if fact.Off == "" && r.settings.lfs && c.lacksLFS != nil && c.lacksLFS() {
		fact.Off = r.name + " uses Git LFS, and git-lfs is not installed here: install it (apt-get install git-lfs)"
	}
	if fact.Off != "" {
		fact.AsOf = time.Time{}
	}
	return fact
}

// issueFact returns an issue with its blockers. firstEnd is when its first ended pull request ended.
func (c *Client) issueFact(r *repo, i *issue, firstEnd time.Time) forge.Issue {
	fact := i.Issue
	fact.AsOf = later(fact.AsOf, r.asOf)
	if fact.Closed {
		return fact
	}
	fact.HeldBy = c.heldBy(i.Ref, i.Labels, i.Updated)
	fact.Talk = r.talkFact(i.Number, i.Updated)
	read := i.known() || !r.settings.dependencies
	fact.BlockersKnown = read && !fact.Cut && !r.asOf.IsZero() && i.settledPast(firstEnd)
	if read {
		fact.Blockers = c.blockers(i)
	}
	return fact
}

// pullFact returns a pull request with the mergeability and CI of its present head and base. A pull request that
// could not be read is still shown, because it keeps its issue from being started, but in a state in which no work
// can start.
//
// A list of changes confirms everything about a pull request except its mergeability. While the mergeability is
// unknown, AsOf is the time of the last answer about it, so that a conflict needs a second, later answer.
func (c *Client) pullFact(r *repo, p *pull) forge.Pull {
	fact := p.Pull
	if p.Closed {
		fact.AsOf = later(fact.AsOf, r.asOf)
		return fact
	}
	fact.HeldBy = c.heldBy(p.Ref, p.Labels, p.Updated)
	fact.Talk = r.talkFact(p.Number, p.Updated)
	p.authors.fill(&fact)
	fact.Stranger = r.isStranger(c, &p.Pull)
	fact.Mergeable, fact.CI = r.mergeable(p), r.ci(p)
	r.fillRed(p, &fact)
	switch {
	case p.failed:
	case fact.Mergeable == forge.MergeUnknown && !p.Draft:
		fact.AsOf = p.detailsAt
	default:
		fact.AsOf = later(fact.AsOf, r.asOf)
	}
	return fact
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// blockers returns the union of the forge's dependencies, including hidden ones, and the references in the text.
func (c *Client) blockers(i *issue) []forge.Blocker {
	if len(i.native.refs)+len(i.mentioned)+i.native.hidden == 0 {
		return nil
	}
	all := make([]forge.Blocker, 0, len(i.native.refs)+len(i.mentioned)+i.native.hidden)
	for range i.native.hidden {
		all = append(all, forge.Blocker{State: forge.BlockerUnreadable})
	}
	for _, ref := range i.native.refs {
		state := c.blockerState(ref)
		if state == forge.BlockerMissing { // it exists, since the forge lists it
			state = forge.BlockerUnreadable
		}
		all = append(all, forge.Blocker{Ref: ref, State: state})
	}
	for _, ref := range i.mentioned {
		if _, native := slices.BinarySearchFunc(i.native.refs, ref, forge.Ref.Compare); !native {
			all = append(all, forge.Blocker{Ref: ref, State: c.blockerState(ref), InBody: true})
		}
	}
	slices.SortFunc(all, compareBlockers)
	return all
}

func compareBlockers(a, b forge.Blocker) int {
	return cmp.Or(a.Ref.Compare(b.Ref), cmp.Compare(a.State, b.State))
}

// blockerState returns the state of an item from the lists, or from its last single reading if no list contains it.
func (c *Client) blockerState(ref forge.Ref) forge.BlockerState {
	r := c.repo(ref.Repo)
	if r == nil {
		return c.singles[ref].state
	}
	if i := r.issues[ref.Number]; i != nil {
		if !i.Closed {
			return forge.BlockerOpen
		}
		return c.closedState(ref, i.Labels, nil)
	}
	p := r.pulls[ref.Number]
	switch {
	case p == nil:
		return c.singles[ref].state
	case !p.Closed:
		return forge.BlockerOpen
	case p.Has(forge.LabelCancelled):
		return forge.BlockerCancelled
	case c.requireMerged && !p.Merged:
		return forge.BlockerUnmerged
	}
	return forge.BlockerClosed
}
