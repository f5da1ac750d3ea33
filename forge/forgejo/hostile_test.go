package forgejo

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// hostile is a forge that generates its list of issues while the client reads it.
type hostile struct {
	total  int                    // X-Total-Count; -1 to send none
	number func(offset int) int64 // number of the issue at an offset; 0 after the last issue
	body   func(number int64) int // length of the issue's text
	names  string                 // what each text also names
	label  string                 // of each issue; empty means backlog
	mu     sync.Mutex
	asked  int
	most   uint64 // bytes of the heap while an answer was read
}

func (h *hostile) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	h.asked++
	h.mu.Unlock()
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Request: r}
	resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	body := "[]"
	switch q := r.URL.Query(); {
	case strings.HasSuffix(r.URL.Path, "/repos/o/r"):
		body = `{"full_name":"o/r","default_branch":"main","has_issues":true,"internal_tracker":{}}`
	case strings.Contains(r.URL.Path, "/issues/") && !strings.HasSuffix(r.URL.Path, "s"): // one issue
		resp.StatusCode = http.StatusNotFound
	case strings.HasSuffix(r.URL.Path, "/issues") && q.Get("state") == "open":
		page, _ := strconv.Atoi(q.Get("page"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		if h.total >= 0 {
			resp.Header.Set("X-Total-Count", strconv.Itoa(h.total))
		}
		resp.Body = io.NopCloser(h.list((page-1)*limit, limit))
		return resp, nil
	}
	resp.Body = io.NopCloser(strings.NewReader(body))
	return resp, nil
}

// list generates a page of the list.
func (h *hostile) list(from, limit int) io.Reader {
	parts := []io.Reader{strings.NewReader("[")}
	for offset := from; offset < from+limit; offset++ {
		n := h.number(offset)
		if n == 0 {
			break
		}
		if offset > from {
			parts = append(parts, strings.NewReader(","))
		}
		parts = append(parts, strings.NewReader(fmt.Sprintf(`{"id":%d,"number":%[1]d,"state":"open","title":"t",
			"repository":{"full_name":"o/r"},"labels":[{"name":%[3]q}],"created_at":"2026-01-02T03:04:05Z",
			"updated_at":"2026-01-02T03:04:05Z","body":"Depends on #%[2]d%[4]s. `, n, n+1000, cmp.Or(h.label, "backlog"), h.names)),
			&filler{h, h.body(n)}, strings.NewReader(`"}`))
	}
	return io.MultiReader(append(parts, strings.NewReader("]"))...)
}

var letters = strings.Repeat("x", 1<<12)

// filler returns so many letters, and measures the heap now and then.
type filler struct {
	h    *hostile
	left int
}

func (f *filler) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := min(f.left, len(p))
	for filled := 0; filled < n; {
		filled += copy(p[filled:n], letters)
	}
	if f.left -= n; f.left%(4<<20) < n {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.h.mu.Lock()
		f.h.most = max(f.h.most, m.HeapAlloc)
		f.h.mu.Unlock()
	}
	return n, nil
}

func (h *hostile) client(t *testing.T) *Client {
	t.Helper()
	c, err := New(Options{URL: "http://forge.test", Token: "t", Repos: []string{"o/r"}, HTTP: &http.Client{Transport: h}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Issues of 10 MB do not affect other issues. An issue that exceeds the limit of an answer is lost, but no other
// issue is. Eight such issues once stopped the whole repository, and took 553 MB. make check uses the full sizes,
// make test a 128th of them.
func TestHugeIssues(t *testing.T) {
	scale := sized(1, 128)
	synctest.Test(t, func(t *testing.T) {
		h := &hostile{
			total: 120, number: func(offset int) int64 {
				if offset >= 120 {
					return 0
				}
				return int64(offset + 1)
			},
			body: func(n int64) int {
				switch {
				case n == 77:
					return maxRaw/scale + 1 // longer than any answer may be
				case n > 20 && n <= 28:
					return 10 << 20 / scale
				}
				return 100
			},
		}
		c := h.client(t)
		c.longest = int64(maxRaw / scale)
		facts, err := c.Scan(t.Context())
		if err == nil || !strings.Contains(err.Error(), "left out 1 unreadable entries of GET /repos/o/r/issues") {
			t.Errorf("got %v, want an error about one unreadable entry", err)
		}
		if len(facts.Issues) != 119 {
			t.Errorf("got %d issues, want all but one of 120", len(facts.Issues))
		}
		for _, is := range facts.Issues {
			if !slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool { return b.Number == is.Number+1000 }) &&
				is.BlockersKnown {
				t.Errorf("#%d has lost its blocker: %v", is.Number, is.Blockers)
			}
			if long := is.Number > 20 && is.Number <= 28; is.Cut != long || is.BlockersKnown == long {
				t.Errorf("#%d: cut %v, its blockers known %v", is.Number, is.Cut, is.BlockersKnown)
			}
			if len(is.Body) > longBody {
				t.Errorf("the facts hold %[2]d bytes of the text of #%[1]d", is.Number, len(is.Body))
			}
		}
		if r, _ := facts.Repo("o/r"); r.AsOf.IsZero() {
			t.Error("the repository does not count as read")
		}
		if h.most > 128<<20 {
			t.Errorf("the heap had %d MB, want at most 128", h.most>>20)
		}
		t.Logf("%d requests, at most %d MB of heap", h.asked, h.most>>20)
	})
}

// A page that is repeated for ever ends the list.
func TestEndlessPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hostile{
			total: 1 << 40, number: func(offset int) int64 { return int64(offset%50 + 1) },
			body: func(int64) int { return 10 },
		}
		c := h.client(t)
		open := c.issues("o/r", gitea.ListIssueOption{State: gitea.StateOpen})
		all, _, err := open.all(t.Context())
		if err != nil || len(all) != 100 || h.asked != 2 {
			t.Errorf("list returned %d entries with %d requests, %v", len(all), h.asked, err)
		}
		h.asked = 0
		all, _, err = open.atOnce(t.Context())
		if err != nil || h.asked != 1+pagesAtOnce {
			t.Errorf("atOnce returned %d entries with %d requests, %v", len(all), h.asked, err)
		}
	})
}

// However many issues a repository has, and whatever they name, a scan keeps a bounded amount of them. Those whose
// references are not kept are held, the newest first. An endless list of new issues took 1.1 GB in 25 s.
func TestEverNewIssues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names strings.Builder
		for n := range 600 {
			fmt.Fprintf(&names, " #%d", n+1)
		}
		last := int64(sized(5_000, 340))
		h := &hostile{
			total: -1, number: func(offset int) int64 { return max(0, last-int64(offset)) }, names: names.String(),
			body: func(int64) int { return 100 },
		}
		c := h.client(t)
		_, _ = c.Scan(t.Context()) // fails, because this forge answers only lists
		r := c.repo("o/r")
		whole := int64(mostNamedInAll / 601)
		for _, tt := range []struct {
			number int64
			cut    bool
		}{{1, false}, {whole, false}, {whole + 1, true}, {last, true}} {
			if i := r.issues[tt.number]; i == nil || i.Cut != tt.cut || i.Body != "" {
				t.Errorf("#%d: got %+v, want it cut: %v", tt.number, i, tt.cut)
			}
		}
		if r.named > mostNamedInAll {
			t.Errorf("the cache has %d references, want at most %d", r.named, mostNamedInAll)
		}
		if h.most > 400<<20 {
			t.Errorf("the heap had %d MB, want at most 400", h.most>>20)
		}
		t.Logf("%d issues, at most %d MB of heap, %d references", len(r.issues), h.most>>20, r.named)
		// A text that can name no blocker, because nothing starts the issue, is not kept at all.
		h.label, h.names = "question", ""
		c = h.client(t)
		_, _ = c.Scan(t.Context()) // fails, because this forge answers only lists
		if r := c.repo("o/r"); r.named != 0 || len(r.issues) != int(last) {
			t.Errorf("without the label: got %d references of %d issues", r.named, len(r.issues))
		}
	})
}

// An issue that names more issues than gist stores counts as cut: those left out can be blockers too.
func TestManyReferences(t *testing.T) {
	self := forge.Ref{Repo: "o/r", Number: 1}
	for _, tt := range []struct {
		refs int
		cut  bool
	}{{mostNamed, false}, {mostNamed + 1, true}} {
		body := new(strings.Builder)
		body.WriteString("Depends on ")
		for n := range tt.refs {
			fmt.Fprintf(body, "#%d ", n+2)
		}
		short := gist(body.String(), self)
		if got := len(forge.Dependencies(short, self)); wasCut(short) != tt.cut || got != mostNamed {
			t.Errorf("of %d references: cut %v, %d kept", tt.refs, wasCut(short), got)
		}
	}
}
