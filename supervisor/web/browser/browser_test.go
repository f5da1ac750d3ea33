//go:build browser

package browser

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience bounds each wait for a page or the demo. It is not a measure of how long they take.
const patience = 3 * time.Minute

// room is a demo with its control room, and a browser.
type room struct {
	*testing.T
	base, token string // of the control room
	issues      string // the forge's address of the demo's issues
	person      string // the token of a person on the forge
	browser     context.Context
	shots       string // folder of the screenshots

	mu    sync.Mutex // guards the fields below
	wrong []string   // the browser's complaints
}

// said collects a program's output.
type said struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// find waits until the output matches, and returns the match and its groups.
func (s *said) find(t *testing.T, pattern string) []string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		s.mu.Lock()
		found := want.FindStringSubmatch(s.text.String())
		s.mu.Unlock()
		if found != nil {
			return found
		}
	}
	t.Fatalf("the demo did not print %q:\n%s", pattern, s.text.String())
	return nil
}

func newRoom(t *testing.T) *room {
	binary := os.Getenv("DISINTO_BINARY")
	if binary == "" {
		t.Skip("needs a program: make web-test")
	}
	r := openBrowser(t)
	out := r.startDemo(binary)
	m := out.find(t, `the control room[^\n]*:\s+(http://[^/\s]+)/signin#(\S+)`)
	r.base, r.token = m[1], m[2]
	tab := r.tab()
	r.do(tab, chromedp.Navigate(r.base+"/signin#"+r.token), chromedp.WaitReady("main[data-live]"))
	m = out.find(t, `(?s)Authorization: token (\w+)".*?(http://\S+/api/v1/repos/\S+/issues)`)
	r.person, r.issues = m[1], m[2]
	return r
}

// openBrowser returns a room with a browser and no control room yet.
func openBrowser(t *testing.T) *room {
	chromium := os.Getenv("DISINTO_BROWSER")
	if chromium == "" {
		t.Skip("needs a chromium: make web-test")
	}
	r := &room{T: t, shots: cmp.Or(os.Getenv("DISINTO_SHOTS"), t.TempDir())}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	r.browser, end = chromedp.NewContext(allocator)
	t.Cleanup(end)
	r.do(r.browser, chromedp.Navigate("about:blank")) // starts the browser
	return r
}

// startDemo runs the demo until the test ends.
func (r *room) startDemo(binary string) *said {
	out := new(said)
	demo := exec.Command(binary, "demo", "--keep")
	demo.Env = append(os.Environ(), "TMPDIR="+r.TempDir())
	demo.Stdout, demo.Stderr = out, out
	if err := demo.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = demo.Process.Signal(syscall.SIGTERM)
		_ = demo.Wait()
		if r.Failed() {
			r.Logf("the demo printed:\n%s", out.text.String())
		}
	})
	return out
}

// tab opens another page of the browser and collects its complaints.
func (r *room) tab() context.Context {
	ctx, end := chromedp.NewContext(r.browser)
	r.Cleanup(end)
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			r.complain(e.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.LevelError {
				r.complain(e.Entry.Text + " " + e.Entry.URL)
			}
		case *page.EventJavascriptDialogOpening:
			r.complain("a dialog: " + e.Message)
			go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(true)) }()
		}
	})
	return ctx
}

func (r *room) complain(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, what)
}

// do runs actions in a tab.
func (r *room) do(tab context.Context, actions ...chromedp.Action) {
	r.Helper()
	// Not a context with a timeout: cancelling the first context of a browser or a tab would close that.
	done := make(chan error, 1)
	go func() { done <- chromedp.Run(tab, actions...) }()
	select {
	case err := <-done:
		if err != nil {
			r.Fatal(err)
		}
	case <-time.After(patience):
		var at string
		_ = chromedp.Run(tab, chromedp.Location(&at))
		r.Fatalf("timeout at %s", at)
	}
}

// ask evaluates an expression and returns its value.
func ask[T any](r *room, tab context.Context, expression string) (answer T) {
	r.Helper()
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	r.do(tab, chromedp.Evaluate(expression, &answer, wait))
	return answer
}

// until waits until an expression is true.
func (r *room) until(tab context.Context, expression string) {
	r.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var ok bool
		// While one page replaces another, an expression cannot be evaluated.
		if chromedp.Run(tab, chromedp.Evaluate(expression, &ok)) == nil && ok {
			return
		}
	}
	r.Fatalf("timeout waiting for %s:\n%s", expression,
		ask[string](r, tab, `location.href + "\n" + document.body.innerText`))
}

// file creates an issue without labels and returns the path of its page.
func (r *room) file(title, body string) string {
	r.Helper()
	form, _ := json.Marshal(map[string]string{"title": title, "body": body})
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.issues, bytes.NewReader(form))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+r.person)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	var made struct{ Number int }
	if err := json.Unmarshal(text, &made); err != nil || made.Number == 0 {
		r.Fatalf("%s: %s", resp.Status, text)
	}
	return fmt.Sprintf("/issue?ref=%%23%d", made.Number)
}

// hostile is a title that tries to become markup, run a script and reverse the text.
const hostile = "</bdi></h1><img src=x onerror=\"alert(1)\"><script>alert(2)</script>&lt;b&gt; \u202eesrever\u2066 " +
	"{{.}}"

func TestRoom(t *testing.T) {
	r := newRoom(t)
	tab := r.tab()
	var issue string
	r.Run("from queued to merged", func(t *testing.T) {
		r := r.with(t)
		issue = r.file(hostile, "Add `sign.md`.")
		r.watch(tab, issue)
	})
	r.Run("cancel", func(t *testing.T) { r.with(t).cancel(tab) })
	r.Run("cancel several", func(t *testing.T) { r.with(t).cancelSeveral(tab) })
	r.Run("drain", func(t *testing.T) { r.with(t).drain(tab) })
	r.Run("pages", func(t *testing.T) { r.with(t).pages(tab, issue) })
	r.Run("keyboard", func(t *testing.T) { r.with(t).keyboard(tab) })
	r.Run("reduced motion", func(t *testing.T) { r.with(t).motion(tab) })
	r.Run("without scripts", func(t *testing.T) { r.with(t).scriptless(r.tab()) })
	r.Run("sign out", func(t *testing.T) { r.with(t).signOut(tab) })
	if len(r.wrong) > 0 {
		t.Errorf("the browser reported:\n%s", strings.Join(r.wrong, "\n"))
	}
}

// with returns the room for a subtest.
func (r *room) with(t *testing.T) *room {
	return &room{
		T: t, base: r.base, token: r.token, issues: r.issues, person: r.person, browser: r.browser, shots: r.shots,
	}
}

// watch slings an issue and waits until it is merged, without a reload of the page.
func (r *room) watch(tab context.Context, issue string) {
	r.do(tab, chromedp.Navigate(r.base+issue), chromedp.WaitReady("main[data-live]"))
	title := ask[string](r, tab, `document.querySelector("h1").textContent`)
	// Pages drop the characters that reverse text.
	want := strings.NewReplacer("\u202e", "", "\u2066", "").Replace(hostile)
	if !strings.HasPrefix(title, want) {
		r.Errorf("got the title %q, want %q first", title, want)
	}
	if n := ask[int](r, tab, `document.querySelectorAll("main img, main script").length`); n > 0 {
		r.Errorf("the title became %d elements", n)
	}
	if ask[bool](r, tab, `!!document.querySelector(".reason li > .line .pill.ok")`) {
		r.Error("the issue is merged before its first session")
	}
	r.press(tab, `.reason [formaction="/do/sling"]`)
	r.until(tab, `document.querySelector("#said").textContent !== "" && document.readyState === "complete"`)
	ask[bool](r, tab, `window.sameDocument = true`)
	r.until(tab, `!!document.querySelector(".reason li > .line .pill.ok")`)
	if !ask[bool](r, tab, `window.sameDocument === true`) {
		r.Error("the page was reloaded")
	}
	if n := ask[int](r, tab, `document.querySelectorAll("#sessions tbody tr").length`); n < 2 {
		r.Errorf("got %d sessions, want the author's and the reviewer's", n)
	}
}

// press clicks a button, also of a closed menu. A live page may replace it at any moment, so that the browser's own
// click would miss it.
func (r *room) press(tab context.Context, button string) {
	r.Helper()
	r.until(tab, fmt.Sprintf(`(b => b ? (b.click(), true) : false)(document.querySelector(%q))`, button))
}

// click clicks what a person can see and use.
func (r *room) click(tab context.Context, selector string) {
	r.Helper()
	// A form that is sent while the page still comes in has only the boxes that have come.
	r.until(tab, fmt.Sprintf(`(b => document.readyState === "complete" && b && b.checkVisibility() && !b.disabled ?
		(b.click(), true) : false)(document.querySelector(%q))`, selector))
}

// cancel cancels an issue with the button in the menu.
func (r *room) cancel(tab context.Context) {
	r.do(tab, chromedp.Navigate(r.base+r.file("To be cancelled", "Add `never.md`.")),
		chromedp.WaitReady("main[data-live]"))
	r.press(tab, `.reason [formaction="/do/cancel"]`)
	r.until(tab, `/cancel/.test(document.querySelector("#said").textContent)`)
	r.until(tab, `[...document.querySelectorAll(".tag")].some(l => l.textContent === "cancelled")`)
}

// pages checks every page of the navigation and the issue's, on a screen and a phone, light and dark.
func (r *room) pages(tab context.Context, issue string) {
	r.do(tab, chromedp.Navigate(r.base+"/"))
	links := `[...document.querySelectorAll("nav a[data-key]")].map(a => a.getAttribute("href"))`
	for _, path := range append(ask[[]string](r, tab, links), issue) {
		for _, width := range widths[:2] {
			for _, scheme := range []string{"light", "dark"} {
				r.look(tab, path, "demo-"+cmp.Or(strings.Trim(strings.Split(path, "?")[0], "/"), "now"), width, scheme)
			}
		}
	}
	r.do(tab, emulation.ClearDeviceMetricsOverride(), emulation.SetEmulatedMedia())
}

func (r *room) look(tab context.Context, path, name string, width int64, scheme string) {
	r.Helper()
	r.do(tab, chromedp.Navigate(r.base+path), chromedp.WaitReady("main h1"))
	r.shoot(tab, name, width, scheme)
}

// shoot checks the page that a tab shows, at a width and in a colour scheme, and takes a screenshot.
func (r *room) shoot(tab context.Context, name string, width int64, scheme string) {
	r.Helper()
	feature := &emulation.MediaFeature{Name: "prefers-color-scheme", Value: scheme}
	r.do(tab, emulation.SetDeviceMetricsOverride(width, 900, 1, width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{feature}))
	name = fmt.Sprintf("%s-%d-%s", name, width, scheme)
	if wide := ask[int64](r, tab, `document.documentElement.scrollWidth`); wide > width {
		r.Errorf("%s: got a width of %d pixels, want at most the window's", name, wide)
	}
	for _, cut := range ask[[]string](r, tab, `[...document.querySelectorAll(".wide:not(.graph)")].filter(
		e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel + ", " + e.scrollWidth + " of " + e.clientWidth)`) {
		r.Errorf("%s: a table is wider than the window: %s", name, cut)
	}
	light := ask[bool](r, tab,
		`getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every(c => c > 200)`)
	if light != (scheme == "light") {
		r.Errorf("%s: got a light background: %v", name, light)
	}
	size := ask[[2]int64](r, tab, `[document.documentElement.scrollHeight,
		performance.getEntriesByType("navigation")[0].decodedBodySize]`)
	if asked := strings.HasPrefix(name, "many"); !asked && (width == widths[0] && size[0] > phone || size[1] > mostPage) {
		r.Errorf("%s: got %d pixels and %d bytes, want at most %d, four screens, and %d", name, size[0], size[1], phone,
			mostPage)
	}
	r.Logf("%s: %d pixels high, %d bytes, %s", name, size[0], size[1], r.axe(tab, name))
	var picture []byte
	r.do(tab, chromedp.FullScreenshot(&picture, 100))
	if err := os.WriteFile(filepath.Join(r.shots, name+".png"), picture, 0o600); err != nil {
		r.Error(err)
	}
}

// axe reports what axe-core finds on a page, its best practices included, and returns how much it checked.
func (r *room) axe(tab context.Context, name string) string {
	r.Helper()
	path := os.Getenv("DISINTO_AXE")
	if path == "" {
		return "without axe-core"
	}
	script, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	ask[bool](r, tab, string(script)+"\n;true")
	found := ask[[]string](r, tab, `axe.run().then(r => [r.passes.length + " rules of axe-core pass"].concat(r.violations
		.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).join(" ").slice(0, 300))))`)
	for _, f := range found[1:] {
		r.Errorf("%s: %s", name, f)
	}
	return found[0]
}

// keyboard goes to every page without a mouse.
func (r *room) keyboard(tab context.Context) {
	r.do(tab, chromedp.Navigate(r.base+"/"), chromedp.KeyEvent(kb.Tab))
	if !ask[bool](r, tab, `document.activeElement.matches(".skip")`) {
		r.Error("the first Tab does not reach the link to the content")
	}
	type link struct{ Key, Path string }
	links := `[...document.querySelectorAll("nav a[data-key]")].map(a => ({Key: a.dataset.key, Path: a.pathname}))`
	for _, l := range ask[[]link](r, tab, links) {
		r.do(tab, chromedp.KeyEvent("g"), chromedp.KeyEvent(l.Key))
		r.until(tab, fmt.Sprintf(`location.pathname === %q && document.readyState === "complete"`, l.Path))
	}
	r.do(tab, chromedp.KeyEvent("g"), chromedp.KeyEvent("n"))
	r.until(tab, `location.pathname === "/" && document.readyState === "complete"`)
	for range 100 {
		r.do(tab, chromedp.KeyEvent("j"))
		if ask[bool](r, tab, `(document.activeElement.getAttribute("href") || "").startsWith("/issue?")`) {
			break
		}
	}
	r.do(tab, chromedp.KeyEvent("j"), chromedp.KeyEvent("k"), chromedp.KeyEvent(kb.Enter))
	r.until(tab, `location.pathname === "/issue" && document.readyState === "complete"`)
	r.do(tab, chromedp.KeyEvent("/"))
	if !ask[bool](r, tab, `document.activeElement.id === "q"`) {
		r.Error("the key / does not focus the search field")
	}
}

// motion checks that the animation of changed rows is off for people who prefer reduced motion.
func (r *room) motion(tab context.Context) {
	moves := `(() => { const e = document.createElement("p"); e.className = "fresh"; document.body.append(e);
		const name = getComputedStyle(e).animationName; e.remove(); return name; })()`
	for value, want := range map[string]string{"no-preference": "fresh", "reduce": "none"} {
		feature := &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: value}
		r.do(tab, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{feature}))
		if got := ask[string](r, tab, moves); got != want {
			r.Errorf("%s: a changed row has the animation %s, want %s", value, got, want)
		}
	}
	r.do(tab, emulation.SetEmulatedMedia())
}

// scriptless signs in with the form and reads the page in a tab that runs no scripts.
func (r *room) scriptless(tab context.Context) {
	r.do(tab, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate("about:blank"))
	r.do(tab, chromedp.Navigate(r.base+"/signin"), chromedp.SendKeys("#token", r.token+kb.Enter),
		chromedp.WaitReady("#threads"))
	var refresh []*cdp.Node
	r.do(tab, chromedp.Nodes(`noscript meta[http-equiv="refresh"]`, &refresh, chromedp.AtLeast(1)))
}

// signOut signs out. Afterwards the page is no longer shown.
func (r *room) signOut(tab context.Context) {
	r.do(tab, chromedp.Navigate(r.base+"/"), chromedp.Click(".menu:last-child summary"),
		chromedp.Click(`form[action="/signout"] button`), chromedp.WaitReady("#token"))
	r.do(tab, chromedp.Navigate(r.base+"/"), chromedp.WaitReady("#token"))
	if ask[bool](r, tab, `!!document.querySelector("#threads")`) {
		r.Error("the page is still shown after the sign-out")
	}
	r.look(tab, "/signin", "signin", 390, "light")
	r.look(tab, "/signin", "signin", 1440, "dark")
}
