package rules

import (
	"net/http"
	"time"
)

var permissionRules = []rule{
	{
		"each role has its rights on a public repository",
		"threads, which trusts labels because only writers set them, and forge/forgejo, for which 403 is forge.ErrForbidden",
		publicRights,
	},
	{
		"a stranger's issue has no labels and no assignees",
		"threads: the label backlog means that an account with write access wants the work done",
		strangersIssue,
	},
	{
		"authors can edit and close only their own issues",
		"threads, which treats the text of an issue as untrusted data of its author",
		authorsRights,
	},
	{
		"writers can edit other accounts' comments",
		"forge/forgejo Comment: any agent can remove the mark from a comment of ours",
		changedComments,
	},
	{
		"strangers get 404 for a private repository",
		"forge/forgejo: a 404 can also mean a hidden repository",
		privateRepository,
	},
}

// publicRights: the columns are owner, writer, reader, stranger and anonymous.
func publicRights(w *world) {
	const (
		ok, made, done   = http.StatusOK, http.StatusCreated, http.StatusNoContent
		forbidden, login = http.StatusForbidden, http.StatusUnauthorized
	)
	administers := [5]int{ok, forbidden, forbidden, forbidden, login}
	writes, makes := [5]int{ok, ok, forbidden, forbidden, login}, [5]int{made, made, forbidden, forbidden, login}
	r := w.repo()
	people := []*account{
		r.owner, r.writer("writer"), r.collaborator("reader", "read"), w.account("stranger"), w.anonymous(),
	}
	id := r.label("backlog")
	n := r.open("first")
	for _, row := range []struct {
		what   string
		method string
		path   string
		body   any
		want   [5]int
	}{
		{"read an issue", http.MethodGet, "/issues/1", nil, [5]int{ok, ok, ok, ok, ok}},
		{"open an issue", http.MethodPost, "/issues", fields{"title": "t"}, [5]int{made, made, made, made, login}},
		{"comment", http.MethodPost, "/issues/1/comments", fields{"body": "b"}, [5]int{made, made, made, made, login}},
		{"add a label", http.MethodPost, "/issues/1/labels", fields{"labels": []int64{id}}, writes},
		{"make a label", http.MethodPost, "/labels", fields{"name": "x", "color": "#00aabb"}, makes},
		{"assign", http.MethodPatch, "/issues/1", fields{"assignees": []string{r.owner.name}}, makes},
		{"close", http.MethodPatch, "/issues/1", fields{"state": "closed"}, makes},
		{"reopen", http.MethodPatch, "/issues/1", fields{"state": "open"}, makes},
		{"read hooks", http.MethodGet, "/hooks", nil, administers},
		{"edit the repository", http.MethodPatch, "", fields{"description": "d"}, administers},
	} {
		for i, a := range people {
			got := a.call(row.method, r.at("%s", row.path), row.body).status
			if got != row.want[i] {
				w.Errorf("%s, as %s: got %d, want %d", row.what, a.name, got, row.want[i])
			}
		}
	}
	for i, a := range people {
		r.addLabels(n, "backlog")
		want := [5]int{done, done, forbidden, forbidden, login}[i]
		same(w, "remove a label, as "+a.name, a.remove(r.at("/issues/%d/labels/%d", n, id)).status, want)
	}
}

func strangersIssue(w *world) {
	r := w.repo()
	dev, stranger := r.writer("dev"), w.account("stranger")
	id := r.label("backlog")
	a := stranger.post(r.at("/issues"), fields{
		"title": "do my work", "labels": []int64{id}, "assignees": []string{dev.name}, "assignee": dev.name,
	}).want(http.StatusCreated)
	for _, i := range []issue{decode[issue](a), r.issue(1)} {
		same(w, "labels", i.labels(), "")
		same(w, "assignees", i.assignees(), "")
	}
	stranger.patch(r.at("/issues/1"), fields{"assignees": []string{stranger.name}})
	same(w, "assignees after the stranger's edit", r.issue(1).assignees(), "")
}

func authorsRights(w *world) {
	r := w.repo()
	author, other := w.account("author"), w.account("other")
	author.post(r.at("/issues"), fields{"title": "mine"}).want(http.StatusCreated)
	author.patch(r.at("/issues/1"), fields{"title": "still mine", "body": "text", "state": "closed"}).
		want(http.StatusCreated)
	same(w, "state", r.issue(1).State, "closed")
	other.patch(r.at("/issues/1"), fields{"state": "open"}).want(http.StatusForbidden)
	author.patch(r.at("/issues/1"), fields{"state": "open"}).want(http.StatusCreated)
	i := r.issue(1)
	same(w, "title and text", i.Title+" "+i.Body, "still mine text")
}

func changedComments(w *world) {
	r := w.repo()
	author, writer, reader := w.account("author"), r.writer("writer"), r.collaborator("reader", "read")
	r.open("first")
	id := decode[issueComment](author.post(r.at("/issues/1/comments"), fields{"body": "said"}).want(http.StatusCreated)).ID
	path := r.at("/issues/comments/%d", id)
	reader.patch(path, fields{"body": "changed"}).want(http.StatusForbidden)
	reader.remove(path).want(http.StatusForbidden)
	author.patch(path, fields{"body": "said better"}).want(http.StatusOK)
	writer.patch(path, fields{"body": "changed"}).want(http.StatusOK)
	got := read[[]issueComment](r.owner, r.at("/issues/1/comments"))
	if len(got) != 1 || got[0].Body != "changed" || got[0].User.Login != author.name {
		w.Errorf("got %+v, want the changed text under the name of %s", got, author.name)
	}
	writer.remove(path).want(http.StatusNoContent)
	same(w, "comments", len(read[[]issueComment](r.owner, r.at("/issues/1/comments"))), 0)
}

type issueComment struct {
	ID      int64     `json:"id"`
	Body    string    `json:"body"`
	User    *user     `json:"user"`
	Created time.Time `json:"created_at"`
}

func privateRepository(w *world) {
	r := w.account("owner").repo("secret", fields{"private": true})
	r.open("first")
	for _, a := range []*account{w.account("stranger"), w.anonymous()} {
		for _, path := range []string{"", "/issues", "/issues/1", "/labels", "/pulls"} {
			a.get(r.at("%s", path)).want(http.StatusNotFound)
		}
	}
	r.collaborator("reader", "read").get(r.at("/issues/1")).want(http.StatusOK)
}
