package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const token = "0123456789abcdef"

// fake is an API with fixed answers by path. It records the commands sent to it.
type fake struct {
	events chan struct{}

	mu      sync.Mutex // guards the fields below
	answers map[string]any
	posted  []string
	refused string // a command that says this is refused
}

func (f *fake) Get(_ context.Context, path string, answer any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, query, _ := strings.Cut(path, "?")
	known, ok := f.answers[at]
	if !ok {
		return control.NotFound("cannot find %s", path)
	}
	if d, is := known.(*control.Document); is {
		values, _ := url.ParseQuery(query)
		q, err := control.ReadQueueQuery(values)
		if err != nil {
			return err
		}
		chosen := *d
		if q != nil {
			chosen.Choose(q)
		}
		known = &chosen
	}
	text, _ := json.Marshal(known)
	return json.Unmarshal(text, answer)
}

func (f *fake) Post(_ context.Context, path string, request, answer any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, _ := json.Marshal(request)
	f.posted = append(f.posted, path+" "+string(text))
	if f.refused != "" && strings.Contains(string(text), f.refused) {
		return control.Conflict("cannot do it")
	}
	if r, is := answer.(*control.Report); is {
		r.Subject = "o/r#1"
		r.Add("%s", strings.TrimPrefix(path, "/v1/"))
		return nil
	}
	if no, refused := f.answers[path].(error); refused {
		return no
	}
	known, _ := json.Marshal(f.answers[path])
	return json.Unmarshal(known, answer)
}

func (f *fake) Copy(ctx context.Context, path string, w io.Writer) error {
	if strings.HasPrefix(path, "/v1/log") {
		_, err := io.WriteString(w, "2026-01-31T10:20:30Z the log <script>\n")
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.events:
			if _, err := io.WriteString(w, "event: held\n\n"); err != nil {
				return err
			}
		}
	}
}

// set changes an answer.
func (f *fake) set(path string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = answer
}

func (f *fake) commands() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.posted, "; ")
}

// hostile is a title that is markup, in every form that has broken pages elsewhere.
const hostile = `</td></script><img src=x onerror="alert(1)">'"` + "`" + `{{.}}` + "\u202e"

func status() *control.Document {
	return &control.Document{
		Version: "0.2.0", Forge: control.ForgeDocument{URL: "http://forge", OK: true},
		Threads: []control.ThreadDocument{{Name: "llama", Slots: []control.SlotDocument{
			{Index: 0},
			{Index: 1, Warm: "dev-qwen"},
		}}},
		Sessions: []control.SessionDocument{{
			RunID: "run1", Thread: "llama", Agent: "dev-qwen", Kind: agents.KindIssue, Repo: "o/r", Number: 7, Title: hostile,
			StartedAt: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Place: "box2/1f0c" + hostile,
		}},
		Queue: []control.QueueDocument{
			{
				Repo: "o/r", Number: 1, Kind: agents.KindIssue, Title: hostile, Code: threads.BlockerOpen,
				Why: "blocked by o/r#2 " + hostile,
			},
			{
				Repo: "o/r", Number: 3, Kind: agents.KindIssue, Title: "stuck", Code: threads.TooManyRounds, NeedsPerson: true,
				Why: "asks", Mend: "`disinto retry 3`",
			},
		},
	}
}

// visit is a site with a browser.
type visit struct {
	*testing.T
	api    *fake
	site   *Site
	server *httptest.Server
	client *http.Client
}

func newVisit(t *testing.T) *visit {
	cfg := &threads.Config{Factory: threads.Factory{ListenToken: token}}
	cfg.Forge.Repos, cfg.Forge.URL = []string{"o/r"}, "http://forge"
	api := &fake{events: make(chan struct{}), answers: map[string]any{"/v1/state": status()}}
	site := &Site{API: api, Config: func() *threads.Config { return cfg }}
	v := &visit{T: t, api: api, site: site, server: httptest.NewServer(site.Handler())}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v.client = &http.Client{Jar: jar}
	t.Cleanup(v.server.Close)
	return v
}

// get returns the status and the text of a page.
func (v *visit) get(path string) (int, string) {
	v.Helper()
	req, err := http.NewRequest(http.MethodGet, v.server.URL+path, nil)
	if err != nil {
		v.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	return v.do(req)
}

func (v *visit) do(req *http.Request) (int, string) {
	v.Helper()
	resp, err := v.client.Do(req)
	if err != nil {
		v.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// post sends a form, as a page of the origin would.
func (v *visit) post(path, origin string, form url.Values) (int, string) {
	v.Helper()
	req, err := http.NewRequest(http.MethodPost, v.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", origin)
	return v.do(req)
}

func (v *visit) signIn() {
	v.Helper()
	if status, text := v.post("/signin", v.server.URL, url.Values{"token": {token}}); status != http.StatusOK {
		v.Fatalf("sign-in: got %d %s", status, text)
	}
}

var secretField = regexp.MustCompile(`name="secret" value="([^"]+)"`)

// secret returns the secret in a page's forms.
func (v *visit) secret(page string) string {
	v.Helper()
	m := secretField.FindStringSubmatch(page)
	if m == nil {
		v.Fatalf("the page has no form:\n%s", page)
	}
	return m[1]
}

// Text from the forge is shown as text, and the page loads nothing from elsewhere.
func TestHostileText(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	status, page := v.get("/")
	if status != http.StatusOK || !strings.Contains(page, "llama") {
		t.Fatalf("got %d %s", status, page)
	}
	if strings.Contains(page, "<img") || strings.Contains(page, "alert(1)\"") {
		t.Errorf("the title became markup:\n%s", page)
	}
	if n := strings.Count(page, "&lt;img src=x"); n != 4 || !strings.Contains(page, ">on box2/1f0c&lt;") {
		t.Errorf("found the escaped markup %d times, want 4:\n%s", n, page)
	}
	for _, m := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "/") && !strings.HasPrefix(m[1], "#") && !strings.HasPrefix(m[1], "http://forge") {
			t.Errorf("the page links to %s", m[1])
		}
	}
}

// Without a sign-in no page is shown and no command runs.
func TestSignInFirst(t *testing.T) {
	v := newVisit(t)
	if status, page := v.get("/"); status != http.StatusOK || !strings.Contains(page, "Sign in") {
		t.Errorf("/: got %d %s, want the sign-in form", status, page)
	}
	for _, path := range []string{"/live/", "/log?ref=1"} {
		req, _ := http.NewRequest(http.MethodGet, v.server.URL+path, nil)
		if status, _ := v.do(req); status != http.StatusUnauthorized {
			t.Errorf("%s: got status %d, want 401", path, status)
		}
	}
	if status, _ := v.post("/do/cancel", v.server.URL, url.Values{"ref": {"1"}}); status != http.StatusUnauthorized {
		t.Errorf("/do/cancel: got status %d, want 401", status)
	}
	if v.api.commands() != "" {
		t.Errorf("got commands %s, want none", v.api.commands())
	}
}

// A command needs the site's origin and the secret of its forms.
func TestForgedForms(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	_, page := v.get("/")
	right := v.secret(page)
	for _, tt := range []struct {
		name, origin, secret string
		status               int
	}{
		{"another site", "http://evil.example", right, http.StatusForbidden},
		{"another port", "http://127.0.0.1:1", right, http.StatusForbidden},
		{"no secret", v.server.URL, "", http.StatusForbidden},
		{"wrong secret", v.server.URL, "x" + right, http.StatusForbidden},
	} {
		status, _ := v.post("/do/cancel", tt.origin, url.Values{"ref": {"o/r#1"}, "secret": {tt.secret}})
		if status != tt.status || v.api.commands() != "" {
			t.Errorf("%s: got status %d, commands %q", tt.name, status, v.api.commands())
		}
	}
	status, page := v.post("/do/cancel", v.server.URL, url.Values{"ref": {"o/r#1"}, "secret": {right}, "back": {"/"}})
	if status != http.StatusOK || v.api.commands() != `/v1/cancel {"ref":"o/r#1"}` || !strings.Contains(page, ": cancel") {
		t.Errorf("the real form: got status %d, commands %q", status, v.api.commands())
	}
	if _, page := v.get("/"); strings.Contains(page, ": cancel") {
		t.Error("the answer of a command is shown twice")
	}
	v.site.visitors.each(func(x *visitor) { x.notice = "the answer" })
	req, _ := http.NewRequest(http.MethodGet, v.server.URL+"/", nil)
	req.Header.Set(renews, "1")
	if _, page := v.do(req); strings.Contains(page, "the answer") {
		t.Error("a page that renews itself takes the answer from the page that is being loaded")
	}
	if _, page := v.get("/"); !strings.Contains(page, "the answer") {
		t.Error("the answer is lost")
	}
	if status, _ := v.post("/do/upgrade", v.server.URL, url.Values{"secret": {right}}); status != http.StatusNotFound {
		t.Errorf("a command that no page has: got status %d, want 404", status)
	}
}

// each calls f with every visitor.
func (vs *visitors) each(f func(*visitor)) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	for _, v := range vs.by {
		f(v)
	}
}

// After ten wrong tokens in a minute no token is checked, not even the right one.
func TestWrongTokens(t *testing.T) {
	v := newVisit(t)
	for i := range wrongTokens {
		if status, _ := v.post("/signin", v.server.URL,
			url.Values{"token": {fmt.Sprint(i)}}); status != http.StatusForbidden {
			t.Fatalf("wrong token %d: got status %d, want 403", i, status)
		}
	}
	if status, _ := v.post("/signin", v.server.URL, url.Values{"token": {token}}); status != http.StatusTooManyRequests {
		t.Errorf("the right token after ten wrong ones: got status %d, want 429", status)
	}
	var vs visitors
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for range wrongTokens {
		vs.mayTry(func() bool { return false }, now)
	}
	if may, _ := vs.mayTry(func() bool { return true }, now.Add(59*time.Second)); may {
		t.Error("a token is checked within the minute")
	}
	if may, ok := vs.mayTry(func() bool { return true }, now.Add(time.Minute)); !may || !ok {
		t.Error("no token is checked after the minute")
	}
}

// A sign-in ends by a sign-out, after 12 hours without a request, and after a week. The number of sign-ins is
// bounded.
func TestVisitorsEnd(t *testing.T) {
	var vs visitors
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first := vs.add(visitor{Name: "ada", Steers: true, stay: stayTime}, now)
	if v := vs.find(first, now); v == nil || v.Name != "ada" || !v.Steers {
		t.Fatalf("got %+v", v)
	}
	if vs.find(first, now.Add(visitTime+time.Second)) != nil {
		t.Error("still signed in after 12 hours without a request")
	}
	for at := now; at.Before(now.Add(stayTime)); at = at.Add(visitTime / 2) {
		if vs.find(first, at) == nil {
			t.Fatalf("signed out too early, after %s", at.Sub(now))
		}
	}
	if vs.find(first, now.Add(stayTime+time.Minute)) != nil {
		t.Error("still signed in after a week")
	}
	second := vs.add(visitor{Name: "bob", stay: stayTime}, now)
	for i := range maxVisitors {
		vs.add(visitor{Name: fmt.Sprint(i), stay: stayTime}, now.Add(time.Duration(i+1)*time.Second))
	}
	if len(vs.by) != maxVisitors || vs.find(second, now.Add(time.Hour)) != nil {
		t.Errorf("got %d sign-ins; the oldest is kept: %v", len(vs.by), vs.find(second, now.Add(time.Hour)) != nil)
	}
	vs.remove(first)
	if vs.find(first, now) != nil {
		t.Error("still signed in after a sign-out")
	}
}

// The sign-in redirects only to a page of this site, whatever the address says.
func TestLocal(t *testing.T) {
	for in, want := range map[string]string{
		"/issue?ref=1": "/issue?ref=1", "": "/", "http://evil": "/", "//evil": "/", "/\\evil": "/", "evil": "/",
		"javascript:x": "/",
	} {
		if got := local(in); got != want {
			t.Errorf("local(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPagesDiffer(t *testing.T) {
	paths, keys := make(map[string]bool), make(map[string]bool)
	for _, p := range pages {
		if paths[p.path] || p.key != "" && keys[p.key] {
			t.Errorf("%s: its path or its key %q belongs to another page too", p.path, p.key)
		}
		paths[p.path], keys[p.key] = true, true
	}
}

// An open page gets the rows that changed, and a page without readers is not rendered.
func TestLive(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	_, page := v.get("/")
	version := regexp.MustCompile(`data-version="(\w+)"`).FindStringSubmatch(page)[1]
	resp, err := v.client.Get(v.server.URL + "/live/?v=" + version)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	changed := status()
	changed.Queue[1].Why = "asks again"
	for !v.site.live.rendered() {
		time.Sleep(time.Millisecond)
	}
	v.api.set("/v1/state", changed)
	v.api.events <- struct{}{}
	buf := make([]byte, 64<<10)
	text := ""
	for !strings.Contains(text, "changes") {
		n, err := resp.Body.Read(buf)
		if text += string(buf[:n]); err != nil {
			t.Fatalf("got error %v after %q", err, text)
		}
	}
	if !strings.Contains(text, "asks again") || strings.Contains(text, "blocked by") {
		t.Errorf("got %s", text)
	}
	resp.Body.Close()
	for {
		v.site.live.mu.Lock()
		left := len(v.site.live.views) + v.site.live.readers
		deaf := v.site.live.stopEvents == nil
		v.site.live.mu.Unlock()
		if left == 0 && deaf {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// rendered reports whether every open page has been rendered.
func (l *live) rendered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.views {
		v.mu.Lock()
		known := v.board != nil
		v.mu.Unlock()
		if !known {
			return false
		}
	}
	return len(l.views) > 0
}

// The totals count what ended today, what is spent and what waits for a person, wherever it is in the queue.
func TestTotals(t *testing.T) {
	v := newVisit(t)
	d := status()
	d.Today = control.TodayDocument{Sessions: 96, Failed: 3, Merged: 31}
	d.Threads[0].Spent = control.SpentDocument{USD: 12.5, USDPerDay: 80}
	d.Agents = []control.AgentDocument{{Name: "a", State: control.AgentHeld, Code: threads.NoToken, NeedsPerson: true}}
	v.api.set("/v1/state", d)
	v.signIn()
	_, page := v.get("/")
	for name, want := range map[string]string{
		"Needs you": "2", "Running": "1 <small>of 2 slots</small>", "Merged today": "31", "Failed today": "3",
		"Spent today": "$12.50 <small>of $80.00</small>",
	} {
		if !strings.Contains(page, `<span class="k">`+name+`</span><span class="v">`+want+"</span>") {
			t.Errorf("%s is not %s:\n%s", name, want, page)
		}
	}
}

// The queue is filtered by status, repository, agent, kind and text, in pages of 20 to 100, all in the address.
func TestQueueFilters(t *testing.T) {
	v := newVisit(t)
	d := status()
	d.Queue = nil
	for i := range int64(150) {
		q := control.QueueDocument{
			Repo: "o/r", Number: i + 1, Kind: agents.KindIssue, Title: fmt.Sprint("task ", i+1), Code: threads.NoSlot,
		}
		if i%3 == 0 {
			q.Code, q.Agent = threads.CoolDown, "dev-qwen"
		}
		d.Queue = append(d.Queue, q)
	}
	d.Unqueued = []control.QueueDocument{{Repo: "o/r", Number: 900, Title: "task of a dream", Code: threads.NotBacklog}}
	v.api.set("/v1/state", d)
	v.signIn()
	for query, want := range map[string]struct {
		rows  int
		words string
	}{
		"":                                   {20, "1 to 20 of 150"},
		"?page=8":                            {10, "141 to 150 of 150"},
		"?rows=100&page=2":                   {50, "101 to 150 of 150"},
		"?rows=7":                            {20, "1 to 20 of 150"},
		"?status=backing-off&rows=50":        {50, `aria-current="true">Backing off <b>50</b>`},
		"?status=backing-off&agent=dev-qwen": {20, `name="status" value="backing-off"`},
		"?agent=nobody":                      {0, "No open issue or pull request fits."},
		"?q=DREAM":                           {1, "Not queued <b>1</b>"},
		"?q=%23149":                          {1, "task 149"},
		"?status=unlabelled":                 {1, "task of a dream"},
	} {
		_, page := v.get("/" + query)
		_, rows, _ := strings.Cut(page, `<tbody data-rows="queue">`)
		rows, _, _ = strings.Cut(rows, "</tbody>")
		if n := strings.Count(rows, "<tr"); n != want.rows || !strings.Contains(page, want.words) {
			t.Errorf("%s: got %d rows, want %d and %q", query, n, want.rows, want.words)
		}
	}
	if status, page := v.get("/?status=odd"); status != http.StatusBadRequest || !strings.Contains(page, "needs-you") {
		t.Errorf("an unknown status: got %d, want 400 with the known ones", status)
	}
}

// A search by words shows the closed items that it found, as text.
func TestClosedShown(t *testing.T) {
	d := &control.Document{Waiting: &control.WaitingDocument{Closed: []control.ClosedDocument{
		{Repo: "o/r", Number: 3, Title: hostile, Last: time.Now()},
	}}}
	sec := closed(d)
	if len(sec.Rows) != 1 || !strings.Contains(string(sec.Rows[0].HTML), `href="/issue?ref=o%2Fr%233"`) ||
		strings.Contains(string(sec.Rows[0].HTML), "<img") {
		t.Errorf("got %+v", sec.Rows)
	}
}

// From anywhere, a number leads to its issue, and other words to the list of the open ones.
func TestFind(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	v.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for said, want := range map[string]string{
		"17": "/issue?ref=17", "#17": "/issue?ref=%2317", "o/r#17": "/issue?ref=o%2Fr%2317", " tea pot ": "/?q=tea+pot#queue",
		"17 teas": "/?q=17+teas#queue",
	} {
		req, _ := http.NewRequest(http.MethodGet, v.server.URL+"/find?"+url.Values{"q": {said}}.Encode(), nil)
		resp, err := v.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Location"); got != want {
			t.Errorf("%q leads to %s, want %s", said, got, want)
		}
	}
}

// A new issue is filed and started by the command sling.
func TestNewIssue(t *testing.T) {
	v := newVisit(t)
	v.api.answers["/v1/sling"] = control.SlingReport{Repo: "o/r", Number: 8, Agent: "dev-qwen", Thread: "llama"}
	v.signIn()
	_, page := v.get("/")
	form := url.Values{"title": {"Add a bell"}, "body": {"It rings."}, "secret": {v.secret(page)}, "back": {"/"}}
	_, page = v.post("/do/new", v.server.URL, form)
	want := `/v1/sling {"title":"Add a bell","body":"It rings."}`
	if got := v.api.commands(); got != want || !strings.Contains(page, "dev-qwen is on it") {
		t.Errorf("got %s, want %s, and the answer on the page:\n%s", got, want, page)
	}
}

// Every state that is no page says what it is, and leads on.
func TestStates(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	for path, want := range map[string]int{
		"/nothing": http.StatusNotFound, "/issue?ref=9": http.StatusNotFound, "/?rows=20&page=x": http.StatusBadRequest,
	} {
		status, page := v.get(path)
		if status != want || !strings.Contains(page, `action="/find"`) || !strings.Contains(page, `id="trouble"`) {
			t.Errorf("%s: got %d, want %d and ways on:\n%s", path, status, want, page)
		}
	}
	v.api.set("/v1/state", &control.Document{Forge: control.ForgeDocument{OK: true}, Unqueued: []control.QueueDocument{
		{Repo: "o/r", Number: 5, Title: "Add a licence", Code: threads.NotBacklog},
	}})
	if _, page := v.get("/"); !strings.Contains(page, "Get the first merge") || !strings.Contains(page, "/do/sling") {
		t.Errorf("an empty factory does not say what to do first:\n%s", page)
	}
}

// A panic in a page is answered with status 500 and logged once, and the next page is served.
func TestPanic(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	logged := 0
	v.site.live.failed = func(string, any) { logged++ }
	config := v.site.Config
	v.site.Config = func() *threads.Config { panic("no") }
	status, page := v.get("/signin/forge")
	v.site.Config = config
	if status != http.StatusInternalServerError || strings.Count(page, "\n") != 1 || logged != 1 {
		t.Errorf("got %d %q, logged %d times; want 500, one line, logged once", status, page, logged)
	}
	if status, _ := v.get("/"); status != http.StatusOK {
		t.Errorf("the next page: got %d, want 200", status)
	}
}
