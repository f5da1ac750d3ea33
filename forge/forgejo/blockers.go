package forgejo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// batch is how many dependency lists, and how many single blockers, the first of a series of scans reads. That is
	// enough to find an issue to start, and few enough that the start does not wait until ten thousand issues have been
	// read. Each further scan of the series reads twice as many, up to mostBatch: the supervisor decides about all issues
	// after each scan, and 313 decisions about ten thousand issues took five times as long as all requests. mostBatch
	// takes eight seconds on a forge that answers in 30 ms; until then no change is seen.
	batch     = 32
	mostBatch = 1024
	// singleEvery is how often a blocker that is in no list is re-read. closedEvery is the same for a closed blocker,
	// which matters again only when it is reopened.
	singleEvery = time.Minute
	closedEvery = time.Hour
	// triedEvery is the least time between two tries of a reading that failed.
	triedEvery = 30 * time.Second
	// mostAsked is how many blockers of one issue are read one by one. The others stay unknown: an account that can
	// edit a text must not cause a request for each number in it.
	mostAsked = 100
)

// single is the state of an item that none of our lists contains.
type single struct {
	state forge.BlockerState
	at    time.Time
}

func (s single) due(now time.Time) bool {
	if s.state == forge.BlockerClosed || s.state == forge.BlockerCancelled {
		return now.Sub(s.at) >= closedEvery
	}
	return now.Sub(s.at) >= singleEvery
}

// readBlockers reads the next dependencies, blockers and histories in dispatch order. more reports whether some are
// left unread.
func (c *Client) readBlockers(ctx context.Context) (more bool, err error) {
	now, batch := time.Now(), max(batch, c.batch)
	defer func() {
		if c.batch = 0; more {
			c.batch = min(2*batch, mostBatch)
		}
	}()
	c.mu.Lock()
	unknown, unsettled := c.unread(now)
	c.mu.Unlock()
	some := slices.Concat(unknown, unsettled)
	some = some[:min(len(some), batch)]
	err = inParallel(ctx, len(some), func(ctx context.Context, n int) error {
		return c.readDependencies(ctx, some[n])
	})
	if isOutage(err) {
		return true, err
	}
	c.mu.Lock()
	refs := c.unresolved(now)
	histories := c.unreadHistories(now)
	c.mu.Unlock()
	more = len(unknown) > batch || len(refs) > batch
	refs = refs[:min(len(refs), batch)]
	unread := inParallel(ctx, len(refs)+len(histories), func(ctx context.Context, n int) error {
		if n < len(refs) {
			return c.readSingle(ctx, refs[n])
		}
		return c.readHistory(ctx, histories[n-len(refs)])
	})
	if isOutage(unread) {
		return true, unread
	}
	return more, errors.Join(err, unread)
}

// wantsBlockers reports whether the issue's blockers matter: the issue can be dispatched, it is a convoy, which can
// stage its members, or its pull request is merged, and it cannot be closed before its blockers.
func (c *Client) wantsBlockers(i *issue, underWay, merged map[forge.Ref]bool) bool {
	if i.Closed {
		return false
	}
	return i.Has(forge.LabelConvoy) || merged[i.Ref] || c.dispatchable(i) && !underWay[i.Ref]
}

// dispatchable reports whether the issue's labels and assignees allow its dispatch.
func (c *Client) dispatchable(i *issue) bool {
	reach := c.ours
	if c.moves != nil && c.moves() {
		reach = c.isAgent
	}
	return !i.Closed && i.Has(forge.LabelBacklog) && forge.SkipLabel(i.Labels) == "" &&
		!slices.ContainsFunc(i.Assignees, func(login string) bool { return !reach(login) })
}

// worked returns the issues that some open pull request closes, and those that a merged one closes.
func (c *Client) worked() (underWay, merged map[forge.Ref]bool) {
	underWay, merged = map[forge.Ref]bool{}, map[forge.Ref]bool{}
	for _, r := range c.repos {
		for _, p := range r.pulls {
			for _, ref := range p.Closes {
				switch {
				case p.Merged:
					merged[ref] = true
				case !p.Closed:
					underWay[ref] = true
				}
			}
		}
	}
	return underWay, merged
}

// wanted lists the issues whose blockers must be read, in dispatch order: convoys first, because they hold other
// issues.
func (c *Client) wanted(keep func(*repo, *issue) bool) []forge.Ref {
	type candidate struct {
		forge.Ref
		class   int
		created time.Time
	}
	var all []candidate
	underWay, merged := c.worked()
	for _, r := range c.repos {
		if r.asOf.IsZero() {
			continue
		}
		for _, i := range r.issues {
			if !c.wantsBlockers(i, underWay, merged) || !keep(r, i) {
				continue
			}
			class := 0
			if !i.Has(forge.LabelConvoy) {
				class = forge.Priority(i.Labels)
			}
			all = append(all, candidate{i.Ref, class, i.Created})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.class, b.class), a.created.Compare(b.created), a.Ref.Compare(b.Ref))
	})
	refs := make([]forge.Ref, len(all))
	for n, one := range all {
		refs[n] = one.Ref
	}
	return refs
}

// unread lists the issues whose dependencies must be read. An issue in unknown is held until its dependencies have
// been read. The dependencies of an issue in unsettled were read in the same second as its last change, and another
// change may have followed in that second.
func (c *Client) unread(now time.Time) (unknown, unsettled []forge.Ref) {
	keep := func(r *repo, i *issue) bool {
		return r.settings.dependencies && !i.settled() && !i.native.failed.recent(now, i.Updated)
	}
	for _, ref := range c.wanted(keep) {
		if c.repo(ref.Repo).issues[ref.Number].known() {
			unsettled = append(unsettled, ref)
		} else {
			unknown = append(unknown, ref)
		}
	}
	return unknown, unsettled
}

// readDependencies reads the forge's own dependencies of one issue.
func (c *Client) readDependencies(ctx context.Context, ref forge.Ref) error {
	r := c.repo(ref.Repo)
	c.mu.Lock()
	i := r.issues[ref.Number]
	if i == nil {
		c.mu.Unlock()
		return nil
	}
	updated := i.Updated
	c.mu.Unlock()
	in, x, err := c.dependencies(ref).all(ctx)
	if isOutage(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.applyDependencies(r, ref.Number, in, updated, x)
		return nil
	}
	if i = r.issues[ref.Number]; i != nil {
		i.native.failed = failure{time.Now(), updated}
	}
	if errors.Is(err, forge.ErrNotFound) { // the issue is gone, or dependencies were switched off in its repository
		if time.Since(r.fullAt) >= fullAgain {
			r.fullAt = time.Time{}
		}
		return nil
	}
	return fmt.Errorf("dependencies of %s: %w", ref, err)
}

// applyDependencies stores an issue's list of dependencies, which includes the blockers' states. In an entry that the
// forge hides from us all fields are empty; if we can write to the issue, the entry has a number, but still no date.
func (c *Client) applyDependencies(r *repo, number int64, in []*gitea.Issue, updated time.Time, x *exchange) {
	native := dependencies{of: updated, readAt: x.forgeBegan()}
	for _, dep := range in {
		if dep == nil || dep.Repository == nil {
			native.hidden++
			continue
		}
		ref := c.canonical(forge.Ref{Repo: dep.Repository.FullName, Number: dep.Index})
		native.refs = append(native.refs, ref)
		if dep.Created.Unix() <= 0 {
			c.singles[ref] = single{forge.BlockerUnreadable, x.began}
			continue
		}
		c.applySingle(ref, dep, x.began)
	}
	slices.SortFunc(native.refs, forge.Ref.Compare)
	if i := r.issues[number]; i != nil { // looked up after the loop, because an issue can depend on itself
		i.native = native
	}
}

// applySingle stores an item that was read on its own or in a list of dependencies.
func (c *Client) applySingle(ref forge.Ref, in *gitea.Issue, began time.Time) {
	if r := c.repo(ref.Repo); r != nil && in.PullRequest == nil {
		c.applyIssue(r, issueOf(r.name, in, began), true)
		return
	}
	state := forge.BlockerOpen
	if in.State == gitea.StateClosed {
		state = c.closedState(ref, labelNames(in.Labels), in.PullRequest)
	}
	c.singles[ref] = single{state, began}
}

// closedState returns the state of a closed blocker. meta is nil unless the blocker is a pull request.
func (c *Client) closedState(ref forge.Ref, labels []string, meta *gitea.PullRequestMeta) forge.BlockerState {
	switch {
	case slices.Contains(labels, forge.LabelCancelled):
		return forge.BlockerCancelled
	case c.requireMerged && meta != nil && !meta.HasMerged:
		return forge.BlockerUnmerged
	case c.requireMerged && meta == nil && c.endedUnmerged(ref):
		return forge.BlockerUnmerged
	}
	return forge.BlockerClosed
}

// endedUnmerged reports whether an issue had pull requests and none of them was merged. It knows the pull requests of
// scanned repositories that are open, or that ended after the oldest issue of the backlog was filed. An issue that was
// closed without a pull request counts as done: a person closed it.
func (c *Client) endedUnmerged(ref forge.Ref) bool {
	found := false
	for _, r := range c.repos {
		for _, p := range r.pulls {
			if !slices.Contains(p.Closes, ref) {
				continue
			}
			if p.Merged {
				return false
			}
			found = true
		}
	}
	return found
}

// unresolved lists the items that must be read one by one: first the closed issues of our agents' open pull
// requests, then blockers, in the dispatch order of the issues that wait for them.
func (c *Client) unresolved(now time.Time) []forge.Ref {
	open := func(ref forge.Ref) bool {
		if c.isListed(ref) {
			return false
		}
		s, ok := c.singles[ref]
		return !ok || s.state == forge.BlockerUnknown && now.Sub(s.at) >= triedEvery || c.repo(ref.Repo) == nil && s.due(now)
	}
	var refs []forge.Ref
	seen := map[forge.Ref]bool{}
	few := func(i *issue) []forge.Ref {
		all := i.waitsFor()
		return all[:min(len(all), mostAsked)]
	}
	add := func(some []forge.Ref) {
		for _, ref := range some {
			if !seen[ref] && open(ref) {
				refs = append(refs, ref)
			}
			seen[ref] = true
		}
	}
	for _, r := range c.repos {
		for _, n := range slices.Sorted(maps.Keys(r.pulls)) {
			if p := r.pulls[n]; !p.Closed && c.ours(p.Author) {
				scanned := slices.DeleteFunc(slices.Clone(p.Closes), func(ref forge.Ref) bool { return c.repo(ref.Repo) == nil })
				add(scanned[:min(len(scanned), mostAsked)])
			}
		}
	}
	for _, ref := range c.wanted(func(_ *repo, i *issue) bool { return slices.ContainsFunc(few(i), open) }) {
		add(few(c.repo(ref.Repo).issues[ref.Number]))
	}
	return refs
}

// waitsFor returns all blockers of the issue, without duplicates.
func (i *issue) waitsFor() []forge.Ref {
	if len(i.native.refs) == 0 {
		return i.mentioned
	}
	refs := slices.Concat(i.native.refs, i.mentioned)
	slices.SortFunc(refs, forge.Ref.Compare)
	return slices.Compact(refs)
}

// isListed reports whether the lists of a scanned repository contain the item.
func (c *Client) isListed(ref forge.Ref) bool {
	r := c.repo(ref.Repo)
	return r != nil && (r.issues[ref.Number] != nil || r.pulls[ref.Number] != nil)
}

// readSingle reads the state of one item. A missing or hidden item has a state too.
func (c *Client) readSingle(ctx context.Context, ref forge.Ref) error {
	in, x, err := c.askIssue(ctx, ref)
	if isOutage(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, forge.ErrNotFound):
		c.singles[ref] = single{forge.BlockerMissing, time.Now()}
		return nil
	case errors.Is(err, forge.ErrForbidden):
		c.singles[ref] = single{forge.BlockerUnreadable, time.Now()}
		return nil
	case err != nil:
		c.singles[ref] = single{forge.BlockerUnknown, time.Now()}
		return fmt.Errorf("blocker %s: %w", ref, err)
	}
	c.applySingle(ref, in, x.began)
	return nil
}
