//go:build browser

package browser

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"codeberg.org/johba/disinto/supervisor/control"
)

// Each command that reaches far has a way from a page to its preview, and a button there that runs it, at three widths.
func TestPreviews(t *testing.T) {
	s := newStates(t)
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"))
	const by = `"by":"the holder of the token"`
	for _, way := range []struct {
		path   string
		clicks []string // each fits only the page that the one before leads to
		says   string
		button string
		want   string
	}{
		{
			"/",
			[]string{".menu:has([href^='/confirm']) summary", `[href="/confirm?do=drain"]`},
			"new work that waits: 12 items",
			".primary[formaction='/do/drain']", `/v1/drain {"dry_run":true}; /v1/drain {` + by + `}`,
		},
		{
			"/",
			[]string{`[aria-label="Pause ada/ledger"]`},
			"sessions that run in ada/ledger finish: 0",
			"[formaction='/do/pause'][value='ada/ledger']", `/v1/pause {"name":"ada/ledger",` + by + `}`,
		},
		{
			"/",
			[]string{
				`[href^="/several"]`, `input[value="ada/teashop#405"]`, `input[value="ada/teashop#93"]`, "#choose [value=cancel]",
			},
			"Cancel 2 items", "[formaction='/do/cancel']",
			`/v1/cancel {"ref":"ada/teashop#405"}; /v1/cancel {"ref":"ada/teashop#93"}`,
		},
		{
			"/several",
			[]string{`[href$="all=1"]`, `#choose:not(:has([href$="all=1"])) [value=retry]`},
			"Retry 20 items",
			"[formaction='/do/retry']", "",
		},
		{"/several", []string{".pickers button"}, "Retry 7 items", "[formaction='/do/retry']", ""},
	} {
		for _, width := range widths {
			s.factory.set(func(f *factory) {
				f.posted, f.state = nil, busy(40)
				f.state.Repos = append(f.state.Repos, control.RepoDocument{Name: "ada/ledger"})
			})
			s.do(tab, emulation.SetDeviceMetricsOverride(width, 900, 1, width < 600), chromedp.Navigate(s.base+way.path),
				chromedp.WaitReady("main"))
			for _, click := range way.clicks {
				s.click(tab, "main "+click+", header "+click)
			}
			s.until(tab, `location.pathname === "/confirm" && document.readyState === "complete"`)
			says := ask[string](s.room, tab, `document.querySelector("main").textContent`)
			if !strings.Contains(says, way.says) {
				t.Errorf("at %d pixels the preview does not say %q: %s", width, way.says, says)
			}
			rows := ask[int](s.room, tab, `document.querySelectorAll("#items tbody tr").length`)
			s.click(tab, "main "+way.button)
			s.until(tab, `document.querySelector("#said").textContent !== "" && location.pathname === "/"`)
			got := s.factory.commands()
			if way.want == "" && strings.Count(got, "/v1/retry") != rows || way.want != "" && got != way.want {
				t.Errorf("%s at %d pixels, %d items: got %s, want %s", way.button, width, rows, got, way.want)
			}
		}
	}
}

// cancelSeveral cancels two issues of a list, after a look at what that does.
func (r *room) cancelSeveral(tab context.Context) {
	r.file("One of two", "Add `one.md`.")
	r.file("Two of two", "Add `two.md`.")
	r.do(tab, chromedp.Navigate(r.base+"/?status=unlabelled"))
	r.until(tab, `/One of two[^]*Two of two|Two of two[^]*One of two/.test(document.querySelector("#queue").textContent)`)
	r.press(tab, `[href^="/several"]`)
	r.until(tab, `location.pathname === "/several" && document.readyState === "complete"`)
	chosen := ask[int](r, tab, `[...document.querySelectorAll("#queue tr")].filter(
		row => / of two/.test(row.textContent)).map(
		row => row.querySelector("input").click()).length`)
	r.press(tab, "#choose [value=cancel]")
	r.until(tab, `location.pathname === "/confirm" && document.readyState === "complete"`)
	if n := ask[int](r, tab, `document.querySelectorAll("#items tbody tr").length`); chosen != 2 || n != 2 {
		r.Errorf("chose %d items, the preview has %d, want 2", chosen, n)
	}
	r.press(tab, `[formaction="/do/cancel"]`)
	r.until(tab, `/cancel: 2 of 2 items done/.test(document.querySelector("#said").textContent)`)
}

// drain drains the factory, which says so until someone resumes it.
func (r *room) drain(tab context.Context) {
	r.do(tab, chromedp.Navigate(r.base+"/confirm?do=drain"))
	r.press(tab, `.primary[formaction="/do/drain"]`)
	r.until(tab, `location.pathname === "/" && /draining: /.test(document.querySelector("#said").textContent)`)
	r.until(tab, `!!document.querySelector("#paused [formaction='/do/resume'], #needs [formaction='/do/resume']")`)
	r.press(tab, `#paused [formaction="/do/resume"], #needs [formaction="/do/resume"]`)
	r.until(tab, `/resumed/.test(document.querySelector("#said").textContent)`)
	r.until(tab, `!document.querySelector("#paused li")`)
}

// A person tells the session that writes something in a field of the page. What was typed stays while the page
// renews itself.
func TestTell(t *testing.T) {
	s := newStates(t)
	s.factory.set(func(f *factory) { f.talks = true })
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"))
	for _, width := range widths {
		for _, scheme := range []string{"light", "dark"} {
			s.look(tab, "/issue?ref=398", "tell", width, scheme)
		}
		s.factory.set(func(f *factory) { f.posted = nil })
		const text = "Use the idempotency key of #361."
		s.do(tab, chromedp.SendKeys("#tell-text", text))
		ask[bool](s.room, tab, `renew().then(() => true)`)
		if got := ask[string](s.room, tab, `document.querySelector("#tell-text").value`); got != text {
			t.Errorf("at %d pixels, after the page renewed itself: the field has %q, want %q", width, got, text)
		}
		s.click(tab, `[formaction="/do/tell"]`)
		s.until(tab, `document.querySelector("#said").textContent !== "" && document.readyState === "complete"`)
		want := fmt.Sprintf(`/v1/tell {"ref":"ada/teashop#398","text":%q,"by":"the holder of the token"}`, text)
		if got := s.factory.commands(); got != want {
			t.Errorf("at %d pixels: got %s, want %s", width, got, want)
		}
	}
}
