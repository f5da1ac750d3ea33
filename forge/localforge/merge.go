package localforge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

var mergeRoutes = []route{
	{"POST /repos/{owner}/{repo}/pulls/{number}/update", scopeRepository, signedIn, 200, updatePull, runsGit},
	{"POST /repos/{owner}/{repo}/pulls/{number}/merge", scopeRepository, signedIn, 200, mergePull, runsGit},
}

// mergeStyles are in the order of editRepo's list.
var mergeStyles = []string{"merge", "rebase", "rebase-merge", "squash", "fast-forward-only"}

// errConflict means that the two sides conflict.
var errConflict = errors.New("merge conflict")

type mergeForm struct {
	Do           string
	MergeTitle   string `json:"MergeTitleField"`
	MergeMessage string `json:"MergeMessageField"`
	HeadCommitID string `json:"head_commit_id"`
	ForceMerge   bool   `json:"force_merge"`
	DeleteBranch bool   `json:"delete_branch_after_merge"`
}

// mayMerge checks what prevents a merge, in Forgejo's order.
func (c *call) mayMerge(i *issue, form mergeForm) error {
	p, rule := i.pull, c.repo.protectionOf(i.pull.base)
	refuse := func(why string) error { return fail(http.StatusMethodNotAllowed, "%s", why) }
	switch {
	case p.merged:
		return refuse("")
	case i.closed:
		return notFound()
	case !rule.mayMerge(c.doer, c.access):
		return refuse("User not allowed to merge PR")
	case i.draft():
		return refuse("Work in progress PRs cannot be merged")
	case p.check != mergeable && p.check != nothing:
		return refuse("Please try again later")
	}
	skipRule := form.ForceMerge && c.access >= accessAdmin
	if why := c.repo.unmet(rule, i); why != "" && !skipRule {
		return refuse("not allowed to merge [reason: " + why + "]")
	}
	if rule != nil && rule.RequireSignedCommits { // this forge has no key
		return refuse("won't sign: nokey")
	}
	if i.blocked() {
		return fail(http.StatusInternalServerError, "is blocked by an open dependency")
	}
	if form.HeadCommitID != "" && form.HeadCommitID != p.headSHA {
		return fail(http.StatusConflict, "head out of date")
	}
	return nil
}

// wireConflict is the answer to a merge with a conflict, which has no message. CommitSHA is the commit that does not
// rebase.
type wireConflict struct {
	Style, StdOut, StdErr string
	CommitSHA             string `json:",omitempty"`
}

// rebaseConflict is the commit that does not rebase. errors.Is reports it as errConflict.
type rebaseConflict string

func (e rebaseConflict) Error() string { return errConflict.Error() }
func (e rebaseConflict) Unwrap() error { return errConflict }

// merging is a merge that was planned under the lock.
type merging struct {
	on         *issue
	base, head string // commits
	style      string
	message    string
	by         *user
}

func mergePull(c *call) (any, error) {
	var form mergeForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if form.Do == "" {
		return nil, missing("Do")
	}
	if !slices.Contains(mergeStyles, form.Do) {
		return nil, fail(http.StatusUnprocessableEntity, "[Do]: In")
	}
	ctx := context.WithoutCancel(c.r.Context()) // a client that disconnects must not leave half a merge
	var m merging
	var commit string
	err := c.f.move(ctx, c.view, c.repo, func() (err error) {
		// The merge is planned under the repository's lock, so that the second of two concurrent merges sees the first.
		if m, err = c.planMerge(form); err != nil {
			return err
		}
		commit, err = c.f.merge(ctx, c.repo, m)
		return err
	}, func() { c.merged(m.on, commit) })
	if errors.Is(err, errConflict) {
		at, _ := errors.AsType[rebaseConflict](err)
		return nil, &refusal{status: http.StatusConflict, conflict: &wireConflict{
			Style: form.Do, StdErr: err.Error(), CommitSHA: string(at),
		}}
	}
	if err != nil {
		return nil, err
	}
	if form.DeleteBranch {
		return nil, c.deleteMergedBranch(ctx, m.on)
	}
	return nil, nil
}

func (c *call) planMerge(form mergeForm) (merging, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	i, err := c.pathPull()
	if err != nil {
		return merging{}, err
	}
	if err := c.mayMerge(i, form); err != nil {
		return merging{}, err
	}
	if slices.Contains(c.repo.noStyles, form.Do) {
		return merging{}, fail(http.StatusMethodNotAllowed,
			"%s is not allowed an allowed merge style for this repository", form.Do)
	}
	p := i.pull
	title := strings.TrimSpace(form.MergeTitle)
	if title == "" {
		title = fmt.Sprintf("Merge pull request '%s' (#%d) from %s into %s", i.title, i.number, p.head, p.base)
		if form.Do == "squash" {
			title = fmt.Sprintf("%s (#%d)", i.title, i.number)
		}
	}
	message := title
	if extra := strings.TrimSpace(form.MergeMessage); extra != "" {
		message += "\n\n" + extra
	}
	return merging{on: i, base: c.repo.branch(p.base), head: p.headSHA, style: form.Do, message: message, by: c.doer}, nil
}

// updatePull merges the base branch into the head branch.
func updatePull(c *call) (any, error) {
	ctx := context.WithoutCancel(c.r.Context())
	err := c.f.move(ctx, c.view, c.repo, func() error {
		m, err := c.planUpdate()
		if err != nil {
			return err
		}
		commit, err := c.f.mergeCommit(ctx, c.repo.dir, m, "-p", m.base, "-p", m.head)
		if err == nil {
			_, err = c.f.git(ctx, c.repo.dir, "update-ref", "refs/heads/"+m.on.pull.head, commit, m.base)
		}
		return err
	}, nil)
	if errors.Is(err, errConflict) {
		return nil, fail(http.StatusConflict, "merge failed because of conflict")
	}
	return nil, err
}

// planUpdate returns the merge of the base branch into the head branch, which is the base of that merge.
func (c *call) planUpdate() (m merging, err error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	i, err := c.pathPull()
	if err != nil {
		return m, err
	}
	p := i.pull
	switch {
	case i.closed:
		return m, fail(http.StatusUnprocessableEntity, "")
	case !c.repo.protectionOf(p.head).mayMerge(c.doer, c.access):
		return m, forbidden()
	case p.check == mergeable && p.mergeBase == c.repo.branch(p.base):
		return m, fail(http.StatusInternalServerError, "HeadBranch of PR %d is up to date", i.number)
	}
	message := fmt.Sprintf("Merge branch '%s' into %s", p.base, p.head)
	return merging{on: i, base: p.headSHA, head: c.repo.branch(p.base), message: message, by: c.doer}, nil
}

// merge moves the base branch to a new commit, and returns the commit.
func (f *Forge) merge(ctx context.Context, r *repo, m merging) (string, error) {
	var commit string
	var err error
	switch m.style {
	case "merge":
		commit, err = f.mergeCommit(ctx, r.dir, m, "-p", m.base, "-p", m.head)
	case "squash":
		commit, err = f.mergeCommit(ctx, r.dir, m, "-p", m.base)
	case "fast-forward-only":
		commit = m.head
		if _, err := f.git(ctx, r.dir, "merge-base", "--is-ancestor", m.base, m.head); err != nil {
			return "", fail(http.StatusInternalServerError, "Merge DivergingFastForwardOnly Error: %v", err)
		}
	default:
		if commit, err = f.rebase(ctx, r.dir, m); err == nil && m.style == "rebase-merge" {
			m.head = commit
			commit, err = f.mergeCommit(ctx, r.dir, m, "-p", m.base, "-p", m.head)
		}
	}
	if err != nil {
		return "", err
	}
	_, err = f.git(ctx, r.dir, "update-ref", "refs/heads/"+m.on.pull.base, commit, m.base)
	return commit, err
}

// mergeCommit commits the merged tree of base and head.
func (f *Forge) mergeCommit(ctx context.Context, dir string, m merging, parents ...string) (string, error) {
	tree, clean, err := f.mergeTree(ctx, dir, m.base, m.head)
	if err != nil {
		return "", err
	}
	if !clean {
		return "", errConflict
	}
	var out bytes.Buffer
	cmd := Cmd{Dir: dir, Env: signed(m.by), Stdin: strings.NewReader(m.message + "\n"), Stdout: &out}
	err = f.gitIO(ctx, cmd, append([]string{"commit-tree", tree}, parents...)...)
	return strings.TrimSpace(out.String()), err
}

// rebase rebases head's commits onto base in a temporary work tree.
func (f *Forge) rebase(ctx context.Context, dir string, m merging) (string, error) {
	tree, err := os.MkdirTemp(f.opt.Dir, "rebase-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tree)
	if _, err := f.git(ctx, dir, "worktree", "add", "--quiet", "--detach", tree, m.head); err != nil {
		return "", err
	}
	defer func() { _, _ = f.git(ctx, dir, "worktree", "remove", "--force", tree) }()
	if err := f.gitIO(ctx, Cmd{Dir: tree, Env: signed(m.by)}, "rebase", "--quiet", m.base); err != nil {
		at, _ := f.git(ctx, tree, "rev-parse", "REBASE_HEAD")
		return "", rebaseConflict(at)
	}
	return f.git(ctx, tree, "rev-parse", "HEAD")
}

// merged marks a pull request as merged and closes the issues that it fixes. The caller holds Forge.mu.
func (c *call) merged(i *issue, commit string) {
	p := i.pull
	p.merged, p.mergedAt, p.mergedBy, p.mergeCommit = true, c.f.now(), c.doer, commit
	i.closed, i.closedAt = true, c.f.now()
	c.record(i, &comment{kind: "merge_pull"})
	c.notifyIssue(i, eventIssue, "closed")
	c.closedByMerge(i)
}

// deleteMergedBranch retargets pull requests that go to the merged branch and deletes it, unless it is the head of
// another open pull request.
func (c *call) deleteMergedBranch(ctx context.Context, i *issue) error {
	var retargeted []*issue
	err := func() error {
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		if i.pull.head == c.repo.defaultBranch {
			return fail(http.StatusForbidden, "the head branch is the default branch")
		}
		if c.repo.protectionOf(i.pull.head) != nil {
			return fail(http.StatusForbidden, "the head branch is protected")
		}
		for _, other := range c.repo.openPulls() {
			if other.pull.head == i.pull.head {
				return errBranchInUse
			}
		}
		for _, other := range c.repo.openPulls() {
			if other.pull.base == i.pull.head {
				other.pull.base, other.pull.check = i.pull.base, checking
				retargeted = append(retargeted, other)
			}
		}
		return nil
	}()
	if errors.Is(err, errBranchInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, other := range retargeted {
		c.f.checkPull(ctx, other)
	}
	return c.f.deleteBranch(ctx, c.view, c.repo, i.pull.head, func() { c.record(i, &comment{kind: "delete_branch"}) })
}

// errBranchInUse means that a merged branch must stay.
var errBranchInUse = errors.New("another pull request comes from the branch")
