package forgejo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// TestOutage: while the forge is down, the client tries it at growing intervals, and it notices when the forge is back.
func TestOutage(t *testing.T) {
	for name, fault := range map[string]faults.Fault{
		"drop": faults.Drop, "limit": faults.Limit,
		"lose": faults.Lose,
	} {
		t.Run(name, func(t *testing.T) {
			onLocal(t, func(w *world) {
				n := w.file("one", "", "backlog")
				c := w.client()
				w.scan(c)
				down := time.Now()
				w.fault = func(*http.Request) faults.Fault { return fault }
				tries := 0
				for time.Since(down) < 10*time.Minute {
					made := w.requests(c, func() {
						f, err := c.Scan(w.Context())
						if !errors.Is(err, forge.ErrUnavailable) {
							w.Fatalf("got %v", err)
						}
						if i := f.Issue(w.ref(n)); i == nil || i.AsOf.After(down) {
							w.Fatalf("facts while the forge is down: %+v", i)
						}
					})
					if made > 1 {
						w.Errorf("a scan made %d requests, want at most 1", made)
					}
					tries += int(made)
					time.Sleep(time.Second)
				}
				if tries < 10 || tries > 26 { // pauses of 1, 2, 4, 8, 16, 32, 60, 60... s, each at least half as long
					w.Errorf("the client tried %d times in ten minutes, want 10 to 26", tries)
				}
				w.fault = nil
				time.Sleep(longPause)
				w.scan(c)
				w.fault = func(*http.Request) faults.Fault { return fault }
				_, _ = c.Scan(w.Context())
				w.fault = nil
				time.Sleep(2 * time.Second)
				w.scan(c) // the pauses begin with the shortest again
			})
		})
	}
}

// TestWritesDuringOutage: writes are tried even while scans pause.
func TestWritesDuringOutage(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog", "in-progress")
		w.assign(n, w.dev)
		c := w.client()
		w.fault = func(*http.Request) faults.Fault { return faults.Drop }
		if _, err := c.Scan(w.Context()); err == nil {
			w.Fatal("no error")
		}
		w.fault = nil
		w.must(c.Release(w.Context(), w.ref(n), w.dev))
		if got := w.state(n); got != "backlog" {
			w.Errorf("got %s", got)
		}
	})
}

// TestRetryAfter: both forms of the header are honoured, up to a bound.
func TestRetryAfter(t *testing.T) {
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"7", 7 * time.Second},
		{"-7", 0},
		{"soon", 0},
		{date.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{date.Format(http.TimeFormat), 0},
	} {
		if got := retryAfter(tc.header, date); got != tc.want {
			t.Errorf("%q: %v, want %v", tc.header, got, tc.want)
		}
	}
	for _, tc := range []struct{ asked, want time.Duration }{
		{20 * time.Second, 20 * time.Second},
		{5 * time.Hour, longestAsked},
	} {
		var p pause
		now := time.Now()
		p.fail(now, &requestError{kind: forge.ErrUnavailable, retryAfter: tc.asked})
		if got := p.until.Sub(now); got != tc.want {
			t.Errorf("Retry-After %v: waits %v, want %v", tc.asked, got, tc.want)
		}
	}
}

func TestPause(t *testing.T) {
	var p pause
	now := time.Now()
	if err := p.check(now); err != nil {
		t.Errorf("check without a failure: %v", err)
	}
	for n, longest := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		p.fail(now, forge.ErrNotFound)
		if wait := p.until.Sub(now); wait < longest*time.Second/2 || wait > longest*time.Second {
			t.Errorf("failure %d: waits %v, want between half of %d s and all of it", n+1, wait, longest)
		}
	}
	for range 100 {
		p.fail(now, forge.ErrNotFound)
	}
	if err := p.check(p.until.Add(-1)); !errors.Is(err, forge.ErrNotFound) ||
		!strings.Contains(err.Error(), "next try at") {
		t.Errorf("check before the next try is due: %v", err)
	}
	if err := p.check(p.until); err != nil {
		t.Errorf("check when the next try is due: %v", err)
	}
	p.succeed()
	if p != (pause{}) {
		t.Errorf("after a success: %+v", p)
	}
}

// TestHangingForge: no request takes longer than its deadline, and a scan gives up after the first request that times
// out.
func TestHangingForge(t *testing.T) {
	onLocal(t, func(w *world) {
		c := w.client()
		w.scan(c)
		w.fault = func(*http.Request) faults.Fault { return faults.Hang }
		begin := time.Now()
		_, err := c.Scan(w.Context())
		if !errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("got %v", err)
		}
		if took := time.Since(begin); took != requestTime {
			w.Errorf("took %v", took)
		}
	})
}

// TestCancelledScan: a cancelled scan returns at once with the context's error, and does not count as an outage.
func TestCancelledScan(t *testing.T) {
	onLocal(t, func(w *world) {
		c := w.client()
		w.fault = func(*http.Request) faults.Fault { return faults.Hang }
		ctx, cancel := context.WithCancel(w.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		begin := time.Now()
		if _, err := c.Scan(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, forge.ErrUnavailable) {
			w.Errorf("got %v", err)
		}
		if took := time.Since(begin); took != time.Second {
			w.Errorf("took %v", took)
		}
		w.fault = nil
		w.scan(c)
	})
}

// TestAtOnce: a scan with enough to read makes four concurrent requests, and never more.
func TestAtOnce(t *testing.T) {
	onLocal(t, func(w *world) {
		for n := range 30 {
			w.file(fmt.Sprintf("issue %d", n), "", "backlog")
		}
		second := w.newRepo("second", w.boss, w.dev, w.review)
		var now, most atomic.Int32
		next := w.transport
		w.transport = answers(func(req *http.Request) (*http.Response, error) {
			defer now.Add(-1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(10 * time.Millisecond)
			return next.RoundTrip(req)
		})
		w.scan(w.client(func(o *Options) { o.Repos = append(o.Repos, second) }))
		if most.Load() != atOnce {
			w.Errorf("the scan made %d concurrent requests, want %d", most.Load(), atOnce)
		}
	})
}

// TestTogether: concurrent scans, looks and writes do not disturb each other.
func TestTogether(t *testing.T) {
	onEach(t, func(w *world) {
		n, other := w.file("one", "depends on #2", "backlog"), w.file("other", "", "backlog")
		p, _ := w.pull("fix/issue-1", "Work", "Fixes #1")
		c := w.client()
		w.scan(c)
		var wg sync.WaitGroup
		for _, call := range []func() error{
			func() error { _, err := c.Scan(w.Context()); return err },
			func() error { _, err := c.Scan(w.Context()); return err },
			func() error { _, err := c.FetchItem(w.Context(), w.ref(p), time.Time{}); return err },
			func() error { _, err := c.FetchItem(w.Context(), w.ref(n), time.Time{}); return err },
			func() error { return c.Claim(w.Context(), w.ref(other), w.dev, "run-1") },
			func() error { return c.Comment(w.Context(), w.ref(n), "once", "text") },
			func() error { return c.Label(w.Context(), w.ref(n), []string{"priority"}, []string{"needs-human"}) },
			func() error { return c.Prepare(w.Context()) },
		} {
			wg.Go(func() {
				for range 5 {
					if err := call(); err != nil {
						w.Error(err)
					}
				}
			})
		}
		wg.Wait()
		w.nextSecond()
		w.nextSecond()
		f := w.scan(c)
		for n, want := range map[int64]string{
			n: `issue open "one" [backlog priority]`, other: `issue open "other" [backlog in-progress] @dev blockers:`,
			p: `pull open dev fix/issue-1->main for #1 clean ci none`,
		} {
			if got := w.show(f, n); got != want {
				w.Errorf("#%d: got %s, want %s", n, got, want)
			}
		}
	})
}

// TestOneRepositoryFails: the other repositories are still scanned, and the failing one is not tried at every scan.
func TestOneRepositoryFails(t *testing.T) {
	onLocal(t, func(w *world) {
		missing := w.owner + "/nowhere"
		c := w.client(func(o *Options) { o.Repos = append(o.Repos, missing) })
		asked := 0
		w.fault = func(r *http.Request) faults.Fault {
			if strings.Contains(r.URL.Path, "/nowhere") {
				asked++
			}
			return faults.None
		}
		for range 60 {
			f, err := c.Scan(w.Context())
			if !errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrUnavailable) ||
				!strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), w.repo) {
				w.Fatalf("got %v", err)
			}
			if r, _ := f.Repo(w.repo); !r.AsOf.Equal(time.Now()) {
				w.Fatalf("the other repository is as of %v", r.AsOf)
			}
			if r, ok := f.Repo(missing); !ok || !r.AsOf.IsZero() {
				w.Fatalf("the missing repository: %+v", r)
			}
			time.Sleep(10 * time.Second)
		}
		if asked < 10 || asked > 20 {
			w.Errorf("the client tried the missing repository %d times in ten minutes, want 10 to 20", asked)
		}
	})
}

// TestFullListingFails: when the hourly listing fails, changes are still seen, and the listing is retried later.
func TestFullListingFails(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.client()
		w.scan(c)
		time.Sleep(2 * time.Hour)
		listed := 0
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, "/issues") && r.URL.Query().Get("state") == "open" {
				listed++
				return faults.Fail
			}
			return faults.None
		}
		w.label(n, "priority")
		if got := w.show(w.scan(c), n); got != `issue open "one" [backlog priority] blockers:` {
			w.Errorf("got %s", got)
		}
		time.Sleep(fullAgain - time.Second)
		w.scan(c)
		if listed != 1 {
			w.Errorf("listed %d times", listed)
		}
		time.Sleep(time.Second)
		w.scan(c)
		if listed != 2 {
			w.Errorf("listed %d times", listed)
		}
	})
}

// answers is a transport that calls a function instead of a forge.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a(req)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

func say(status int, body string, header ...string) answers {
	return func(*http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		for n := 0; n+1 < len(header); n += 2 {
			resp.Header.Set(header[n], header[n+1])
		}
		return resp, nil
	}
}

const secret = "0123456789abcdef0123456789abcdef01234567"

func clientOf(t *testing.T, answer answers) *Client {
	t.Helper()
	c, err := New(Options{
		URL: "http://forge.test", Token: secret, Repos: []string{"o/r"},
		HTTP: &http.Client{Transport: answer},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestErrors: each failure becomes one of five kinds and one line of text without the token. make check uses the full
// length of an endless answer, make test a 128th of it.
func TestErrors(t *testing.T) {
	scale := int64(sized(1, 128))
	refused := func(*http.Request) (*http.Response, error) {
		return nil, errors.New("dial tcp 127.0.0.1:1: connection refused, token " + secret)
	}
	for _, tc := range []struct {
		name   string
		answer answers
		kind   error
		want   string
	}{
		{
			"bad token", say(401, `{"message":"user does not exist [uid: 0, name: ]"}`), forge.ErrForbidden,
			"forbidden: the forge does not know this token (401 to GET /repos/o/r/issues/1)",
		},
		{
			"scope", say(403, `{"message":"token does not have at least one of required scope(s): [read:issue]"}`),
			forge.ErrForbidden, "forbidden: token does not have at least one of required scope(s): [read:issue] (403 to GET " +
				"/repos/o/r/issues/1)",
		},
		{"empty 403", say(403, ``), forge.ErrForbidden, "forbidden (403 to GET /repos/o/r/issues/1)"},
		{
			"missing", say(404, `{"message":"The target couldn't be found."}`), forge.ErrNotFound,
			"not found: The target couldn't be found. (404 to GET /repos/o/r/issues/1)",
		},
		{
			"not allowed", say(405, `{"message":""}`), forge.ErrConflict,
			"refused in this state: method not allowed (405 to GET /repos/o/r/issues/1)",
		},
		{
			"conflict", say(409, `{"message":"head out of date"}`), forge.ErrConflict,
			"refused in this state: head out of date (409 to GET /repos/o/r/issues/1)",
		},
		{
			"precondition", say(412, `{"message":"no"}`), forge.ErrConflict,
			"refused in this state: no (412 to GET /repos/o/r/issues/1)",
		},
		{"invalid", say(422, `{"message":"[Title]: Required"}`), nil, "[Title]: Required (422 to GET /repos/o/r/issues/1)"},
		{
			"limited", say(429, ``), forge.ErrUnavailable,
			"forge unavailable: too many requests (429 to GET /repos/o/r/issues/1)",
		},
		{
			"gateway", say(502, "<html>\n<b>Bad Gateway</b></html>"), forge.ErrUnavailable,
			"forge unavailable: bad gateway (502 to GET /repos/o/r/issues/1)",
		},
		{
			"token in a message", say(500, `{"message":"what is `+secret+"\\nthis"+`"}`), forge.ErrUnavailable,
			"forge unavailable: what is [token] this (500 to GET /repos/o/r/issues/1)",
		},
		{
			"refused", refused, forge.ErrUnavailable,
			"forge unavailable: dial tcp 127.0.0.1:1: connection refused, token [token] (GET /repos/o/r/issues/1)",
		},
		{
			"a page", say(200, "<html>login</html>"), forge.ErrUnavailable,
			"forge unavailable: the answer is not from a forge: invalid character '<' looking for beginning of value (200 to " +
				"GET /repos/o/r/issues/1)",
		},
		{
			"moved", say(301, "", "Location", "https://forge.test/api/v1/repos/o/r/issues/1"), nil,
			"the forge sends us to https://forge.test/api/v1/repos/o/r/issues/1 (301 to GET /repos/o/r/issues/1)",
		},
		{
			"elsewhere", say(302, "", "Location", "http://evil.test/"), nil,
			"the forge sends us to http://evil.test/ (302 to GET /repos/o/r/issues/1)",
		},
		{
			"endless", say(200, strings.Repeat(" ", maxRaw/int(scale)+1)), forge.ErrUnavailable,
			"forge unavailable: too long an answer: longer than 64 MB (200 to GET /repos/o/r/issues/1)",
		},
	} {
		c := clientOf(t, tc.answer)
		c.longest /= scale
		_, err := c.getIssue(t.Context(), forge.Ref{Repo: "o/r", Number: 1})
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
		for _, kind := range []error{forge.ErrForbidden, forge.ErrNotFound, forge.ErrConflict, forge.ErrUnavailable} {
			if errors.Is(err, kind) != (kind == tc.kind) {
				t.Errorf("%s: errors.Is(err, %v) = %v", tc.name, kind, errors.Is(err, kind))
			}
		}
		if n := c.Requests(); n != 1 {
			t.Errorf("%s: the client made %d requests, want 1", tc.name, n)
		}
	}
}

// TestRedirect: the client follows the redirect of a renamed repository on the same host, and sends the token there.
func TestRedirect(t *testing.T) {
	c := clientOf(t, func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Authorization") != "token "+secret {
			t.Errorf("%s: no token", req.URL)
		}
		if strings.Contains(req.URL.Path, "/o/r/") {
			return say(307, "", "Location", "/api/v1/repos/o/new/issues/1")(req)
		}
		return say(200, `{"number":1}`)(req)
	})
	in, err := c.getIssue(t.Context(), forge.Ref{Repo: "o/r", Number: 1})
	if err != nil || in.Index != 1 {
		t.Errorf("got %+v, %v", in, err)
	}
}

// TestRedirectBounds: the client follows at most three redirects, and none that makes another request of a write.
func TestRedirectBounds(t *testing.T) {
	for status, want := range map[int]string{
		301: "POST", 302: "POST", 303: "POST", 307: "POST POST POST POST", 308: "POST POST POST POST",
	} {
		var methods []string
		c := clientOf(t, func(req *http.Request) (*http.Response, error) {
			methods = append(methods, req.Method)
			return say(status, "", "Location", "/api/v1/repos/o/r/issues/1/comments")(req)
		})
		err := c.comment(t.Context(), forge.Ref{Repo: "o/r", Number: 1}, "text")
		if got := strings.Join(methods, " "); got != want || statusOf(err) != status {
			t.Errorf("%d: requests %s, %v; want %s and an error with the status", status, got, err, want)
		}
	}
}

// TestEndlessList: reading a list that repeats a page for ever ends with an error.
func TestEndlessList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, say(200, `[`+strings.Repeat(`{"number":1},`, smallestCap-1)+`{"number":1}]`, "Date",
			time.Now().UTC().Format(http.TimeFormat)))
		_, _, err := c.changes("o/r", time.Time{}).all(t.Context())
		if !errors.Is(err, errEndless) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNew(t *testing.T) {
	good := Options{URL: "http://forge.test:3000/", Token: secret, Repos: []string{"o/r", "a/b", "o/r"}}
	c, err := New(good)
	if err != nil || len(c.repos) != 2 || c.repos[0].name != "a/b" || c.url != "http://forge.test:3000" {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, tc := range []struct {
		change func(*Options)
		want   string
	}{
		{
			func(o *Options) { o.URL = "forge.test" },
			`cannot use the forge url "forge.test": write it like http://forgejo:3000`,
		},
		{
			func(o *Options) { o.URL = "http://johba:" + secret + "@forge.test" },
			"cannot use the forge url: it contains a name or password; put the token into [forge] token",
		},
		{
			func(o *Options) { o.URL = "ftp://forge.test" },
			`cannot use the forge url "ftp://forge.test": write it like http://forgejo:3000`,
		},
		{
			func(o *Options) { o.URL = "http://forge.test\n" },
			"cannot use the forge url: it is not an address; write it like http://forgejo:3000",
		},
		{
			func(o *Options) { o.Token = " " },
			"cannot use the forge token: it is empty or contains a blank; set [forge] token or $FORGE_TOKEN",
		},
		{
			func(o *Options) { o.Token = secret + "\n" },
			"cannot use the forge token: it is empty or contains a blank; set [forge] token or $FORGE_TOKEN",
		},
		{func(o *Options) { o.Repos = []string{"../r"} }, `cannot scan repository "../r": write it as owner/name`},
	} {
		o := good
		tc.change(&o)
		if _, err := New(o); err == nil || err.Error() != tc.want {
			t.Errorf("got %v\nwant %s", err, tc.want)
		}
	}
}
