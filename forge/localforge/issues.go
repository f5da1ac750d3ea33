package localforge

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// issue is an issue or, if pull is set, the conversation of a pull request.
type issue struct {
	id        int64
	number    int64
	repo      *repo
	poster    *user
	title     string
	body      string
	labels    []*label // sorted by name
	assignees []*user  // in the order in which they were assigned; the slice is replaced, never modified
	closed    bool
	created   time.Time
	updated   time.Time
	closedAt  time.Time
	timeline  []*comment
	dependsOn []*issue
	blocks    []*issue
	pull      *pull
}

var issueRoutes = []route{
	{"GET /repos/{owner}/{repo}/issues", scopeIssue, anyone, 200, listIssues, underLock},
	{"POST /repos/{owner}/{repo}/issues", scopeIssue, signedIn, 201, createIssue, underLock},
	{"GET /repos/{owner}/{repo}/issues/{number}", scopeIssue, anyone, 200, getIssue, underLock},
	{"PATCH /repos/{owner}/{repo}/issues/{number}", scopeIssue, signedIn, 201, editIssue, runsGit},
	{"DELETE /repos/{owner}/{repo}/issues/{number}", scopeIssue, repoAdmin, 204, deleteIssue, underLock},
}

type wireIssue struct {
	ID          int64         `json:"id"`
	Number      int64         `json:"number"`
	User        *wireUser     `json:"user"`
	Title       string        `json:"title"`
	Body        string        `json:"body"`
	Labels      []*wireLabel  `json:"labels"`
	Assignee    *wireUser     `json:"assignee"`
	Assignees   []*wireUser   `json:"assignees"`
	State       string        `json:"state"`
	Created     time.Time     `json:"created_at"`
	Updated     time.Time     `json:"updated_at"`
	Closed      *time.Time    `json:"closed_at"`
	PullRequest *wirePullMeta `json:"pull_request"`
	Repository  *wireRepoMeta `json:"repository"`
}

type wirePullMeta struct {
	Merged   bool       `json:"merged"`
	MergedAt *time.Time `json:"merged_at"`
	Draft    bool       `json:"draft"`
}

type wireRepoMeta struct {
	FullName string `json:"full_name"`
}

func (i *issue) state() string {
	if i.closed {
		return "closed"
	}
	return "open"
}

func (i *issue) htmlPath() string {
	kind := "issues"
	if i.pull != nil {
		kind = "pulls"
	}
	return fmt.Sprintf("/%s/%s/%d", i.repo.fullName(), kind, i.number)
}

// when returns t for JSON: null if it is zero.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (v view) issue(i *issue) *wireIssue {
	w := &wireIssue{
		ID: i.id, Number: i.number, Title: i.title, Body: i.body, User: v.user(i.poster), Labels: wireLabels(i.labels),
		Assignees: v.userList(i.assignees), State: i.state(), Created: i.created, Updated: i.updated,
		Closed: when(i.closedAt), Repository: &wireRepoMeta{i.repo.fullName()},
	}
	if len(i.assignees) > 0 {
		w.Assignee = v.user(i.assignees[0])
	}
	if i.pull != nil {
		w.PullRequest = &wirePullMeta{Merged: i.pull.merged, MergedAt: when(i.pull.mergedAt), Draft: i.draft()}
	}
	return w
}

// pathIssue returns the issue or pull request in the path.
func (c *call) pathIssue() (*issue, error) {
	if i := c.repo.issue(c.number("number")); i != nil {
		return i, nil
	}
	return nil, notFound()
}

func getIssue(c *call) (any, error) {
	i, err := c.pathIssue()
	if err != nil {
		return nil, err
	}
	return c.view.issue(i), nil
}

type issueForm struct {
	Title     string   `json:"title"`
	Body      string   `json:"body"`
	Assignee  string   `json:"assignee"`
	Assignees []string `json:"assignees"`
	Labels    []int64  `json:"labels"`
}

// createIssue lets every reader file an issue, but ignores labels and assignees unless the caller has write access.
func createIssue(c *call) (any, error) {
	var form issueForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if form.Title == "" {
		return nil, missing("Title")
	}
	var assignees []*user
	var labels []*label
	if c.access >= accessWrite {
		var err error
		if assignees, err = c.assignable(form.Assignee, form.Assignees); err != nil {
			return nil, err
		}
		labels = c.repo.labelsByID(form.Labels)
	}
	i := c.newIssue(form.Title, form.Body, labels, assignees, nil)
	return c.view.issue(i), nil
}

// newIssue files an issue, or a pull request if p is not nil.
func (c *call) newIssue(title, body string, labels []*label, assignees []*user, p *pull) *issue {
	r := c.repo
	r.lastNumber++
	i := &issue{
		id: c.f.nextIDLocked(), number: r.lastNumber, repo: r, poster: c.doer, title: title, body: body,
		created: c.f.now(), updated: c.f.now(), pull: p,
	}
	r.issues = append(r.issues, i)
	for _, l := range labels {
		i.labels = append(i.labels, l)
		c.record(i, &comment{kind: "label", label: l, body: "1"})
	}
	c.mention(i, nil)
	if p == nil { // the hook for a pull request is called after its conflict check
		c.notifyIssue(i, eventIssue, "opened")
	}
	if len(labels) > 0 {
		c.notifyIssue(i, eventLabel, "label_updated")
	}
	for _, u := range assignees {
		c.assign(i, u)
	}
	return i
}

// assignable looks up the new assignees. For an account that cannot be assigned it returns 422, the status of a
// creation; callers that edit replace the status.
func (c *call) assignable(one string, many []string) ([]*user, error) {
	names := slices.Clone(many)
	if one != "" && !slices.Contains(names, one) {
		names = append(names, one)
	}
	var users []*user
	for _, name := range names {
		u := c.f.userLocked(name)
		if u == nil {
			return nil, fail(http.StatusUnprocessableEntity, "Assignee does not exist: [name: %s]", name)
		}
		if c.repo.accessOf(u) == accessNone {
			return nil, fail(http.StatusUnprocessableEntity, "user doesn't have access to repo [user_id: %d, repo_name: %s]",
				u.id, c.repo.name)
		}
		if !slices.Contains(users, u) {
			users = append(users, u)
		}
	}
	return users, nil
}

func deleteIssue(c *call) (any, error) {
	i, err := c.pathIssue()
	if err != nil {
		return nil, err
	}
	i.forgetDependencies()
	c.repo.issues = remove(c.repo.issues, i)
	return nil, nil
}
