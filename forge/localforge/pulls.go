package localforge

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pull holds the fields of a pull request that an issue lacks. Head and base are branches of the same repository: there
// are no forks.
type pull struct {
	base, head  string
	headSHA     string // commit of refs/pull/N/head
	mergeBase   string
	check       check
	files       []string // that the merge would change
	merged      bool
	mergedAt    time.Time
	mergedBy    *user
	mergeCommit string
	reviews     []*review
}

var pullRoutes = []route{
	{"GET /repos/{owner}/{repo}/pulls", scopeRepository, anyone, 200, listPulls, underLock},
	{"POST /repos/{owner}/{repo}/pulls", scopeRepository, signedIn, 201, createPull, runsGit},
	{"GET /repos/{owner}/{repo}/pulls/{number}", scopeRepository, anyone, 200, getPull, runsGit},
	{"PATCH /repos/{owner}/{repo}/pulls/{number}", scopeRepository, signedIn, 201, editPull, runsGit},
	{"GET /repos/{owner}/{repo}/pulls/{number}/files", scopeRepository, anyone, 200, listPullFiles, runsGit},
	{"GET /repos/{owner}/{repo}/pulls/{number}/commits", scopeRepository, anyone, 200, listPullCommits, runsGit},
}

type wirePull struct {
	ID          int64          `json:"id"`
	Number      int64          `json:"number"`
	User        *wireUser      `json:"user"`
	Title       string         `json:"title"`
	Body        string         `json:"body"`
	Labels      []*wireLabel   `json:"labels"`
	Assignee    *wireUser      `json:"assignee"`
	Assignees   []*wireUser    `json:"assignees"`
	State       string         `json:"state"`
	Draft       bool           `json:"draft"`
	Mergeable   bool           `json:"mergeable"`
	Merged      bool           `json:"merged"`
	MergedAt    *time.Time     `json:"merged_at"`
	MergeCommit *string        `json:"merge_commit_sha"`
	MergedBy    *wireUser      `json:"merged_by"`
	Base        *wireBranchRef `json:"base"`
	Head        *wireBranchRef `json:"head"`
	MergeBase   string         `json:"merge_base"`
	Created     time.Time      `json:"created_at"`
	Updated     time.Time      `json:"updated_at"`
	Closed      *time.Time     `json:"closed_at"`
}

type wireBranchRef struct {
	Label string    `json:"label"`
	Ref   string    `json:"ref"`
	SHA   string    `json:"sha"`
	Repo  *wireRepo `json:"repo"`
}

// draft checks the title; Forgejo has no other mark of a draft.
func (i *issue) draft() bool {
	title := strings.ToUpper(i.title)
	return strings.HasPrefix(title, "WIP:") || strings.HasPrefix(title, "[WIP]")
}

func pullRef(number int64) string { return "refs/pull/" + strconv.FormatInt(number, 10) + "/head" }

func (v view) pull(i *issue) *wirePull {
	p, plain, repo := i.pull, v.issue(i), v.repo(i.repo)
	w := &wirePull{
		ID: i.id, Number: i.number, User: plain.User, Title: i.title, Body: i.body, Labels: plain.Labels,
		Assignee: plain.Assignee, Assignees: plain.Assignees, State: plain.State, Draft: i.draft(),
		Mergeable: p.check.mergeable() && !i.draft(),
		Merged:    p.merged, MergedAt: when(p.mergedAt), MergedBy: v.user(p.mergedBy),
		Base:      &wireBranchRef{Label: p.base, Ref: p.base, SHA: i.repo.branch(p.base), Repo: repo},
		Head:      &wireBranchRef{Label: p.head, Ref: p.head, SHA: i.repo.branch(p.head), Repo: repo},
		MergeBase: p.mergeBase, Created: i.created, Updated: i.updated, Closed: plain.Closed,
	}
	if w.Head.SHA == "" { // the branch is deleted; the pull request's ref keeps its last commit
		w.Head.Ref, w.Head.SHA = pullRef(i.number), p.headSHA
	}
	if p.merged {
		w.MergeCommit = &p.mergeCommit
	}
	return w
}

// pathPull returns the pull request in the path.
func (c *call) pathPull() (*issue, error) {
	if i := c.repo.issue(c.number("number")); i != nil && i.pull != nil {
		return i, nil
	}
	return nil, notFound()
}

// listPulls also shows closed pull requests unless the request names a state and, unlike listIssues, can sort.
func listPulls(c *call) (any, error) {
	query := c.r.URL.Query()
	state := query.Get("state")
	var found []*issue
	for _, i := range slices.Backward(c.repo.issues) {
		wrongState := (state == "open" || state == "closed") && state != i.state()
		if i.pull != nil && !wrongState {
			found = append(found, i)
		}
	}
	if query.Get("sort") == "recentupdate" {
		slices.SortStableFunc(found, func(a, b *issue) int { return b.updated.Compare(a.updated) })
	}
	return paged(c, found, c.view.pull), nil
}

// getPull also serves /pulls/N.diff, which matches the same pattern.
func getPull(c *call) (any, error) {
	number, suffix, _ := strings.Cut(c.r.PathValue("number"), ".")
	c.r.SetPathValue("number", number)
	c.f.mu.Lock()
	i, err := c.pathPull()
	if err != nil || suffix == "" {
		defer c.f.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return c.view.pull(i), nil
	}
	from, to := i.pull.mergeBase, i.pull.headSHA
	c.f.mu.Unlock()
	if suffix != "diff" {
		return nil, notFound()
	}
	out, err := c.f.git(c.r.Context(), c.repo.dir, "diff", from, to)
	if out != "" {
		out += "\n"
	}
	return raw{"text/plain; charset=utf-8", []byte(out)}, err
}

type pullForm struct {
	issueForm
	Head string `json:"head"`
	Base string `json:"base"`
}

func createPull(c *call) (any, error) {
	var form pullForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	switch {
	case form.Head == "":
		return nil, missing("Head")
	case form.Base == "":
		return nil, missing("Base")
	case form.Title == "":
		return nil, missing("Title")
	case form.Head == form.Base:
		return nil, fail(http.StatusUnprocessableEntity,
			"Invalid PullRequest: There are no changes between the head and the base")
	}
	// A push to the branch must not race with the creation of the pull request's ref.
	c.repo.moving.Lock()
	defer c.repo.moving.Unlock()
	i, err := c.openPull(form)
	if err != nil {
		return nil, err
	}
	ctx := context.WithoutCancel(c.r.Context())
	if err := c.f.setPullRef(ctx, c.repo, i.number, i.pull.headSHA); err != nil {
		return nil, err
	}
	c.f.checkPull(ctx, i)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.notifyIssue(i, eventIssue, "opened")
	return c.view.pull(i), nil
}

// openPull checks the request and files the pull request.
func (c *call) openPull(form pullForm) (*issue, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	head := form.Head
	if owner, branch, ok := strings.Cut(head, ":"); ok {
		if !strings.EqualFold(owner, c.repo.owner.name) {
			return nil, notFound() // a fork, and there are no forks
		}
		head = branch
	}
	if c.repo.branch(form.Base) == "" || c.repo.branch(head) == "" {
		return nil, notFound()
	}
	for _, other := range c.repo.openPulls() {
		if other.pull.head == head && other.pull.base == form.Base {
			return nil, fail(http.StatusConflict,
				"pull request already exists for these targets [id: %d, issue_id: %d, head_repo_id: %d, "+
					"base_repo_id: %d, head_branch: %s, base_branch: %s]",
				other.id, other.number, c.repo.id, c.repo.id, head, form.Base)
		}
	}
	users, err := c.assignable(form.Assignee, form.Assignees)
	if err != nil {
		return nil, err
	}
	p := &pull{base: form.Base, head: head, headSHA: c.repo.branch(head), check: checking}
	i := c.newIssue(form.Title, form.Body, c.repo.labelsByID(form.Labels), users, p)
	c.record(i, &comment{kind: "pull_push"})
	return i, nil
}

// openPulls returns the pull requests that are neither closed nor merged.
func (r *repo) openPulls() []*issue {
	var open []*issue
	for _, i := range r.issues {
		if i.pull != nil && !i.closed && !i.pull.merged {
			open = append(open, i)
		}
	}
	return open
}

func editPull(c *call) (any, error) {
	var form struct {
		issueEdit
		Base string `json:"base"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	i, err := c.pathPull()
	if err == nil {
		err = c.apply(i, form.issueEdit, http.StatusUnprocessableEntity)
	}
	if err == nil {
		err = c.retarget(i, form.Base)
	}
	c.f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if form.State != nil || form.Base != "" {
		if err := c.f.refreshPull(c.r.Context(), i); err != nil {
			return nil, err
		}
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.view.pull(i), nil
}

// retarget changes the base of a pull request; the caller then checks it for conflicts.
func (c *call) retarget(i *issue, base string) error {
	switch {
	case base == "" || base == i.pull.base || i.pull.merged:
		return nil
	case c.repo.branch(base) == "":
		return fail(http.StatusNotFound, "new base '%s' not exist", base)
	case i.closed:
		return fail(http.StatusUnprocessableEntity, "issue is closed [id: %d, repo_id: %d, index: %d]", i.id, c.repo.id,
			i.number)
	}
	for _, other := range c.repo.openPulls() {
		if other != i && other.pull.head == i.pull.head && other.pull.base == base {
			return fail(http.StatusConflict, "pull request already exists for these targets")
		}
	}
	i.pull.base, i.pull.check = base, checking
	c.record(i, &comment{kind: "change_target_branch"})
	return nil
}

// refreshPull updates a pull request to its branch after it was reopened or retargeted: a closed pull request does not
// follow pushes.
func (f *Forge) refreshPull(ctx context.Context, i *issue) error {
	ctx = context.WithoutCancel(ctx)
	i.repo.moving.Lock()
	defer i.repo.moving.Unlock()
	f.mu.Lock()
	head := i.repo.branch(i.pull.head)
	if i.closed || head == "" {
		f.mu.Unlock()
		return nil
	}
	i.pull.headSHA = head
	f.mu.Unlock()
	if err := f.setPullRef(ctx, i.repo, i.number, head); err != nil {
		return err
	}
	f.checkPull(ctx, i)
	return nil
}
