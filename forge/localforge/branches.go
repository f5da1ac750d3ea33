package localforge

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var branchRoutes = []route{
	{"GET /repos/{owner}/{repo}/branches", scopeRepository, anyone, 200, listBranches, underLock},
	{"POST /repos/{owner}/{repo}/branches", scopeRepository, repoWriter, 201, createBranch, runsGit},
	{"GET /repos/{owner}/{repo}/branches/{branch...}", scopeRepository, anyone, 200, getBranch, underLock},
	{"DELETE /repos/{owner}/{repo}/branches/{branch...}", scopeRepository, repoWriter, 204, removeBranch, runsGit},
	{"GET /repos/{owner}/{repo}/git/refs/{ref...}", scopeRepository, anyone, 200, listRefs, underLock},
	{"GET /repos/{owner}/{repo}/git/commits/{sha}", scopeRepository, anyone, 200, getCommit, runsGit},
}

type wireBranch struct {
	Name                string      `json:"name"`
	Commit              *wireCommit `json:"commit"`
	Protected           bool        `json:"protected"`
	RequiredApprovals   int64       `json:"required_approvals"`
	EnableStatusCheck   bool        `json:"enable_status_check"`
	StatusCheckContexts []string    `json:"status_check_contexts"`
	UserCanPush         bool        `json:"user_can_push"`
	UserCanMerge        bool        `json:"user_can_merge"`
}

// branch returns a branch for an answer. All readers see its required checks.
func (v view) branch(r *repo, name, sha string) *wireBranch {
	rule, level := r.protectionOf(name), r.accessOf(v.doer)
	w := &wireBranch{Name: name, Commit: &wireCommit{sha}, Protected: rule != nil, StatusCheckContexts: []string{}}
	if v.doer != nil {
		w.UserCanPush, w.UserCanMerge = rule.mayPush(v.doer, level), rule.mayMerge(v.doer, level)
	}
	if rule == nil {
		return w
	}
	w.RequiredApprovals, w.EnableStatusCheck = rule.RequiredApprovals, rule.EnableStatusCheck
	w.StatusCheckContexts = rule.StatusCheckContexts
	return w
}

func listBranches(c *call) (any, error) {
	var names []string
	for ref := range c.repo.refs {
		if name := branchName(ref); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return paged(c, names, func(name string) *wireBranch {
		return c.view.branch(c.repo, name, c.repo.branch(name))
	}), nil
}

func getBranch(c *call) (any, error) { return c.showBranchLocked(c.r.PathValue("branch")) }

func (c *call) showBranchLocked(name string) (any, error) {
	sha := c.repo.branch(name)
	if sha == "" {
		return nil, notFound()
	}
	return c.view.branch(c.repo, name, sha), nil
}

// getCommit shows a commit by its hash; the commit need not be on a branch.
func getCommit(c *call) (any, error) {
	co, err := c.f.commit(c.r.Context(), c.repo, c.r.PathValue("sha"))
	if err != nil {
		return nil, notFound()
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.view.fullCommit(co), nil
}

// createBranch is the only write of this API with a single winner: of several concurrent callers one succeeds, and
// the others get 409.
func createBranch(c *call) (any, error) {
	var form struct {
		New       string `json:"new_branch_name"`
		OldBranch string `json:"old_branch_name"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	ctx := c.r.Context()
	if form.New == "" {
		return nil, missing("BranchName")
	}
	if err := c.f.checkBranchName(ctx, c.repo, form.New); err != nil {
		return nil, err
	}
	from, err := c.branchStart(form.OldBranch)
	if err != nil {
		return nil, err
	}
	// A check of rights asks for a branch that exists, and needs no git process.
	c.f.mu.Lock()
	taken := c.repo.branch(form.New) != ""
	c.f.mu.Unlock()
	if taken {
		return nil, fail(http.StatusConflict, "The branch already exists.")
	}
	err = c.f.move(ctx, c.view, c.repo, func() error {
		_, err := c.f.git(ctx, c.repo.dir, "update-ref", "refs/heads/"+form.New, from, noCommit)
		taken = err != nil
		return err
	}, nil)
	if taken {
		return nil, fail(http.StatusConflict, "The branch already exists.")
	}
	if err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.showBranchLocked(form.New)
}

// plainName matches names that are certainly valid branch names, so that no git process is needed to check them.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$`)

// checkBranchName rejects names that git does not accept for a branch, such as one with a space or a line end.
func (f *Forge) checkBranchName(ctx context.Context, r *repo, name string) error {
	if plainName.MatchString(name) {
		return nil
	}
	if _, err := f.git(ctx, r.dir, "check-ref-format", "refs/heads/"+name); err != nil {
		return fail(http.StatusUnprocessableEntity, "[BranchName]: GitRefName")
	}
	return nil
}

// branchStart returns the commit at which a new branch begins.
func (c *call) branchStart(oldBranch string) (string, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	switch {
	case c.repo.empty():
		return "", fail(http.StatusNotFound, "Git Repository is empty.")
	case oldBranch == "":
		oldBranch = c.repo.defaultBranch
	}
	if sha := c.repo.branch(oldBranch); sha != "" {
		return sha, nil
	}
	return "", fail(http.StatusNotFound, "The old branch does not exist")
}

func removeBranch(c *call) (any, error) {
	name := c.r.PathValue("branch")
	err := func() error {
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		switch {
		case c.repo.branch(name) == "":
			return notFound()
		case name == c.repo.defaultBranch:
			return fail(http.StatusForbidden, "can not delete default branch")
		case c.repo.protectionOf(name) != nil:
			return fail(http.StatusForbidden, "branch protected")
		}
		return nil
	}()
	if err != nil {
		return nil, err
	}
	return nil, c.f.deleteBranch(c.r.Context(), c.view, c.repo, name, nil)
}

// deleteBranch removes a branch; inside is called as in move.
func (f *Forge) deleteBranch(ctx context.Context, v view, r *repo, name string, inside func()) error {
	return f.move(ctx, v, r, func() error {
		_, err := f.git(ctx, r.dir, "update-ref", "-d", "refs/heads/"+name)
		return err
	}, inside)
}

type wireRef struct {
	Ref    string         `json:"ref"`
	Object wireCommitMeta `json:"object"`
}

// listRefs lists the refs that begin with the path.
func listRefs(c *call) (any, error) {
	prefix := "refs/" + c.r.PathValue("ref")
	refs := []wireRef{}
	for name, sha := range c.repo.refs {
		if strings.HasPrefix(name, prefix) {
			refs = append(refs, wireRef{name, wireCommitMeta{SHA: sha}})
		}
	}
	if len(refs) == 0 {
		return nil, notFound()
	}
	slices.SortFunc(refs, func(a, b wireRef) int { return strings.Compare(a.Ref, b.Ref) })
	return refs, nil
}
