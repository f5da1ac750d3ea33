package localforge

import (
	"slices"
	"strings"
	"time"
)

// filter selects the entries of a list of issues.
type filter struct {
	all, closed bool
	kind        string   // "issues", "pulls", or anything else for both
	labels      []*label // an issue must have all of them
	since       time.Time
	poster      *user
	assignee    *user
}

func (want filter) matches(i *issue) bool {
	switch {
	case !want.all && i.closed != want.closed,
		want.kind == "issues" && i.pull != nil,
		want.kind == "pulls" && i.pull == nil,
		i.updated.Before(want.since),
		want.poster != nil && i.poster != want.poster,
		want.assignee != nil && !slices.Contains(i.assignees, want.assignee):
		return false
	}
	for _, l := range want.labels {
		if !slices.Contains(i.labels, l) {
			return false
		}
	}
	return true
}

func (c *call) issueFilter() (want filter, err error) {
	query := c.r.URL.Query()
	want = filter{
		all: query.Get("state") == "all", closed: query.Get("state") == "closed", kind: query.Get("type"),
		labels: c.repo.labelsNamed(strings.Split(query.Get("labels"), ",")),
	}
	if want.since, err = c.since(); err != nil {
		return want, err
	}
	if want.poster, err = c.queryUser("created_by"); err != nil {
		return want, err
	}
	want.assignee, err = c.queryUser("assigned_by")
	return want, err
}

// queryUser returns the user that a filter names; nil if it names none.
func (c *call) queryUser(key string) (*user, error) {
	name := c.r.URL.Query().Get(key)
	if name == "" {
		return nil, nil
	}
	if u := c.f.userLocked(name); u != nil {
		return u, nil
	}
	return nil, notFound()
}

// listIssues sorts newest first and, like Forgejo, ignores "sort": clients must sort themselves.
func listIssues(c *call) (any, error) {
	want, err := c.issueFilter()
	if err != nil {
		return nil, err
	}
	var found []*issue
	for _, i := range slices.Backward(c.repo.issues) {
		if want.matches(i) {
			found = append(found, i)
		}
	}
	return paged(c, found, c.view.issue), nil
}
