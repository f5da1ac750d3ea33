package rules

import (
	"net/http"
	"time"
)

var reviewRules = []rule{
	{
		"a review is for the commit that it names",
		"agents/session, which always names one, and forge/forgejo, which counts a verdict only for that head",
		reviewedCommit,
	},
	{
		"authors cannot approve or reject their own pull request",
		"threads' pairing rule, which the forge enforces too",
		ownReview,
	},
	{
		"a verdict is official if its author has write access",
		"forge.Review.Official: every account can approve on a public repository",
		officialReviews,
	},
	{
		"a verdict replaces the account's earlier one, a comment does not",
		"threads, which counts each reviewer's newest verdict unless dismissed, and forge/forgejo, which reads all pages",
		newestVerdict,
	},
	{
		"a misspelt event makes a draft that only its author sees, and a rejection needs a text",
		"agents/session, which sends APPROVED, never posts an empty review, and checks the result",
		misspeltEvent,
	},
	{
		"a review becomes stale late",
		"forge/forgejo, which compares commit_id with the head instead",
		staleReviews,
	},
	{
		"dismissing requires an administrator",
		"threads, which cannot rely on dismissal: our rejection ends with our own next verdict",
		dismissals,
	},
	{
		"a requested review is an entry without a verdict",
		"forge/forgejo, which leaves the entry out",
		requestedReview,
	},
}

type review struct {
	ID        int64     `json:"id"`
	User      *user     `json:"user"`
	State     string    `json:"state"`
	Body      string    `json:"body"`
	CommitID  string    `json:"commit_id"`
	Stale     bool      `json:"stale"`
	Official  bool      `json:"official"`
	Dismissed bool      `json:"dismissed"`
	Submitted time.Time `json:"submitted_at"`
}

// review submits a review of a commit; "" stands for the head.
func (r *repo) review(a *account, n int64, event, commit string) review {
	r.w.Helper()
	return decode[review](r.tryReview(a, n, event, commit).want(http.StatusOK))
}

func (r *repo) tryReview(a *account, n int64, event, commit string) answer {
	r.w.Helper()
	return a.post(r.at("/pulls/%d/reviews", n), fields{"event": event, "body": "what I think", "commit_id": commit})
}

// reviewsFor returns the reviews that an account can see, in the forge's order.
func (r *repo) reviewsFor(a *account, n int64) []review {
	r.w.Helper()
	return read[[]review](a, r.at("/pulls/%d/reviews?limit=50&page=1", n))
}

func (r *repo) reviews(n int64) []review {
	r.w.Helper()
	return r.reviewsFor(r.owner, n)
}

// verdicts lists the states of reviews, with a mark for dismissed ones.
func verdicts(reviews []review) string {
	var states []string
	for _, v := range reviews {
		state := v.State
		if v.Dismissed {
			state += "(dismissed)"
		}
		states = append(states, state)
	}
	return list(states)
}

func reviewedCommit(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	p := r.ready("one")
	old := r.pull(p).Head.SHA
	head := r.commit("one", "b.txt", "b")
	w.eventually("the head has moved", func() bool { return r.pull(p).Head.SHA == head })
	same(w, "commit of an approval", r.review(reviewer, p, "APPROVED", head).CommitID, head)
	got := r.review(reviewer, p, "REQUEST_CHANGES", old)
	same(w, "commit of a review of the old head", got.CommitID, old)
	// A review that names no commit is for the old head until a moment after a push.
	if none := r.review(reviewer, p, "APPROVED", "").CommitID; none != head && none != old {
		w.Errorf("commit of a review that names no commit: got %s, want %s or %s", none, head, old)
	}
	same(w, "its author", got.User.Login, reviewer.name)
	same(w, "its text", got.Body, "what I think")
	if got.Submitted.IsZero() {
		w.Error("submitted_at is missing")
	}
	r.tryReview(reviewer, p, "APPROVED", "1111111111111111111111111111111111111111").refused() // 500 in Forgejo 10
}

func ownReview(w *world) {
	r := w.code("one")
	dev := r.writer("dev")
	p := r.openPullAs(dev, "one", "one", "").Number
	r.tryReview(dev, p, "APPROVED", "").want(http.StatusUnprocessableEntity)
	r.tryReview(dev, p, "REQUEST_CHANGES", "").want(http.StatusUnprocessableEntity)
	r.review(dev, p, "COMMENT", "")
	same(w, "reviews", verdicts(r.reviews(p)), "[COMMENT]")
}

func officialReviews(w *world) {
	r := w.code("one")
	p := r.ready("one")
	same(w, "official review of a writer", r.review(r.writer("review"), p, "APPROVED", "").Official, true)
	same(w, "official review of a reader", r.review(r.collaborator("reader", "read"), p, "APPROVED", "").Official, false)
	same(w, "official review of a stranger", r.review(w.account("stranger"), p, "REQUEST_CHANGES", "").Official, false)
	same(w, "reviews", verdicts(r.reviews(p)), "[APPROVED APPROVED REQUEST_CHANGES]")
}

func newestVerdict(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	p := r.ready("one")
	r.review(reviewer, p, "REQUEST_CHANGES", "")
	r.review(reviewer, p, "COMMENT", "")
	same(w, "after a comment", verdicts(r.reviews(p)), "[REQUEST_CHANGES COMMENT]")
	r.review(reviewer, p, "APPROVED", "")
	got := r.reviews(p)
	same(w, "after an approval", verdicts(got), "[REQUEST_CHANGES(dismissed) COMMENT APPROVED]")
	same(w, "the approval is official", got[2].Official, true)
	r.review(reviewer, p, "REQUEST_CHANGES", "")
	same(w, "after another rejection", verdicts(r.reviews(p)),
		"[REQUEST_CHANGES(dismissed) COMMENT APPROVED(dismissed) REQUEST_CHANGES]")
	a := r.owner.get(r.at("/pulls/%d/reviews?limit=3&page=2", p)).want(http.StatusOK)
	same(w, "on the second page of three", verdicts(decode[[]review](a)), "[REQUEST_CHANGES]")
	same(w, "X-Total-Count", a.total(), 4)
}

func misspeltEvent(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	p := r.ready("one")
	same(w, "state", r.review(reviewer, p, "APPROVE", "").State, "PENDING")
	same(w, "seen by others", verdicts(r.reviews(p)), "[]")
	same(w, "seen by its author", verdicts(r.reviewsFor(reviewer, p)), "[PENDING]")
	for _, event := range []string{"COMMENT", "REQUEST_CHANGES"} {
		reviewer.post(r.at("/pulls/%d/reviews", p), fields{"event": event}).want(http.StatusUnprocessableEntity)
	}
}

func staleReviews(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	p := r.ready("one")
	first := r.pull(p).Head.SHA
	r.review(reviewer, p, "APPROVED", first)
	second := r.commit("one", "b.txt", "b")
	w.eventually("the review is stale", func() bool { return r.reviews(p)[0].Stale })
	got := r.reviews(p)[0]
	same(w, "its commit", got.CommitID, first)
	same(w, "dismissed", got.Dismissed, false)
	same(w, "head", r.pull(p).Head.SHA, second)
}

func dismissals(w *world) {
	r := w.code("one")
	dev, reviewer := r.writer("dev"), r.writer("review")
	p := r.ready("one")
	id := r.review(reviewer, p, "REQUEST_CHANGES", "").ID
	dismiss := func(a *account) answer {
		return a.post(r.at("/pulls/%d/reviews/%d/dismissals", p, id), fields{"message": "old"})
	}
	dismiss(dev).want(http.StatusForbidden)
	dismiss(reviewer).want(http.StatusForbidden)
	same(w, "before", verdicts(r.reviews(p)), "[REQUEST_CHANGES]")
	dismiss(r.owner).want(http.StatusOK)
	same(w, "after", verdicts(r.reviews(p)), "[REQUEST_CHANGES(dismissed)]")
}

func requestedReview(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	p := r.ready("one")
	r.owner.post(r.at("/pulls/%d/requested_reviewers", p), fields{"reviewers": []string{reviewer.name}}).
		want(http.StatusCreated)
	same(w, "requested", verdicts(r.reviews(p)), "[REQUEST_REVIEW]")
	r.review(reviewer, p, "APPROVED", "")
	same(w, "answered", verdicts(r.reviews(p)), "[APPROVED]")
}
