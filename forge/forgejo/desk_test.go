package forgejo

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
)

func (w *world) desk(login string) *Desk { return NewDesk(w.url+"/", w.tokens[login]) }

// TestDeskItems holds the desk of a session to its contract for issues: texts as they are, whole lists, errors by kind.
func TestDeskItems(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx, d := w.Context(), w.desk(w.dev)
		if login, err := d.Login(ctx); err != nil || login != w.dev {
			w.Errorf("login %q, %v", login, err)
		}
		if r, err := d.Repository(ctx, w.repo); err != nil || r.Name != w.repo || r.Branch != "main" || r.Empty {
			w.Errorf("repository %+v, %v", r, err)
		}
		n := w.file("A title", "A body\nof two lines")
		if is, err := d.Issue(ctx, w.ref(n)); err != nil || is.Ref != w.ref(n) || is.Title != "A title" ||
			is.Body != "A body\nof two lines" || is.Author != w.owner {
			w.Errorf("issue %+v, %v", is, err)
		}
		if none, err := d.Comments(ctx, w.ref(n)); err != nil || len(none) != 0 {
			w.Errorf("comments %v, %v", none, err)
		}
		for i := range pageSize + 1 {
			w.must(d.Comment(ctx, w.ref(n), fmt.Sprintf("comment %d", i)))
		}
		all, err := d.Comments(ctx, w.ref(n))
		if last := (forge.Comment{Author: w.dev, Body: fmt.Sprintf("comment %d", pageSize)}); err != nil ||
			len(all) != pageSize+1 || all[0].Body != "comment 0" || all[pageSize] != last {
			w.Errorf("%d comments, %v", len(all), err)
		}
	})
}

// TestDeskPulls opens a pull request, reviews and ends it.
func TestDeskPulls(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx, d := w.Context(), w.desk(w.dev)
		n := w.file("Wanted", "")
		branch := fmt.Sprintf("fix/issue-%d", n)
		head := w.commit(branch, "main", "tea.txt", "one\ntwo\n")
		draft := forge.PullDraft{Repo: w.repo, Head: branch, Base: "main", Title: "Make tea", Body: "As asked."}
		if none, err := d.PullsFrom(ctx, w.repo, branch); err != nil || len(none) != 0 {
			w.Errorf("before: %v, %v", none, err)
		}
		number, err := d.OpenPull(ctx, draft)
		w.must(err)
		if again, err := d.OpenPull(ctx, draft); err != nil || again != number {
			w.Errorf("opened again: #%d, %v, want #%d", again, err, number)
		}
		p, err := d.Pull(ctx, w.ref(number))
		w.must(err)
		if p.Title != draft.Title || p.Body != draft.Body || p.Author != w.dev || p.Head != branch || p.HeadSHA != head ||
			p.HeadRepo != w.repo || p.Base != "main" || p.Closed || !slices.Equal(p.Closes, []forge.Ref{w.ref(n)}) {
			w.Errorf("pull request %+v", p)
		}
		w.pull("other", "Another", "")
		if from, err := d.PullsFrom(ctx, w.repo, branch); err != nil || len(from) != 1 || from[0].Number != number {
			w.Errorf("from the branch: %+v, %v", from, err)
		}
		w.setState(number, gitea.StateClosed)
		if from, err := d.PullsFrom(ctx, w.repo, branch); err != nil || len(from) != 1 || !from[0].Closed {
			w.Errorf("once it is closed: %+v, %v", from, err)
		}
		draft.Head = "no-such-branch"
		if _, err := d.OpenPull(ctx, draft); err == nil {
			w.Error("opened a pull request from a branch that is not there")
		}
	})
}

// TestDeskReviews posts both verdicts, with a comment on a line, and reads what counts.
func TestDeskReviews(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx, d := w.Context(), w.desk(w.review)
		number, head := w.pull("tea", "Make tea", "")
		sent := []forge.FullReview{
			{
				Review: forge.Review{Verdict: forge.ChangesRequested, CommitSHA: head, Body: "Not yet."},
				Lines:  []forge.LineComment{{Path: "tea.txt", Line: 1, Body: "More sugar."}},
			},
			{Review: forge.Review{Verdict: forge.Approved, CommitSHA: head, Body: "Fine."}},
		}
		by := []string{w.boss, w.review} // a second review of one account takes the place of its first
		for i := range sent {
			w.must(w.desk(by[i]).PostReview(ctx, w.ref(number), &sent[i]))
		}
		got, err := d.Reviews(ctx, w.ref(number))
		w.must(err)
		if len(got) != len(sent) {
			w.Fatalf("%d reviews, want %d: %+v", len(got), len(sent), got)
		}
		for i, r := range got {
			if r.Author != by[i] || r.Verdict != sent[i].Verdict || r.Body != sent[i].Body || r.CommitSHA != head {
				w.Errorf("review %+v, want %+v", r, sent[i])
			}
			if diff := cmp.Diff(sent[i].Lines, r.Lines); diff != "" && w.local == nil { // localforge keeps no comments on lines
				w.Errorf("its lines (-want +got):\n%s", diff)
			}
		}
		owner, name := owner(w.repo)
		_, err = w.as(w.owner).DismissPullReview(owner, name, number, got[0].ID, gitea.DismissPullReviewOptions{Message: "x"})
		w.must(err)
		if left, err := d.Reviews(ctx, w.ref(number)); err != nil || len(left) != 1 || left[0].Verdict != forge.Approved {
			w.Errorf("after a dismissal %+v, %v", left, err)
		}
	})
}

// TestDeskChecks reads failures only, each as it was reported last.
func TestDeskChecks(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx, d := w.Context(), w.desk(w.dev)
		_, head := w.pull("tea", "Make tea", "")
		if none, err := d.Checks(ctx, w.repo, head); err != nil || len(none) != 0 {
			w.Errorf("without CI: %v, %v", none, err)
		}
		for check, states := range map[string][]gitea.StatusState{
			"z": {gitea.StatusSuccess, gitea.StatusFailure}, "a": {gitea.StatusError}, "mended": {gitea.StatusFailure, gitea.StatusSuccess},
			"at work": {gitea.StatusPending},
		} {
			for _, state := range states {
				w.status(head, check, state)
			}
		}
		got, err := d.Checks(ctx, w.repo, head)
		want := []forge.Check{{Name: "a", State: "error"}, {Name: "z", State: "failure"}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			w.Errorf("%v, (-want +got):\n%s", err, diff)
		}
	})
}

// TestDeskFiles reads and edits a repository without a clone.
func TestDeskFiles(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx, d := w.Context(), w.desk(w.dev)
		w.must(d.Edit(ctx, w.repo, "Begin", []forge.Edit{
			{Path: "notes/b é.md", Text: "b\n"}, {Path: "notes/a.md", Text: "a\n"}, {Path: "record", Text: "1\n", Append: true},
		}))
		w.must(d.Edit(ctx, w.repo, "Go on", []forge.Edit{{Path: "notes/a.md", Text: ""}, {Path: "record", Text: "2\n", Append: true}}))
		for path, want := range map[string]string{"notes/a.md": "", "notes/b é.md": "b\n", "record": "1\n2\n"} {
			if text, err := d.File(ctx, w.repo, path); err != nil || text != want {
				w.Errorf("%s is %q, %v, want %q", path, text, err, want)
			}
		}
		if names, err := d.Folder(ctx, w.repo, "notes"); err != nil || !slices.Equal(names, []string{"a.md", "b é.md"}) {
			w.Errorf("folder %q, %v", names, err)
		}
	})
}

// TestDeskErrors has each kind of failure from every method that can fail so. None tells the token.
func TestDeskErrors(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx, gone := w.Context(), w.ref(999)
		calls := map[string]func(*Desk) error{
			"Issue":      func(d *Desk) error { _, err := d.Issue(ctx, gone); return err },
			"Pull":       func(d *Desk) error { _, err := d.Pull(ctx, gone); return err },
			"Reviews":    func(d *Desk) error { _, err := d.Reviews(ctx, gone); return err },
			"Repository": func(d *Desk) error { _, err := d.Repository(ctx, w.owner+"/none"); return err },
			"File":       func(d *Desk) error { _, err := d.File(ctx, w.repo, "none"); return err },
			"Folder":     func(d *Desk) error { _, err := d.Folder(ctx, w.repo, "none"); return err },
			"PostReview": func(d *Desk) error {
				return d.PostReview(ctx, gone, &forge.FullReview{Review: forge.Review{Verdict: forge.Approved}})
			},
			"PullsFrom": func(d *Desk) error { _, err := d.PullsFrom(ctx, w.owner+"/none", "x"); return err },
		}
		down := httptest.NewServer(http.NotFoundHandler())
		down.Close()
		for name, call := range calls {
			for _, tt := range []struct {
				desk *Desk
				want error
			}{
				{w.desk(w.dev), forge.ErrNotFound},
				{NewDesk(w.url, "1234567890123456789012345678901234567890"), forge.ErrForbidden},
				{NewDesk(down.URL, "1234567890123456789012345678901234567890"), forge.ErrUnavailable},
			} {
				err := call(tt.desk)
				if !errors.Is(err, tt.want) || strings.Contains(err.Error(), tt.desk.api.Token) {
					w.Errorf("%s: %v, want %v", name, err, tt.want)
				}
			}
		}
	})
}

// TestDeskLines posts and reads comments on lines as Forgejo 10 answers, which localforge does not.
func TestDeskLines(t *testing.T) {
	var posted string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/repos/a/b/pulls/3/reviews":
			text, _ := io.ReadAll(r.Body)
			posted = string(text)
		case "GET /api/v1/repos/a/b/pulls/3/reviews":
			fmt.Fprint(w, `[{"id":7,"state":"REQUEST_CHANGES","comments_count":2,"user":{"login":"ada"}},
				{"id":8,"state":"COMMENT","comments_count":1},{"id":9,"state":"PENDING"},{"id":10,"state":"REQUEST_REVIEW"}]`)
		case "GET /api/v1/repos/a/b/pulls/3/reviews/7/comments":
			fmt.Fprint(w, `[{"path":"x.go","position":12,"body":"new"},{"path":"y.go","position":0,"original_position":4,"body":"old"}]`)
		default: // the comments of review 8 are gone
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	d, ref := NewDesk(server.URL, "t"), forge.Ref{Repo: "a/b", Number: 3}
	sent := forge.FullReview{
		Review: forge.Review{Verdict: forge.ChangesRequested, CommitSHA: "abc", Body: "No."},
		Lines:  []forge.LineComment{{Path: "x.go", Line: 12, Body: "new"}},
	}
	if err := d.PostReview(t.Context(), ref, &sent); err != nil {
		t.Fatal(err)
	}
	want := `{"body":"No.","comments":[{"body":"new","new_position":12,"path":"x.go"}],"commit_id":"abc","event":"REQUEST_CHANGES"}`
	if posted != want+"\n" {
		t.Errorf("posted %s, want %s", posted, want)
	}
	got, err := d.Reviews(t.Context(), ref)
	if diff := cmp.Diff([]forge.FullReview{
		{
			Review: forge.Review{ID: 7, Author: "ada", Verdict: forge.ChangesRequested},
			Lines:  []forge.LineComment{{Path: "x.go", Line: 12, Body: "new"}, {Path: "y.go", Line: 4, Body: "old"}},
		},
		{Review: forge.Review{ID: 8, Verdict: forge.Commented}},
	}, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

// TestDeskCheckLog asks the forge alone for a log, whatever host the status names, and only where Forgejo Actions has it.
func TestDeskCheckLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a/b/actions/runs/7/jobs/0/logs", "/a/b/actions/runs/8/jobs/1/attempt/2/logs":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, "compile\nFAIL: TestTea\n")
		case "/a/b/actions/runs/9/jobs/0/logs":
			http.Redirect(w, r, "/user/login", http.StatusSeeOther)
		case "/user/login":
			fmt.Fprint(w, "<html>sign in</html>")
		default:
			t.Errorf("asked for %s", r.URL.Path)
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked for %s", r.URL.Path)
	}))
	defer other.Close()
	for _, tt := range []struct {
		url, want string
		err       error
	}{
		{"/a/b/actions/runs/7/jobs/0", "compile\nFAIL: TestTea\n", nil},
		{"/a/b/actions/runs/8/jobs/1/attempt/2", "compile\nFAIL: TestTea\n", nil},
		{other.URL + "/a/b/actions/runs/7/jobs/0", "compile\nFAIL: TestTea\n", nil}, // the forge by its public name
		{"/a/b/actions/runs/9/jobs/0", "", forge.ErrForbidden},                      // a private repository's page wants a person
		{"/x/y/actions/runs/7/jobs/0", "", nil},
		{"/a/b/actions/runs/7/jobs/0?x=/a/b/actions/runs/7/jobs/", "", nil},
		{"https://ci.example/build/5", "", nil},
		{"", "", nil},
	} {
		got, err := NewDesk(server.URL, "t").CheckLog(t.Context(), "a/b", forge.Check{URL: tt.url})
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.url, got, err, tt.want, tt.err)
		}
	}
}
