package forgejo

import (
	"context"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// authors records the accounts behind a pull request's commits, and when its base last changed. A commit can name any
// author, so the accounts that pushed count too. The forge records pushes in the timeline, which costs at least two
// requests. So only a look reads it, and a scan that sees a changed base. The cache stores what they read, and a merge
// always needs a look.
type authors struct {
	of         string   // commitsKey of the commits that were read
	commits    []string // author and committer of each commit, where they have an account
	none       bool     // the base contains all of the commits
	base       string   // the commit of the base that the commits start from; see mergeBaseOf
	pushers    []string
	retargeted time.Time
	pastFrom   time.Time // the forge's clock: the newest entry of the timeline that was read
	moved      bool      // the base changed since the timeline was read, which says when
}

// commitsKey identifies the commits of a pull request: those between base and head. The forge's merge base is part of
// it, although it may be that of the head before, because it shows that the base was rewritten. The base moves all the
// time, but a moved base matters only if it contains all these commits: the forge may have left a merge unfinished.
// That is checked only once all issues of the pull request are closed; only then is the base's commit part of the key.
func (c *Client) commitsKey(r *repo, p *pull) string {
	if p.HeadSHA == "" || p.Base == "" { // not read yet
		return p.authors.of
	}
	key := p.HeadSHA + " " + p.Base + " " + p.MergeBase
	if b := r.bases[p.Base]; b != nil && len(p.Closes) > 0 && !slices.ContainsFunc(p.Closes, c.isOpen) {
		key += " " + b.sha
	}
	return key
}

// readCommits reads the accounts of the commits, unless the cache has them.
func (c *Client) readCommits(ctx context.Context, r *repo, number int64) error {
	c.mu.Lock()
	key := ""
	if p := r.pulls[number]; p != nil && !p.Closed {
		if key = c.commitsKey(r, p); key == p.authors.of {
			key = ""
		}
	}
	c.mu.Unlock()
	if key == "" {
		return nil
	}
	// Forgejo computes this list for each request, but the merge base only some time after a push.
	in, _, err := c.commits(forge.Ref{Repo: r.name, Number: number}).all(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, one := range in {
		if one != nil {
			names = append(names, loginOf(one.Author), loginOf(one.Committer))
		}
	}
	c.update(r, number, func(p *pull) {
		if key == c.commitsKey(r, p) {
			p.authors.of, p.authors.commits, p.authors.none = key, names, len(in) == 0
			p.authors.base = mergeBaseOf(in)
		}
	})
	return nil
}

// mergeBaseOf returns the newest commit outside a list of commits, newest first, that one of them has as a parent; ""
// if there is none. The forge's own merge base is that of the former head for seconds after a push: with it a review of
// the new head was paid for twice.
func mergeBaseOf(in []*gitea.Commit) string {
	inside := make(map[string]bool)
	for _, one := range in {
		if one != nil && one.CommitMeta != nil {
			inside[one.SHA] = true
		}
	}
	for _, one := range in {
		if one == nil {
			continue
		}
		for _, parent := range one.Parents {
			if parent != nil && !inside[parent.SHA] {
				return parent.SHA
			}
		}
	}
	return ""
}

// readPast reads the timeline since the last reading: which accounts pushed, and when the base changed. If need is
// false, it reads only when the base has changed.
func (c *Client) readPast(ctx context.Context, r *repo, number int64, need bool) error {
	c.mu.Lock()
	p := r.pulls[number]
	if p == nil || p.Closed || !need && !p.authors.moved {
		c.mu.Unlock()
		return nil
	}
	since := p.authors.pastFrom
	c.mu.Unlock()
	events, err := c.timeline(ctx, past{Ref: forge.Ref{Repo: r.name, Number: number}, since: since})
	if err != nil {
		return err
	}
	c.update(r, number, func(p *pull) {
		a := &p.authors
		a.moved = false
		for n := range events {
			switch e := events[n]; e.Type {
			case "pull_push":
				a.pushers = append(slices.Clone(a.pushers), loginOf(e.User))
			case "change_target_branch":
				a.retargeted = later(a.retargeted, e.Created)
			}
			a.pastFrom = later(a.pastFrom, events[n].Created)
		}
		slices.Sort(a.pushers)
		a.pushers = slices.Compact(a.pushers)
	})
	return nil
}

// fill adds the authors to the fact of an open pull request.
func (a *authors) fill(fact *forge.Pull) {
	none := a.none && strings.HasPrefix(a.of, fact.HeadSHA)
	if a.base != "" && strings.HasPrefix(a.of, fact.HeadSHA+" "+fact.Base+" ") {
		fact.MergeBase = a.base
	}
	fact.Contained = fact.HeadSHA != "" && (fact.MergeBase == fact.HeadSHA || none)
	fact.Retargeted = a.retargeted
	names := slices.DeleteFunc(slices.Concat(a.commits, a.pushers), func(login string) bool { return login == "" })
	slices.Sort(names)
	fact.Coders = slices.Compact(names)
}
