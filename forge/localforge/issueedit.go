package localforge

import (
	"net/http"
	"slices"
	"time"
)

type issueEdit struct {
	Title     string   `json:"title"`
	Body      *string  `json:"body"`
	Assignee  *string  `json:"assignee"`
	Assignees []string `json:"assignees"` // nil: unchanged; empty: none
	State     *string  `json:"state"`
}

func editIssue(c *call) (any, error) {
	var form issueEdit
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	i, err := c.pathIssue()
	if err == nil {
		err = c.apply(i, form, http.StatusInternalServerError)
	}
	c.f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if i.pull != nil && form.State != nil {
		if err := c.f.refreshPull(c.r.Context(), i); err != nil {
			return nil, err
		}
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.view.issue(i), nil
}

// apply makes an edit in Forgejo's order: if a part fails, the parts before it stay changed. wrongAssignee is the
// status for a login that cannot be assigned, which differs between issues and pull requests.
func (c *call) apply(i *issue, form issueEdit, wrongAssignee int) error {
	if c.doer != i.poster && c.access < accessWrite {
		return forbidden()
	}
	if form.Title != "" && form.Title != i.title {
		c.record(i, &comment{kind: "change_title"})
		i.title = form.Title
		c.mention(i, nil)
		c.notifyIssue(i, eventIssue, "edited")
	}
	if form.Body != nil && *form.Body != i.body {
		i.body = *form.Body
		i.updated = c.f.now()
		c.mention(i, nil)
		c.notifyIssue(i, eventIssue, "edited")
	}
	if c.access >= accessWrite && (form.Assignees != nil || form.Assignee != nil) {
		one := ""
		assign(&one, form.Assignee)
		users, err := c.assignable(one, form.Assignees)
		if err != nil {
			return fail(wrongAssignee, "%v", err)
		}
		c.setAssignees(i, users)
	}
	if form.State == nil {
		return nil
	}
	if i.pull != nil && i.pull.merged {
		return fail(http.StatusPreconditionFailed, "cannot change state of this pull request, it was already merged")
	}
	if closing := *form.State == "closed"; closing != i.closed {
		return c.setClosed(i, closing)
	}
	return nil
}

func (c *call) setAssignees(i *issue, users []*user) {
	for _, u := range i.assignees {
		if !slices.Contains(users, u) {
			i.assignees = remove(i.assignees, u)
			c.record(i, &comment{kind: "assignees"})
			c.notifyIssue(i, eventAssign, "unassigned")
		}
	}
	for _, u := range users {
		c.assign(i, u)
	}
}

func (c *call) assign(i *issue, u *user) {
	if slices.Contains(i.assignees, u) {
		return
	}
	i.assignees = append(slices.Clone(i.assignees), u)
	c.record(i, &comment{kind: "assignees"})
	c.notifyIssue(i, eventAssign, "assigned")
}

// setClosed closes or reopens an issue.
func (v view) setClosed(i *issue, closed bool) error {
	if closed && i.blocked() {
		what := "issue"
		if i.pull != nil {
			what = "pull request"
		}
		return fail(http.StatusPreconditionFailed, "cannot close this %s because it still has open dependencies", what)
	}
	i.closed = closed
	kind, action := "close", "closed"
	i.closedAt = v.f.now()
	if !closed {
		kind, action, i.closedAt = "reopen", "reopened", time.Time{}
	}
	v.record(i, &comment{kind: kind})
	v.notifyIssue(i, eventIssue, action)
	return nil
}
