package forgejo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// listOf is a list of that many issues, numbered from 1, from a forge whose pages have at most limit entries. It counts
// its requests.
func listOf(entries, limit int, hasTotal bool, requests *int) list[gitea.Issue] {
	page := func(_ context.Context, o gitea.ListOptions) (some []*gitea.Issue, _ *exchange, _ error) {
		*requests++
		size := min(o.PageSize, limit)
		for n := (o.Page-1)*size + 1; n <= min(o.Page*size, entries); n++ {
			some = append(some, &gitea.Issue{ID: int64(n), Index: int64(n)})
		}
		total := -1
		if hasTotal {
			total = entries
		}
		return some, &exchange{total: total}, nil
	}
	return list[gitea.Issue]{id: issueID, page: page}
}

// TestReadUpTo: a page shorter than ours does not end a list, because the forge's administrator can limit pages.
func TestReadUpTo(t *testing.T) {
	for _, tt := range []struct {
		entries, limit, want int
		hasTotal             bool
		most                 int // requests
	}{
		{entries: 0, limit: 50, hasTotal: true, most: 1},
		{entries: 50, limit: 50, want: 50, hasTotal: true, most: 1},
		{entries: 120, limit: 50, want: 120, hasTotal: true, most: 3},
		{entries: 120, limit: 20, want: 120, hasTotal: true, most: 6},
		{entries: 120, limit: 20, want: 120, most: 7},
		{entries: 400, limit: 20, want: 150, hasTotal: true, most: 8},
		{entries: 400, limit: 20, want: 150, most: 8},
		{entries: 400, limit: 1, want: 15, hasTotal: true, most: 15}, // bounded
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			requests := 0
			got, err := listOf(tt.entries, tt.limit, tt.hasTotal, &requests).upTo(t.Context(), 150)
			if err != nil || len(got) != tt.want || requests > tt.most {
				t.Fatalf("%d entries with %d requests, %v; want %d with at most %d", len(got), requests, err, tt.want, tt.most)
			}
			for i, in := range got {
				if in.Index != int64(i+1) {
					t.Errorf("entry %d is #%d", i, in.Index)
				}
			}
		})
	}
	t.Run("a list that is never paged", func(t *testing.T) {
		whole := list[gitea.Issue]{id: issueID}
		whole.page = func(context.Context, gitea.ListOptions) ([]*gitea.Issue, *exchange, error) {
			return []*gitea.Issue{{ID: 1}, {ID: 2}}, &exchange{total: -1}, nil
		}
		if got, err := whole.upTo(t.Context(), 150); err != nil || len(got) != 2 {
			t.Errorf("%d entries, %v; want 2", len(got), err)
		}
	})
}

// capped limits the pages of the forge, as [api] MAX_RESPONSE_ITEMS does.
func (w *world) capped(limit int) {
	w.fault = func(r *http.Request) faults.Fault {
		query := r.URL.Query()
		if size, err := strconv.Atoi(query.Get("limit")); err == nil && size > limit {
			query.Set("limit", strconv.Itoa(limit))
			r.URL.RawQuery = query.Encode()
		}
		return faults.None
	}
}

// TestLowLimit: on a forge whose pages have at most 20 entries, a scan misses nothing, and neither does a session's
// desk, which did not find its own pull request among forty.
func TestLowLimit(t *testing.T) {
	t.Run("scan", func(t *testing.T) {
		onLocal(t, func(w *world) {
			w.capped(20)
			var want []int64
			for n := range 45 {
				want = append(want, w.file(fmt.Sprint("issue ", n), "", "backlog"))
			}
			var got []int64
			for _, i := range w.scan(w.client()).Issues {
				got = append(got, i.Number)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				w.Errorf("the scan has the issues %v, want %v", got, want)
			}
		})
	})
	t.Run("desk", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page, _ := strconv.Atoi(r.FormValue("page"))
			w.Header().Set("X-Total-Count", "41")
			var some []map[string]any
			for n := (page-1)*20 + 1; n <= min(page*20, 41); n++ {
				some = append(some, map[string]any{"id": n, "number": n, "head": map[string]string{"ref": fmt.Sprint("b", n)}})
			}
			_ = json.NewEncoder(w).Encode(some)
		}))
		defer server.Close()
		found, err := NewDesk(server.URL, "t").PullsFrom(t.Context(), "a/b", "b41")
		if err != nil || len(found) != 1 || found[0].Number != 41 {
			t.Errorf("PullsFrom returned %+v, %v; want #41", found, err)
		}
	})
}

// TestLongAnswers: where the forge's pages are short, a page that is too long as a whole is read in smaller ones, and
// the pages after it are read too. In make test the first page is too long, in make check also a later one.
func TestLongAnswers(t *testing.T) {
	labels := "[" + strings.Repeat("0,", maxAll/20) + "0]"
	for _, long := range []int{1, 3}[:sized(2, 1)] {
		t.Run(fmt.Sprint("page ", long), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, _ := strconv.Atoi(r.FormValue("page"))
				size, _ := strconv.Atoi(r.FormValue("limit"))
				size = min(size, 20)
				w.Header().Set("X-Total-Count", "95")
				var some []string
				for n := (page-1)*size + 1; n <= min(page*size, 95); n++ {
					text := fmt.Sprintf(`{"id": %d, "number": %d}`, n, n)
					if n > (long-1)*20 && n <= long*20 {
						text = fmt.Sprintf(`{"id": %d, "number": %d, "labels": %s}`, n, n, labels)
					}
					some = append(some, text)
				}
				_, _ = io.WriteString(w, "["+strings.Join(some, ",")+"]")
			}))
			defer server.Close()
			c, err := New(Options{URL: server.URL, Token: "t", Repos: []string{"a/b"}, HTTP: server.Client()})
			if err != nil {
				t.Fatal(err)
			}
			x := c.issues("x/x", gitea.ListIssueOption{})
			for name, read := range map[string]func(context.Context) ([]*gitea.Issue, *exchange, error){
				"all": x.all, "atOnce": x.atOnce,
			} {
				all, _, err := read(t.Context())
				seen := map[int64]bool{}
				null := 0
				for _, in := range all {
					if in == nil {
						null++
					} else {
						seen[in.Index] = true
					}
				}
				if err != nil || len(seen) != 75 || null < 20 {
					t.Errorf("%s: %d entries and %d unreadable ones, %v; want 75 and 20", name, len(seen), null, err)
				}
			}
		})
	}
}

// TestUnnumbered: an issue or pull request without a number, or with a negative one, counts as one that the forge
// cannot load. Such an issue was shown as owner/repo#-1.
func TestUnnumbered(t *testing.T) {
	c := clientOf(t, say(200, `[{"id":1,"number":-1},{"id":2,"number":0},{"id":3},{"id":4,"number":7}]`))
	ref := forge.Ref{Repo: "o/r", Number: 1}
	for name, l := range map[string]list[gitea.Issue]{
		"issues": c.issues("o/r", gitea.ListIssueOption{}), "dependencies": c.dependencies(ref),
	} {
		all, _, err := l.all(t.Context())
		if err != nil || len(all) != 4 || all[3] == nil || slices.ContainsFunc(all[:3], func(in *gitea.Issue) bool {
			return in != nil
		}) {
			t.Errorf("%s: got %v, %v; want #7 after three that cannot be loaded", name, all, err)
		}
	}
	all, _, err := c.pulls("o/r", gitea.StateAll, "").all(t.Context())
	if err != nil || len(all) != 4 || all[3] == nil || slices.ContainsFunc(all[:3], func(in *gitea.PullRequest) bool {
		return in != nil
	}) {
		t.Errorf("pull requests: got %v, %v; want #7 after three that cannot be loaded", all, err)
	}
}
