package localforge

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// comment is an entry in an issue's timeline: a comment or an event. The kinds are Forgejo's.
type comment struct {
	id      int64
	kind    string
	poster  *user
	body    string
	created time.Time
	updated time.Time
	label   *label
	other   *issue // the dependency, or the issue that mentions this one
	action  string // effect of a mention: none, closes or reopens
	commit  string

	reactions []reaction
}

var commentRoutes = []route{
	{"GET /repos/{owner}/{repo}/issues/comments", scopeIssue, anyone, 200, listAllComments, underLock},
	{"PATCH /repos/{owner}/{repo}/issues/comments/{id}", scopeIssue, signedIn, 200, editComment, underLock},
	{"DELETE /repos/{owner}/{repo}/issues/comments/{id}", scopeIssue, signedIn, 204, deleteComment, underLock},
	{"GET /repos/{owner}/{repo}/issues/{number}/comments", scopeIssue, anyone, 200, listComments, underLock},
	{"POST /repos/{owner}/{repo}/issues/{number}/comments", scopeIssue, signedIn, 201, createComment, underLock},
	{"GET /repos/{owner}/{repo}/issues/{number}/timeline", scopeIssue, anyone, 200, listTimeline, underLock},
}

type wireComment struct {
	ID       int64     `json:"id"`
	PullURL  string    `json:"pull_request_url"`
	IssueURL string    `json:"issue_url"`
	User     *wireUser `json:"user"`
	Body     string    `json:"body"`
	Created  time.Time `json:"created_at"`
	Updated  time.Time `json:"updated_at"`
}

type wireTimeline struct {
	ID             int64      `json:"id"`
	Type           string     `json:"type"`
	User           *wireUser  `json:"user"`
	Body           string     `json:"body"`
	Created        time.Time  `json:"created_at"`
	Updated        time.Time  `json:"updated_at"`
	RefIssue       *wireIssue `json:"ref_issue"`
	Label          *wireLabel `json:"label"`
	DependentIssue *wireIssue `json:"dependent_issue"`
}

func (v view) comment(i *issue, m *comment) *wireComment {
	w := &wireComment{
		ID: m.id, User: v.user(m.poster), Body: m.body, Created: m.created, Updated: m.updated,
	}
	if i.pull != nil {
		w.PullURL = v.base + i.htmlPath()
	} else {
		w.IssueURL = v.base + i.htmlPath()
	}
	return w
}

func (v view) timeline(m *comment) *wireTimeline {
	w := &wireTimeline{
		ID: m.id, Type: m.kind, User: v.user(m.poster), Body: m.body, Created: m.created, Updated: m.updated,
	}
	if m.label != nil {
		w.Label = m.label.wire()
	}
	if m.other == nil {
		return w
	}
	if m.kind == "add_dependency" || m.kind == "remove_dependency" {
		w.DependentIssue = v.issue(m.other)
	} else {
		w.RefIssue = v.issue(m.other)
	}
	return w
}

// record adds an entry to an issue's timeline, which changes the issue's updated_at.
func (v view) record(i *issue, m *comment) *comment {
	m.id, m.created, m.updated = v.f.nextIDLocked(), v.f.now(), v.f.now()
	if m.poster == nil {
		m.poster = v.doer
	}
	i.timeline = append(i.timeline, m)
	i.updated = m.created
	return m
}

// comments returns the entries of kind "comment" that were updated since a time, oldest first.
func (i *issue) comments(since time.Time) []*comment {
	var written []*comment
	for _, m := range i.timeline {
		if m.kind == "comment" && !m.updated.Before(since) {
			written = append(written, m)
		}
	}
	return written
}

// listComments does not page: Forgejo always sends all comments of an issue.
func listComments(c *call) (any, error) {
	i, err := c.issueOrBroken()
	if err != nil {
		return nil, err
	}
	since, err := c.since()
	if err != nil {
		return nil, err
	}
	written := i.comments(since)
	list := make([]*wireComment, 0, len(written))
	for _, m := range written {
		list = append(list, c.view.comment(i, m))
	}
	return listing{items: list, total: len(list)}, nil
}

// listAllComments lists the comments of all issues and pull requests, in pages, oldest first.
func listAllComments(c *call) (any, error) {
	since, err := c.since()
	if err != nil {
		return nil, err
	}
	var all []placed
	for _, i := range c.repo.issues {
		for _, m := range i.comments(since) {
			all = append(all, placed{m, i})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.id, b.id) })
	return paged(c, all, func(p placed) *wireComment { return c.view.comment(p.on, p.comment) }), nil
}

// issueOrBroken returns the issue in the path, for handlers in which Forgejo answers an unknown number with 500 instead
// of 404.
func (c *call) issueOrBroken() (*issue, error) {
	i, err := c.pathIssue()
	if err != nil {
		return nil, fail(http.StatusInternalServerError, "issue does not exist [id: 0, repo_id: %d, index: %d]", c.repo.id,
			c.number("number"))
	}
	return i, nil
}

// placed is a comment with its issue.
type placed struct {
	*comment
	on *issue
}

func listTimeline(c *call) (any, error) {
	i, err := c.issueOrBroken()
	if err != nil {
		return nil, err
	}
	since, err := c.since()
	if err != nil {
		return nil, err
	}
	var lines []*comment
	for _, m := range i.timeline {
		if !m.updated.Before(since) && (m.other == nil || m.other.repo.accessOf(c.doer) > accessNone) {
			lines = append(lines, m)
		}
	}
	page := paged(c, lines, c.view.timeline)
	// Forgejo's total is the number of entries on the page, and a page after the last is null.
	items := page.items.([]*wireTimeline)
	if len(items) == 0 {
		items = nil
	}
	return listing{items: items, total: len(items)}, nil
}

func createComment(c *call) (any, error) {
	i, err := c.issueOrBroken()
	if err != nil {
		return nil, err
	}
	body, err := c.bindBody()
	if err != nil {
		return nil, err
	}
	m := c.record(i, &comment{kind: "comment", body: body})
	c.mention(i, m)
	c.notifyComment(i, m, "created")
	return c.view.comment(i, m), nil
}

func (c *call) bindBody() (string, error) {
	var form struct {
		Body string `json:"body"`
	}
	if err := c.bind(&form); err != nil {
		return "", err
	}
	if form.Body == "" {
		return "", missing("Body")
	}
	return form.Body, nil
}

func (c *call) pathComment() (placed, error) {
	id := c.number("id")
	for _, i := range c.repo.issues {
		for _, m := range i.timeline {
			if m.id == id {
				return placed{m, i}, nil
			}
		}
	}
	return placed{}, notFound()
}

func editComment(c *call) (any, error) {
	p, err := c.pathComment()
	if err != nil {
		return nil, err
	}
	body, err := c.bindBody()
	if err != nil {
		return nil, err
	}
	if c.doer != p.poster && c.access < accessWrite {
		return nil, forbidden()
	}
	p.comment.body, p.comment.updated = body, c.f.now()
	c.mention(p.on, p.comment)
	c.notifyComment(p.on, p.comment, "edited")
	return c.view.comment(p.on, p.comment), nil
}

func deleteComment(c *call) (any, error) {
	p, err := c.pathComment()
	if err != nil {
		return nil, err
	}
	if c.doer != p.poster && c.access < accessWrite {
		return nil, forbidden()
	}
	p.on.timeline, p.on.updated = remove(p.on.timeline, p.comment), c.f.now()
	c.notifyComment(p.on, p.comment, "deleted")
	return nil, nil
}
