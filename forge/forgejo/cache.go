package forgejo

import (
	"cmp"
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// This file and pullcache.go hold the cache, and the functions that apply the forge's answers to it. They make no
// request. Client.mu guards the whole cache. Of two answers about one item, the one whose request began later wins.

// keepEnded is how long an ended item is still shown, so that a session on it sees the end.
const keepEnded = time.Hour

// granularity is the resolution of the forge's times. An answer from the same second as a change can lack another
// change from that second.
const granularity = time.Second

// repo is the cache of one repository.
type repo struct {
	name    string    // immutable
	pause   pause     // accessed only by the scan
	sweepAt time.Time // our clock: when the next sweep of abandoned claims is due; accessed only by the scan

	settings settings
	moved    bool // an answer came from another address: the settings say where the repository is now
	writers  writers
	said     said
	asOf     time.Time        // our clock: when the request for the last complete scan's list began; zero before the first
	fullAt   time.Time        // our clock: when the last listing of all open items began
	since    time.Time        // the forge's clock: where the next list of changes begins
	issues   map[int64]*issue // written by put and drop
	named    int              // the references in the texts of all issues
	pulls    map[int64]*pull
	bases    map[string]*base // by branch name
	commits  map[string]*checks
	talks    map[int64]*talk // by number: the items whose labels require that their comments are read
}

func newRepo(name string) *repo {
	return &repo{
		name: name, issues: map[int64]*issue{}, pulls: map[int64]*pull{}, bases: map[string]*base{},
		commits: map[string]*checks{},
	}
}

// issue is an issue with the readings of its parts.
type issue struct {
	forge.Issue             // without Blockers, which the method facts adds
	mentioned   []forge.Ref // blockers named in the issue's text
	native      dependencies
	history     history
	ended       time.Time // our clock: when we saw it closed; zero if it is open, or was closed in our first reading
}

// dependencies are the dependencies of an issue that are set on the forge.
type dependencies struct {
	refs   []forge.Ref
	hidden int       // number of dependencies that the forge hides from us
	of     time.Time // the issue's Updated when they were read
	readAt time.Time // the forge's clock; zero before the first time
	failed failure   // the last failed try
}

// failure is a failed try: its time by our clock, and the item's Updated at that time. The next try waits for
// triedEvery, or until the item changes.
type failure struct{ at, of time.Time }

func (f failure) recent(now, of time.Time) bool { return f.of.Equal(of) && now.Sub(f.at) < triedEvery }

// known reports whether the dependencies were read after the issue's last change.
func (i *issue) known() bool { return !i.native.readAt.IsZero() && i.native.of.Equal(i.Updated) }

// settled reports whether the dependencies cannot change again without a new Updated of the issue.
func (i *issue) settled() bool {
	return i.known() && !i.native.readAt.Before(i.Updated.Add(granularity))
}

// applyIssue stores an issue from any answer. A closed issue that is not in the cache is dropped, unless keep is set
// because another item refers to it.
func (c *Client) applyIssue(r *repo, in forge.Issue, keep bool) {
	old := r.issues[in.Number]
	if old != nil && old.AsOf.After(in.AsOf) {
		return
	}
	delete(c.singles, in.Ref)
	if old == nil && in.Closed && !keep {
		return
	}
	now := &issue{Issue: in, mentioned: c.mentionedIn(in)}
	now.Body = "" // nothing else in it matters here
	if old != nil {
		now.native, now.history, now.ended, now.Reopened = old.native, old.history, old.ended, old.Reopened
	}
	switch {
	case !in.Closed:
		now.ended = time.Time{}
	case old != nil && !old.Closed:
		now.ended = in.AsOf
	}
	r.put(now)
}

// put stores an issue. References beyond the bound of a repository are not stored: the issue counts as cut, because any
// of them may be a blocker.
func (r *repo) put(i *issue) {
	if old := r.issues[i.Number]; old != nil {
		r.named -= len(old.mentioned)
	}
	if r.named+len(i.mentioned) > mostNamedInAll {
		i.mentioned, i.Cut = nil, true
	}
	r.named += len(i.mentioned)
	r.issues[i.Number] = i
}

// drop removes an issue.
func (r *repo) drop(number int64) {
	if old := r.issues[number]; old != nil {
		r.named -= len(old.mentioned)
	}
	delete(r.issues, number)
}

func (c *Client) mentionedIn(in forge.Issue) []forge.Ref {
	refs := forge.Dependencies(in.Body, in.Ref)
	for n, ref := range refs {
		refs[n] = c.canonical(ref)
	}
	slices.SortFunc(refs, forge.Ref.Compare)
	return slices.Compact(refs)
}

// applyListed stores one entry of a list, which can contain both issues and pull requests.
func (c *Client) applyListed(r *repo, in *gitea.Issue, began time.Time) {
	if in == nil {
		return // the forge cannot load this item
	}
	r.said.changedAt = later(r.said.changedAt, in.Updated)
	if in.PullRequest == nil {
		c.applyIssue(r, issueOf(r.name, in, began), false)
		return
	}
	delete(c.singles, forge.Ref{Repo: r.name, Number: in.Index})
	c.applyListedPull(r, in, began)
}

// listing is a list of issues and pull requests, with the time at which its request began.
type listing struct {
	items []*gitea.Issue
	began time.Time
}

// applyFull replaces the open items with a complete listing and the changes that were read after it. An item in neither
// was deleted or transferred, which no list of changes shows. An entry that the forge could not load can be any item,
// so if there is one, no item is removed.
func (c *Client) applyFull(r *repo, open, changed listing) {
	listed, newer := map[int64]bool{}, map[int64]bool{}
	for _, in := range changed.items {
		if in == nil {
			listed[0] = true
			continue
		}
		c.applyListed(r, in, changed.began)
		listed[in.Index], newer[in.Index] = true, true
	}
	// The oldest first: if the texts name more than is stored, the newest issues count as cut.
	slices.SortFunc(open.items, byNumber)
	for _, in := range open.items {
		if in == nil {
			listed[0] = true
			continue
		}
		if listed[in.Index] = true; !newer[in.Index] {
			c.applyListed(r, in, open.began)
		}
	}
	if listed[0] {
		return
	}
	for n, i := range r.issues {
		if !i.Closed && !listed[n] && !i.AsOf.After(open.began) {
			r.drop(n)
		}
	}
	for n, p := range r.pulls {
		if !p.Closed && !listed[n] && !p.AsOf.After(open.began) {
			delete(r.pulls, n)
		}
	}
	c.forgetLost(r)
}

// byNumber orders the entries of a list by their number; those that could not be read come first.
func byNumber(a, b *gitea.Issue) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(a.Index, b.Index)
}

// forgetLost drops dependencies that can have changed without a change of the issue: those on a deleted item, because
// the deletion removed them, and those that were hidden from us.
func (c *Client) forgetLost(r *repo) {
	for _, i := range r.issues {
		lost := slices.ContainsFunc(i.native.refs, func(ref forge.Ref) bool {
			_, asked := c.singles[ref]
			return ref.Repo == r.name && !asked && !c.isListed(ref)
		})
		if lost || i.native.hidden > 0 {
			i.native = dependencies{}
		}
	}
	for ref := range c.singles {
		if ref.Repo == r.name {
			delete(c.singles, ref)
		}
	}
}

// prune drops ended items that no open item refers to.
func (c *Client) prune(r *repo, now time.Time) {
	used := c.referredTo()
	for n, i := range r.issues {
		if i.Closed && !used[i.Ref] && now.Sub(i.ended) > keepEnded {
			r.drop(n)
		}
	}
	for n, p := range r.pulls {
		if p.Closed && !p.showEnded(c, now) && !slices.ContainsFunc(p.Closes, func(ref forge.Ref) bool { return used[ref] }) {
			delete(r.pulls, n)
		}
	}
}

// referredTo returns all blockers of open issues, and the issues of open pull requests. A closed issue is stored as
// long as a pull request for it is open, because the scheduler then leaves that pull request alone.
func (c *Client) referredTo() map[forge.Ref]bool {
	used := map[forge.Ref]bool{}
	for _, r := range c.repos {
		for _, i := range r.issues {
			if i.Closed {
				continue
			}
			for _, ref := range i.mentioned {
				used[ref] = true
			}
			for _, ref := range i.native.refs {
				used[ref] = true
			}
		}
		for _, p := range r.pulls {
			if p.Closed {
				continue
			}
			for _, ref := range p.Closes {
				used[ref] = true
			}
		}
	}
	return used
}
