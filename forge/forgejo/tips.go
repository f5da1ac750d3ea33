package forgejo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// The checks of base branches are read only in repositories with checks: one request for each new commit of a branch
// that open pull requests go to, then every 30 s while they are pending or failed, and every 5 minutes after that.
// The checks of a commit where a failed pull request left its base are read once.

// checks are the statuses of a commit that is no head of a pull request.
type checks struct {
	statuses []forge.Status
	newest   time.Time // the forge's time of the newest status
	seen     time.Time // our clock: when we first asked
	at       time.Time // our clock: when we asked last
}

// red is since when, and by whose merge, a branch is red. The zero value is a branch that is not.
type red struct {
	since time.Time
	by    forge.Ref
	of    string // the commit of which that is known
}

// hasChecks reports whether any commit of the repository that we know of has a check, or needs one.
func (r *repo) hasChecks() bool {
	for _, p := range r.pulls {
		if len(p.statuses) > 0 {
			return true
		}
	}
	for _, b := range r.bases {
		if len(b.required) > 0 || r.commits[b.sha] != nil && len(r.commits[b.sha].statuses) > 0 {
			return true
		}
	}
	return false
}

// branchCI returns the state of a branch's newest commit, and the checks that failed. A commit without a status is
// pending for a minute.
func (r *repo) branchCI(b *base) (state forge.CI, failed []string) {
	k := r.commits[b.sha]
	if k == nil {
		return forge.CIPending, nil
	}
	state, failed = forge.BranchCI(b.required, k.statuses)
	if state == forge.CINone && k.at.Sub(k.seen) < youngHead {
		state = forge.CIPending
	}
	return state, failed
}

// dueCommits returns the commits whose checks must be read, and forgets those that no longer matter.
func (r *repo) dueCommits(now time.Time) (due []string) {
	if !r.hasChecks() {
		return nil
	}
	used, wanted := make(map[string]bool), make(map[string]time.Duration) // by commit: the time between two readings
	for _, p := range r.pulls {
		if p.Closed {
			continue
		}
		used[p.Base] = true
		if b := r.bases[p.Base]; b != nil && r.ci(p) == forge.CIFailure && p.MergeBase != "" && p.MergeBase != b.sha {
			wanted[p.MergeBase] = 24 * time.Hour
		}
	}
	for name, b := range r.bases {
		state, _ := r.branchCI(b)
		switch settled := state == forge.CISuccess || state == forge.CINone; {
		case b.sha == "" || settled && !used[name]:
		case settled:
			wanted[b.sha] = settledEvery
		default:
			wanted[b.sha] = pollEvery
		}
	}
	maps.DeleteFunc(r.commits, func(sha string, _ *checks) bool { return wanted[sha] == 0 && !r.isTip(sha) })
	for sha, every := range wanted {
		if k := r.commits[sha]; k == nil || now.Sub(k.at) >= every {
			due = append(due, sha)
		}
	}
	slices.Sort(due)
	return due
}

func (r *repo) isTip(sha string) bool {
	for _, b := range r.bases {
		if b.sha == sha {
			return true
		}
	}
	return false
}

// readTips reads the checks of the commits that are due, and finds whose merge made a branch red.
func (c *Client) readTips(ctx context.Context, r *repo) error {
	c.mu.Lock()
	due := r.dueCommits(time.Now())
	c.mu.Unlock()
	err := inParallel(ctx, len(due), func(ctx context.Context, n int) error { return c.readStatuses(ctx, r, due[n]) })
	for _, branch := range c.newlyRed(r) {
		if isOutage(err) {
			break
		}
		err = errors.Join(err, c.readCulprit(ctx, r, branch))
	}
	return err
}

func (c *Client) readStatuses(ctx context.Context, r *repo, sha string) error {
	owner, name := owner(r.name)
	id := func(in *gitea.Status) int64 { return in.ID }
	list, x, err := newList(c.connection, id, func(
		g *gitea.Client, page gitea.ListOptions,
	) ([]*gitea.Status, *gitea.Response, error) {
		return g.ListStatuses(owner, name, sha, gitea.ListStatusesOption{ListOptions: page})
	}).all(ctx)
	if errors.Is(err, forge.ErrNotFound) { // the branch was rewritten
		return nil
	}
	if err != nil {
		if isOutage(err) {
			return err
		}
		return fmt.Errorf("%s: checks of %.10s: %w", r.name, sha, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &checks{seen: x.began, at: x.began}
	if old := r.commits[sha]; old != nil {
		k.seen = old.seen
	}
	k.statuses, k.newest = statusesOf(list)
	r.commits[sha] = k
	return nil
}

// newlyRed records which branches are red since when, and returns those whose culprit is not known yet.
func (c *Client) newlyRed(r *repo) (branches []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.bases)) {
		b := r.bases[name]
		switch state, _ := r.branchCI(b); {
		case state == forge.CIPending: // the next commit may repair it
		case state != forge.CIFailure:
			b.red = red{}
		case b.red.since.IsZero():
			b.red = red{since: cmp.Or(r.commits[b.sha].newest, r.commits[b.sha].at)}
			branches = append(branches, name)
		case b.red.of == "":
			branches = append(branches, name)
		}
	}
	return branches
}

// numbered finds the number of a pull request in the first line of its merge commit, in each merge style that has one.
var numbered = regexp.MustCompile(`\(#(\d+)\)`)

// readCulprit finds the pull request whose merge is the newest commit of a red branch. Anyone can write a number into a
// commit, so the pull request has to name the commit, too.
func (c *Client) readCulprit(ctx context.Context, r *repo, branch string) error {
	c.mu.Lock()
	sha := r.bases[branch].sha
	c.mu.Unlock()
	owner, name := owner(r.name)
	g, x := c.sdk(ctx)
	in, _, err := g.GetSingleCommit(owner, name, sha)
	if err = x.end(err); isOutage(err) {
		return err
	}
	var by forge.Ref
	if err == nil && in.RepoCommit != nil {
		line, _, _ := strings.Cut(in.RepoCommit.Message, "\n")
		for _, match := range numbered.FindAllStringSubmatch(line, 2) {
			n, _ := strconv.ParseInt(match[1], 10, 64)
			ref := forge.Ref{Repo: r.name, Number: n}
			p, _, err := c.connection.pull(ctx, ref)
			if isOutage(err) {
				return err
			}
			if err == nil && p != nil && p.HasMerged && p.MergedCommitID != nil && *p.MergedCommitID == sha {
				by = ref
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := r.bases[branch]; b.sha == sha {
		b.red.by, b.red.of = by, sha
	}
	return nil // without a commit to read, nobody is named
}

// branchFacts returns the branches with known checks.
func (r *repo) branchFacts() (list []forge.Branch) {
	for _, name := range slices.Sorted(maps.Keys(r.bases)) {
		if b := r.bases[name]; b.sha != "" && r.commits[b.sha] != nil {
			state, failed := r.branchCI(b)
			list = append(list, forge.Branch{
				Name: name, SHA: b.sha, CI: state, Red: failed, Since: b.red.since, By: b.red.by,
			})
		}
	}
	return list
}

// fillRed fills in which checks of a pull request failed, and which of these fail without its commits.
func (r *repo) fillRed(p *pull, fact *forge.Pull) {
	b := r.bases[p.Base]
	if fact.CI != forge.CIFailure || b == nil {
		return
	}
	_, fact.Red = forge.BranchCI(b.required, p.statuses)
	_, before := r.branchCI(b)
	if k := r.commits[p.MergeBase]; k != nil && p.MergeBase != b.sha {
		_, there := forge.BranchCI(b.required, k.statuses)
		before = append(before, there...)
	}
	for _, name := range fact.Red {
		if slices.Contains(before, name) {
			fact.RedBefore = append(fact.RedBefore, name)
		}
	}
}

// Checked reports whether the newest commit of a repository's default branch has a check, or its protection requires
// one.
func (c *Client) Checked(ctx context.Context, repo string) (bool, error) {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	in, _, err := g.GetRepo(owner, name)
	if err = x.end(err); err != nil {
		return false, fmt.Errorf("cannot read %s: %w", repo, err)
	}
	g, x = c.sdk(ctx)
	branch, _, err := g.GetRepoBranch(owner, name, in.DefaultBranch)
	if err = x.end(err); err != nil {
		return false, fmt.Errorf("cannot read the branch %s of %s: %w", in.DefaultBranch, repo, err)
	}
	if branch.EnableStatusCheck && len(branch.StatusCheckContexts) > 0 || branch.Commit == nil {
		return branch.Commit != nil, nil
	}
	g, x = c.sdk(ctx)
	list, _, err := g.ListStatuses(owner, name, branch.Commit.ID, gitea.ListStatusesOption{})
	return len(list) > 0, x.end(err)
}
