package forgejo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgetest"
)

// TestDesk: a Desk is a desk for the built-in agent program.
func TestDesk(t *testing.T) {
	forgetest.ExerciseDesk(t, func(t *testing.T, check func(testing.TB, forgetest.DeskSite)) {
		onEachEmptyServer(t, func(w *world, _, _ string) { check(w.T, deskSite{site{w}}) })
	})
}

// deskSite is a site behind a real server, because a Desk has its own transport.
type deskSite struct{ site }

func (s deskSite) Desk(token string) forgetest.Desk { return NewDesk(s.w.url+"/", token) }

func (w *world) desk(login string) *Desk { return NewDesk(w.url, w.tokens[login]) }

// TestDeskEnds: PullsFrom still lists a closed pull request; Reviews leaves out a dismissed review.
func TestDeskEnds(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx, d := w.Context(), w.desk(w.dev)
		number, head := w.pull("tea", "Make tea", "")
		w.verdict(w.review, number, head, gitea.ReviewStateRequestChanges)
		all, err := d.Reviews(ctx, w.ref(number))
		if w.must(err); len(all) != 1 {
			w.Fatalf("%d reviews, want one", len(all))
		}
		owner, name := owner(w.repo)
		_, err = w.as(w.owner).DismissPullReview(owner, name, number, all[0].ID, gitea.DismissPullReviewOptions{Message: "x"})
		w.must(err)
		if left, err := d.Reviews(ctx, w.ref(number)); err != nil || len(left) != 0 {
			w.Errorf("after the dismissal %+v, %v", left, err)
		}
		w.setState(number, gitea.StateClosed)
		if from, err := d.PullsFrom(ctx, w.repo, "tea"); err != nil || len(from) != 1 || !from[0].Closed {
			w.Errorf("PullsFrom, once the pull request is closed: %+v, %v", from, err)
		}
	})
}

// TestDeskWhole: a Desk reads long texts whole. A page for people in place of a commit's checks is an error: the SDK
// takes it for a commit without checks.
func TestDeskWhole(t *testing.T) {
	long := strings.Repeat("x", 2*maxText)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/status") {
			fmt.Fprint(w, "<html>login</html>")
			return
		}
		fmt.Fprintf(w, `{"number":3,"body":%q}`, long)
	}))
	defer server.Close()
	d := NewDesk(server.URL, "t")
	if in, err := d.Issue(t.Context(), forge.Ref{Repo: "a/b", Number: 3}); err != nil || in.Body != long {
		t.Errorf("Issue returned %d bytes of text, %v; want %d", len(in.Body), err, len(long))
	}
	if checks, err := d.Checks(t.Context(), "a/b", "abc"); !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("Checks returned %v, %v; want %v", checks, err, forge.ErrUnavailable)
	}
}

// TestDeskDown: if the forge does not answer, the error is forge.ErrUnavailable and does not contain the token.
func TestDeskDown(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	const token = "1234567890123456789012345678901234567890"
	_, err := NewDesk(down.URL, token).Login(t.Context())
	if !errors.Is(err, forge.ErrUnavailable) || strings.Contains(err.Error(), token) {
		t.Errorf("got %v", err)
	}
}

// TestDeskLines posts and reads line comments in the form of Forgejo 10, which localforge does not support.
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
			fmt.Fprint(w, `[{"path":"x.go","position":12,"body":"new","user":{"login":"ada"}},
				{"user":{"login":"mallory"},"path":"y.go","position":0,"original_position":4,"body":"old"}]`)
		default: // the comments of review 8 were deleted
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
	want := `{"event":"REQUEST_CHANGES","body":"No.","commit_id":"abc",` +
		`"comments":[{"path":"x.go","body":"new","old_position":0,"new_position":12}]}`
	if posted != want {
		t.Errorf("posted %s, want %s", posted, want)
	}
	got, err := d.Reviews(t.Context(), ref)
	if diff := cmp.Diff([]forge.FullReview{
		{
			Review: forge.Review{ID: 7, Author: "ada", Verdict: forge.ChangesRequested},
			Lines: []forge.LineComment{
				{Author: "ada", Path: "x.go", Line: 12, Body: "new"}, {Author: "mallory", Path: "y.go", Line: 4, Body: "old"},
			},
		},
		{Review: forge.Review{ID: 8, Verdict: forge.Commented}},
	}, got); diff != "" || err != nil {
		t.Errorf("Reviews returned error %v, (-want +got):\n%s", err, diff)
	}
}

// TestDeskCheckLog: a log is requested from the forge only, whatever host the status names, and only for a Forgejo
// Actions job.
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
			t.Errorf("the desk requested %s", r.URL.Path)
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the desk requested %s from another host", r.URL.Path)
	}))
	defer other.Close()
	for _, tt := range []struct {
		url, want string
		err       error
	}{
		{"/a/b/actions/runs/7/jobs/0", "compile\nFAIL: TestTea\n", nil},
		{"/a/b/actions/runs/8/jobs/1/attempt/2", "compile\nFAIL: TestTea\n", nil},
		{other.URL + "/a/b/actions/runs/7/jobs/0", "compile\nFAIL: TestTea\n", nil}, // the forge's public name
		{"/a/b/actions/runs/9/jobs/0", "", forge.ErrForbidden},                      // a page of a private repository
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

// The newest reviews of a pull request are read, however many older ones there are, with a bounded number of requests.
func TestDeskManyReviews(t *testing.T) {
	for _, tt := range []struct{ reviews, requests, newest int }{{240, 5, 240}, {1_000_000, 20, 1000}} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			page, _ := strconv.Atoi(r.URL.Query().Get("page"))
			w.Header().Set("X-Total-Count", strconv.Itoa(tt.reviews))
			var list []map[string]any
			for id := (page-1)*50 + 1; id <= min(page*50, tt.reviews); id++ {
				list = append(list, map[string]any{"id": id, "state": "COMMENT", "body": "no"})
			}
			_ = json.NewEncoder(w).Encode(list)
		}))
		got, err := NewDesk(server.URL, "t").Reviews(t.Context(), forge.Ref{Repo: "a/b", Number: 3})
		server.Close()
		if err != nil || len(got) != 150 || got[149].ID != int64(tt.newest) || requests != tt.requests {
			t.Errorf("Reviews returned %d of %d reviews with %d requests, %v", len(got), tt.reviews, requests, err)
		}
	}
}
