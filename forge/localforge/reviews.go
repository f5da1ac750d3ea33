package localforge

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// The states of a review, as the API spells them.
const (
	reviewApproved  = "APPROVED"
	reviewRejected  = "REQUEST_CHANGES"
	reviewComment   = "COMMENT"
	reviewPending   = "PENDING"
	reviewRequested = "REQUEST_REVIEW"
)

type review struct {
	id        int64
	reviewer  *user
	state     string
	body      string
	commit    string
	stale     bool // the reviewed content has changed since
	official  bool // the verdict counts for the branch
	dismissed bool
	comments  int
	created   time.Time
}

var reviewRoutes = []route{
	{"GET /repos/{owner}/{repo}/pulls/{number}/reviews", scopeRepository, anyone, 200, listReviews, underLock},
	{"POST /repos/{owner}/{repo}/pulls/{number}/reviews", scopeRepository, signedIn, 200, createReview, runsGit},
	{
		"POST /repos/{owner}/{repo}/pulls/{number}/reviews/{id}/dismissals", scopeRepository, signedIn, 200, dismissReview,
		underLock,
	},
	{
		"POST /repos/{owner}/{repo}/pulls/{number}/requested_reviewers", scopeRepository, signedIn, 201, requestReview,
		underLock,
	},
}

type wireReview struct {
	ID        int64     `json:"id"`
	User      *wireUser `json:"user"`
	State     string    `json:"state"`
	Body      string    `json:"body"`
	CommitID  string    `json:"commit_id"`
	Stale     bool      `json:"stale"`
	Official  bool      `json:"official"`
	Dismissed bool      `json:"dismissed"`
	Comments  int       `json:"comments_count"`
	Submitted time.Time `json:"submitted_at"`
}

func (v view) review(r *review) *wireReview {
	return &wireReview{
		ID: r.id, User: v.user(r.reviewer), State: r.state, Body: r.body, CommitID: r.commit, Stale: r.stale,
		Official: r.official, Dismissed: r.dismissed, Comments: r.comments, Submitted: r.created,
	}
}

func (r *review) verdict() bool { return r.state == reviewApproved || r.state == reviewRejected }

// requested reports whether a review was requested from u and is still missing.
func (p *pull) requested(u *user) bool {
	return slices.ContainsFunc(p.reviews, func(r *review) bool { return r.state == reviewRequested && r.reviewer == u })
}

// mayRead reports whether the caller can see a review: only its author and admins see a pending one.
func (c *call) mayRead(r *review) bool {
	return r.state != reviewPending || (c.doer != nil && (c.doer == r.reviewer || c.doer.admin))
}

func listReviews(c *call) (any, error) {
	i, err := c.pathPull()
	if err != nil {
		return nil, err
	}
	var readable []*review
	for _, r := range i.pull.reviews {
		if c.mayRead(r) {
			readable = append(readable, r)
		}
	}
	return paged(c, readable, c.view.review), nil
}

func (c *call) pathReview() (*issue, *review, error) {
	i, err := c.pathPull()
	if err != nil {
		return nil, nil, err
	}
	for _, r := range i.pull.reviews {
		if r.id == c.number("id") && c.mayRead(r) {
			return i, r, nil
		}
	}
	return nil, nil, notFound()
}

type reviewForm struct {
	Event    string     `json:"event"`
	Body     string     `json:"body"`
	CommitID string     `json:"commit_id"`
	Comments []struct{} `json:"comments"`
}

// reviewState checks a new review and returns its state. The author of the pull request cannot give a verdict.
func (c *call) reviewState(i *issue, form reviewForm) (string, error) {
	hasBody := strings.TrimSpace(form.Body) != ""
	switch form.Event {
	case reviewApproved:
		if c.doer == i.poster {
			return "", fail(http.StatusUnprocessableEntity, "approve your own pull is not allowed")
		}
		return reviewApproved, nil
	case reviewComment:
		if !hasBody && len(form.Comments) == 0 {
			return "", fail(http.StatusUnprocessableEntity, "review event COMMENT requires a body or a comment")
		}
		return reviewComment, nil
	case reviewRejected:
		if c.doer == i.poster {
			return "", fail(http.StatusUnprocessableEntity, "reject your own pull is not allowed")
		}
	}
	if !hasBody {
		return "", fail(http.StatusUnprocessableEntity, "review event %s requires a body", form.Event)
	}
	if form.Event == reviewRejected {
		return reviewRejected, nil
	}
	return reviewPending, nil
}

func createReview(c *call) (any, error) {
	var form reviewForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	stale, err := c.reviewsOldContent(form)
	if err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	i, err := c.pathPull()
	if err != nil {
		return nil, err
	}
	state, err := c.reviewState(i, form)
	if err != nil {
		return nil, err
	}
	if form.CommitID == "" {
		form.CommitID = i.pull.headSHA
	}
	return c.view.review(c.submit(i, state, stale, form)), nil
}

// reviewsOldContent reports whether a verdict is for a commit whose content has changed since. As in Forgejo, an
// unknown commit is an internal error.
func (c *call) reviewsOldContent(form reviewForm) (bool, error) {
	if form.CommitID == "" || (form.Event != reviewApproved && form.Event != reviewRejected) {
		return false, nil
	}
	c.f.mu.Lock()
	i, err := c.pathPull()
	if err != nil {
		c.f.mu.Unlock()
		return false, err
	}
	head, mergeBase := i.pull.headSHA, i.pull.mergeBase
	c.f.mu.Unlock()
	if form.CommitID == head {
		return false, nil
	}
	return c.f.contentChanged(c.r.Context(), c.repo.dir, form.CommitID, head, mergeBase)
}

// submit adds a review. A verdict replaces the caller's earlier verdicts: they are dismissed and no longer official.
func (c *call) submit(i *issue, state string, stale bool, form reviewForm) *review {
	verdict := state == reviewApproved || state == reviewRejected
	kept := i.pull.reviews[:0:0]
	for _, old := range i.pull.reviews {
		if old.reviewer == c.doer {
			if old.state == reviewRequested && state != reviewPending {
				continue
			}
			if verdict {
				old.official = false
				old.dismissed = old.dismissed || old.verdict()
			}
		}
		kept = append(kept, old)
	}
	r := &review{
		id: c.f.nextIDLocked(), reviewer: c.doer, state: state, body: form.Body, commit: form.CommitID, stale: stale,
		official: verdict && c.access >= accessWrite, comments: len(form.Comments), created: c.f.now(),
	}
	i.pull.reviews = append(kept, r)
	c.record(i, &comment{kind: "review", body: form.Body})
	c.notifyReview(i, r)
	return r
}
