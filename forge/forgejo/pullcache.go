package forgejo

import (
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// pollEvery is how often the commit statuses and the mergeability of an open pull request are read. A change of
	// them does not change updated_at.
	pollEvery = 30 * time.Second
	// conflictAfter is how long the forge must report "not mergeable", for one head and base, until it counts as a
	// conflict. Forgejo and Gitea checked within 0.2 to 3.6 s after a merge.
	conflictAfter = 10 * time.Second
	// lateCheck is how long the mergeability is read again after the head or the base moved. Until Forgejo has begun its
	// conflict check, about a second later, it answers with the new commits and the old mergeability.
	lateCheck = 30 * time.Second
	// youngHead is how long a head without statuses is polled: CI needs a moment until its first report.
	youngHead = time.Minute
	// settledEvery and baseEvery are how often a settled pull request and a base branch are re-read.
	settledEvery = 5 * time.Minute
	baseEvery    = 2 * time.Minute
)

// pull is a pull request with the record of its readings.
type pull struct {
	forge.Pull   // without CI and Mergeable, which the method facts adds
	baseSHA      string
	clean        bool
	statuses     []forge.Status
	authors      authors
	headSeen     time.Time // our clock: when this head was first seen
	moved        time.Time // our clock: when head or base was first seen to have moved; zero once mergeability is current
	detailsAt    time.Time // our clock: when the request for the details began
	statusAt     time.Time
	tried        time.Time // our clock: the last try to read it, successful or not
	detailsFrom  time.Time // the forge's clock: when the request for the details began
	readAt       time.Time // detailsFrom of the last complete reading, with reviews and statuses; zero before the first
	failed       bool      // the last try failed
	closer       bool      // ClosedBy was read
	closerFailed failure
	ended        time.Time // our clock: when we saw it ended
}

// base is the base branch of pull requests.
type base struct {
	required []string  // contexts that must succeed before a merge
	sha      string    // commit of the branch; "" once we know that the branch has moved
	moved    time.Time // our clock: when we saw a merge move the branch
	red      red
	readAt   time.Time // our clock; zero before the first reading
}

// applyListedPull stores a pull request from the list of issues, which contains no branches.
func (c *Client) applyListedPull(r *repo, in *gitea.Issue, began time.Time) {
	p := r.pulls[in.Index]
	closed := in.State == gitea.StateClosed
	if p == nil {
		if closed && !c.wantEnded(r, in) {
			return
		}
		p = &pull{}
		p.Ref = forge.Ref{Repo: r.name, Number: in.Index}
		r.pulls[in.Index] = p
	} else if p.AsOf.After(began) {
		return
	}
	i := issueOf(r.name, in, began)
	p.Title, p.Body, p.Author, p.Labels, p.Assignees = i.Title, i.Body, i.Author, i.Labels, i.Assignees
	p.Created, p.Updated, p.AsOf = i.Created, i.Updated, began
	p.Draft = forge.IsDraft(p.Title, p.Draft)
	p.Closes = c.closes(&p.Pull)
	end := timeOf(in.Closed)
	if in.PullRequest.HasMerged {
		end = timeOf(in.PullRequest.Merged)
	}
	r.markEnd(p, closed, in.PullRequest.HasMerged, end, began)
}

// wantEnded reports whether an ended pull request that is not in the cache matters: it ended since the last scan, or
// its text names an open issue.
func (c *Client) wantEnded(r *repo, in *gitea.Issue) bool {
	if r.asOf.IsZero() {
		return false // readColdPulls reads them
	}
	if end := timeOf(in.Closed); !end.Before(r.since) {
		return true
	}
	return slices.ContainsFunc(forge.Closes("", in.Title, in.Body, r.name), c.isOpen)
}

// isOpen reports whether ref is an open issue in the cache.
func (c *Client) isOpen(ref forge.Ref) bool {
	r := c.repo(ref.Repo)
	if r == nil {
		return false
	}
	i := r.issues[ref.Number]
	return i != nil && !i.Closed
}

func (c *Client) closes(p *forge.Pull) []forge.Ref {
	refs := forge.Closes(p.Head, p.Title, p.Body, p.Repo)
	for n, ref := range refs {
		refs[n] = c.canonical(ref)
	}
	slices.SortFunc(refs, forge.Ref.Compare)
	return slices.Compact(refs)
}

// markEnd records whether the pull request is open. A merge moves the base, so it makes the known mergeability of other
// pull requests outdated.
func (r *repo) markEnd(p *pull, closed, merged bool, end, began time.Time) {
	switch {
	case closed && !p.Closed:
		p.ended, p.closer, p.ClosedBy = began, false, ""
		if b := r.bases[p.Base]; merged && b != nil {
			b.sha, b.moved = "", began
		}
	case !closed:
		p.ended, end, p.ClosedBy = time.Time{}, time.Time{}, ""
	}
	p.Closed, p.Merged, p.Ended = closed, merged, end
}

// applyDetails stores the answer to a request for the pull request itself. A new head drops the statuses of the old
// one.
func (c *Client) applyDetails(r *repo, in *gitea.PullRequest, x *exchange) {
	began := x.began
	p := r.pulls[in.Index]
	if p == nil {
		p = &pull{}
		r.pulls[in.Index] = p
	} else if p.AsOf.After(began) {
		return
	}
	old := *p
	p.Pull = pullOf(r.name, in, began)
	p.Closes = c.closes(&p.Pull)
	p.Reviews, p.CISince, p.ClosedBy = old.Reviews, old.CISince, old.ClosedBy
	p.Closed, p.Merged = old.Closed, old.Merged
	r.markEnd(p, in.State == gitea.StateClosed, in.HasMerged, p.Ended, began)
	p.detailsAt, p.detailsFrom = began, x.forgeBegan()
	if in.Base != nil {
		p.baseSHA = in.Base.Sha
		r.baseStands(p.Base, p.baseSHA)
	}
	p.authors.moved = old.authors.moved || old.Base != "" && p.Base != old.Base
	newHead := p.HeadSHA != old.HeadSHA
	if newHead {
		p.headSeen, p.statuses, p.CISince, p.statusAt = began, nil, time.Time{}, time.Time{}
	}
	p.clean = in.Mergeable
	switch moved := old.baseSHA != "" && (newHead || p.baseSHA != old.baseSHA); {
	case !p.clean: // the conflict check has begun, so that "mergeable" comes after it
		p.moved = time.Time{}
	case moved:
		p.moved = began
	}
	switch {
	case p.clean || p.Draft || p.Closed: // Forgejo reports every draft as "not mergeable"
		p.ConflictSince = time.Time{}
	case !old.ConflictSince.IsZero() && !newHead && p.baseSHA == old.baseSHA:
		p.ConflictSince = old.ConflictSince
	default:
		p.ConflictSince = began
	}
}

func (r *repo) baseStands(branch, sha string) {
	b := r.bases[branch]
	if b == nil {
		b = &base{}
		r.bases[branch] = b
	}
	b.sha = sha
}

// mergeable returns the mergeability of the present head and base. "not mergeable" counts only after conflictAfter.
func (r *repo) mergeable(p *pull) forge.Mergeability {
	b := r.bases[p.Base]
	switch {
	case p.Closed || p.Draft || p.readAt.IsZero() || b == nil || b.sha != p.baseSHA:
		return forge.MergeUnknown
	case p.clean:
		return forge.MergeClean
	case p.detailsAt.Sub(p.ConflictSince) >= conflictAfter:
		return forge.MergeNotClean
	}
	return forge.MergeUnknown
}

// ci returns the state of the head's checks; pending until statuses and base have been read.
func (r *repo) ci(p *pull) forge.CI {
	b := r.bases[p.Base]
	if b == nil || b.readAt.IsZero() || p.statusAt.IsZero() {
		return forge.CIPending
	}
	return forge.CombineCI(b.required, p.statuses)
}

// showEnded reports whether an ended pull request is still shown: one of its issues is open, or it ended recently.
func (p *pull) showEnded(c *Client, now time.Time) bool {
	return now.Sub(p.ended) < keepEnded || slices.ContainsFunc(p.Closes, c.isOpen)
}
