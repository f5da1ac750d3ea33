package rules

import (
	"net/http"
	"slices"
)

var statusRules = []rule{
	{
		"a commit without reports has an empty state",
		"forge.CombineCI, which distinguishes no report from pending",
		noStatus,
	},
	{
		"the newest report of each context counts, and has the highest id",
		"forge.CombineCI, which never relies on the order: three reports of one second came oldest first",
		newestStatus,
	},
	{
		"the combined state is the worst state",
		"forge.CombineCI, which computes the same state",
		combinedStatus,
	},
	{
		"any word is accepted as a state",
		"forge.CombineCI, which treats an unknown state as pending",
		oddStatus,
	},
	{
		"reporting requires write access",
		"CI, which reports with its own account",
		statusRights,
	},
	{
		"all reports can be read in pages",
		"forge/forgejo, which reads all reports, because the combined status is cut to one page",
		statusList,
	},
}

type status struct {
	ID      int64  `json:"id"`
	Context string `json:"context"`
	State   string `json:"status"`
}

// status reports a check of a commit as the owner.
func (r *repo) status(commit, context, state string) {
	r.w.Helper()
	r.owner.post(r.at("/statuses/%s", commit), fields{"context": context, "state": state}).want(http.StatusCreated)
}

type combined struct {
	State    string   `json:"state"`
	Statuses []status `json:"statuses"`
}

func (r *repo) combined(commit string) combined {
	r.w.Helper()
	return read[combined](r.owner, r.at("/commits/%s/status", commit))
}

func noStatus(w *world) {
	r := w.code()
	got := r.combined(r.branch("main").Commit.ID)
	same(w, "state", got.State, "")
	same(w, "statuses", len(got.Statuses), 0)
	same(w, "reports", len(read[[]status](r.owner, r.at("/commits/main/statuses"))), 0)
}

func newestStatus(w *world) {
	r := w.code()
	commit := r.branch("main").Commit.ID
	for _, state := range []string{"pending", "failure", "success"} {
		r.status(commit, "ci/test", state)
	}
	all := read[[]status](r.owner, r.at("/commits/%s/statuses?limit=50&page=1", commit))
	same(w, "reports", len(all), 3)
	newest := slices.MaxFunc(all, func(a, b status) int { return int(a.ID - b.ID) })
	same(w, "newest", newest.State, "success")
	got := r.combined(commit)
	same(w, "combined", got.State, "success")
	if len(got.Statuses) != 1 || got.Statuses[0].ID != newest.ID {
		w.Errorf("the combined status has %+v, want only the newest report", got.Statuses)
	}
}

func combinedStatus(w *world) {
	r := w.code()
	commit := r.branch("main").Commit.ID
	for _, step := range []struct{ context, state, want string }{
		{"a", "success", "success"},
		{"b", "pending", "pending"},
		{"b", "success", "success"},
		{"c", "failure", "failure"},
		{"c", "success", "success"},
		{"d", "error", "failure"},
	} {
		r.status(commit, step.context, step.state)
		same(w, "combined with "+step.context+" "+step.state, r.combined(commit).State, step.want)
	}
}

func oddStatus(w *world) {
	r := w.code()
	commit := r.branch("main").Commit.ID
	a := r.owner.post(r.at("/statuses/%s", commit), fields{"context": "a", "state": "bogus"})
	if a.status >= 400 {
		return // a stricter version passes too
	}
	same(w, "state", decode[status](a).State, "bogus")
}

func statusRights(w *world) {
	r := w.code()
	commit := r.branch("main").Commit.ID
	report := fields{"context": "a", "state": "success"}
	r.writer("ci").post(r.at("/statuses/%s", commit), report).want(http.StatusCreated)
	r.collaborator("reader", "read").post(r.at("/statuses/%s", commit), report).want(http.StatusForbidden)
	w.account("stranger").post(r.at("/statuses/%s", commit), report).want(http.StatusForbidden)
	r.owner.post(r.at("/statuses/1111111111111111111111111111111111111111"), report).refused() // 500 in Forgejo 10
	same(w, "reports", len(read[[]status](r.owner, r.at("/commits/%s/statuses", commit))), 1)
}

func statusList(w *world) {
	r := w.code()
	commit := r.branch("main").Commit.ID
	for _, context := range []string{"a", "b", "c"} {
		r.status(commit, context, "success")
	}
	seen := map[string]bool{}
	for page := range 3 {
		a := r.owner.get(r.at("/commits/%s/statuses?limit=1&page=%d", commit, page+1)).want(http.StatusOK)
		same(w, "X-Total-Count", a.total(), 3)
		for _, s := range decode[[]status](a) {
			seen[s.Context] = true
		}
	}
	same(w, "contexts seen page by page", len(seen), 3)
}
