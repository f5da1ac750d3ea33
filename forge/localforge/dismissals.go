package localforge

import (
	"net/http"
	"slices"
)

func dismissReview(c *call) (any, error) {
	if c.access < accessAdmin {
		return nil, fail(http.StatusForbidden, "Must be repo admin")
	}
	i, r, err := c.pathReview()
	if err != nil {
		return nil, err
	}
	var form struct {
		Message string `json:"message"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if !r.verdict() {
		return nil, fail(http.StatusForbidden,
			"not need to dismiss this review because it's type is not Approve or change request")
	}
	if i.closed {
		return nil, fail(http.StatusForbidden, "can't dismiss a review associated to a closed or merged PR")
	}
	r.dismissed = true
	c.record(i, &comment{kind: "dismiss_review", body: form.Message})
	return c.view.review(r), nil
}

// reviewers reads the accounts from which a request asks a review.
func (c *call) reviewers() (*issue, []*user, error) {
	i, err := c.pathPull()
	if err != nil {
		return nil, nil, err
	}
	var form struct {
		Reviewers []string `json:"reviewers"`
	}
	if err := c.bind(&form); err != nil {
		return nil, nil, err
	}
	var users []*user
	for _, name := range form.Reviewers {
		u := c.f.userLocked(name)
		if u == nil {
			return nil, nil, fail(http.StatusNotFound, "User '%s' not exist", name)
		}
		if u == i.poster || (c.doer != i.poster && c.access < accessWrite) {
			return nil, nil, fail(http.StatusUnprocessableEntity, "not valid review request")
		}
		users = append(users, u)
	}
	return i, users, nil
}

func requestReview(c *call) (any, error) {
	i, users, err := c.reviewers()
	if err != nil {
		return nil, err
	}
	asked := []*wireReview{}
	for _, u := range users {
		if i.pull.requested(u) {
			continue
		}
		r := &review{id: c.f.nextIDLocked(), reviewer: u, state: reviewRequested, created: c.f.now()}
		i.pull.reviews = append(slices.Clone(i.pull.reviews), r)
		c.record(i, &comment{kind: "review_request"})
		asked = append(asked, c.view.review(r))
	}
	return asked, nil
}
