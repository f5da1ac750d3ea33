//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// readersForge is a forge on which carl may read the factory's repository, and agrees to every sign-in.
func readersForge(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login/oauth/authorize", func(w http.ResponseWriter, r *http.Request) {
		back := url.Values{"code": {"c"}, "state": {r.FormValue("state")}}
		http.Redirect(w, r, r.FormValue("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
	})
	for path, answer := range map[string]string{
		"POST /login/oauth/access_token":        `{"access_token":"t","token_type":"bearer"}`,
		"GET /api/v1/user":                      `{"login":"carl"}`,
		"GET /api/v1/repos/ada/teashop":         `{"permissions":{"pull":true}}`,
		"GET /.well-known/openid-configuration": `{}`,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// An account that may only read sees no button of a command, on any page, and which right is missing.
func TestForbidden(t *testing.T) {
	s := newStates(t)
	s.config.Forge.URL = readersForge(t).URL
	s.config.Factory.WebURL, s.config.Factory.WebClientID = s.base, "disinto"
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin/forge"), chromedp.WaitReady("main[data-live]"))
	for name, path := range map[string]string{
		"": "/", "-issue": "/issue?ref=398", "-agents": "/agents", "-several": "/several", "-confirm": "/confirm?do=drain",
	} {
		for _, width := range widths {
			for _, scheme := range []string{"light", "dark"} {
				s.look(tab, path, "forbidden"+name, width, scheme)
			}
			commands := `[...document.querySelectorAll("[form=do], form[action^='/do/'] button, .steer")]`
			if n := ask[int](s.room, tab, commands+`.filter(e => e.offsetParent).length`); n > 0 {
				t.Errorf("%s at %d pixels: got %d buttons of commands, want none", path, width, n)
			}
			account := ask[string](s.room, tab, `[...document.querySelectorAll("header summary")].at(-1).textContent`)
			if path == "/" && account != "carl · reads only" {
				t.Errorf("at %d pixels: got the account %q", width, account)
			}
		}
	}
	refusal := ask[string](s.room, tab, `fetch("/do/pause", {method: "POST", body: new URLSearchParams({
		secret: document.querySelector("[name=secret]").value})}).then(r => r.text())
		.then(text => new DOMParser().parseFromString(text, "text/html").querySelector("#trouble").textContent)`)
	for _, want := range []string{"write access to every repository", "sign out and in again"} {
		if !strings.Contains(refusal, want) {
			t.Errorf("the refusal does not say %q: %s", want, refusal)
		}
	}
}

// Each page says in its navigation how much needs a person, and the question mark lists the keys.
func TestKeysAndNeeds(t *testing.T) {
	s := newStates(t)
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"),
		chromedp.Navigate(s.base+"/convoys"), chromedp.WaitReady("main[data-live]"))
	if got := ask[string](s.room, tab, `document.querySelector("#needs-n").textContent`); got != "5 need you" {
		t.Errorf("got %q, want 5", got)
	}
	s.do(tab, chromedp.KeyEvent("?"))
	s.until(tab, `document.querySelector("#help").open`)
	for _, width := range widths {
		for _, scheme := range []string{"light", "dark"} {
			s.shoot(tab, "keys", width, scheme)
		}
	}
	s.do(tab, chromedp.KeyEvent(kb.Escape))
	s.until(tab, `!document.querySelector("#help").open`)
	s.factory.set(func(f *factory) { f.state = young() })
	s.until(tab, `document.querySelector("#needs-n").textContent !== "5 need you"`)
}
