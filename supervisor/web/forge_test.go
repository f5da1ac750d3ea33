package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/threads"
)

// people is a site whose forge has these accounts: ada owns two repositories, bob may write to the first, carl may
// read both, and the agents dev-qwen and dev-far may write to both.
type people struct {
	*visit
	config *threads.Config
	forge  *localforge.Forge
}

func newPeople(t *testing.T) *people {
	v := newVisit(t)
	f, err := localforge.New(localforge.Options{Dir: t.TempDir(), Run: git})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ada", "bob", "carl", "dev-qwen", "dev-far"} {
		must(f.AddUser(name, "password-of-"+name, false))
	}
	for _, repo := range []string{"one", "two"} {
		must(f.AddRepo(t.Context(), "ada", repo, nil))
		must(f.AddCollaborator("ada", repo, "dev-qwen", "write"))
		must(f.AddCollaborator("ada", repo, "dev-far", "write"))
	}
	must(f.AddCollaborator("ada", "one", "bob", "write"))
	p := &people{visit: v, config: v.site.Config(), forge: f}
	p.config.Forge.URL, p.config.Forge.Repos = server.URL, []string{"ada/one", "ada/two"}
	p.config.Factory.ListenWeb = strings.TrimPrefix(v.server.URL, "http://")
	p.config.Factory.WebClientID = p.register(v.server.URL + Callback)
	p.config.Agents = []agents.Agent{{Name: "dev-qwen", Login: "dev-qwen"}}
	p.config.Forge.Bots = []string{"Dev-Far"}
	return p
}

func git(ctx context.Context, cmd localforge.Cmd) error {
	program := exec.CommandContext(ctx, cmd.Argv[0], cmd.Argv[1:]...)
	program.Dir, program.Stdin, program.Stdout = cmd.Dir, cmd.Stdin, cmd.Stdout
	program.Env = append(os.Environ(), cmd.Env...)
	return program.Run()
}

// register creates an application of ada's on the forge and returns its client id.
func (p *people) register(redirect string) string {
	p.Helper()
	token, err := p.forge.AddToken("ada")
	if err != nil {
		p.Fatal(err)
	}
	body := fmt.Sprintf(`{"name":"disinto","redirect_uris":[%q]}`, redirect)
	req, _ := http.NewRequest(http.MethodPost, p.config.Forge.URL+"/api/v1/user/applications/oauth2",
		strings.NewReader(body))
	req.Header.Set("Authorization", "token "+token)
	_, answer := p.do(req)
	_, id, _ := strings.Cut(answer, `"client_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// hop requests an address with an account of the forge and returns the answer without following redirects.
func (p *people) hop(address, account string) *http.Response {
	p.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		p.Fatal(err)
	}
	if account != "" {
		req.SetBasicAuth(account, "password-of-"+account)
	}
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := p.client.Do(req)
	p.client.CheckRedirect = nil
	if err != nil {
		p.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// depart starts a sign-in, agrees on the forge, and returns the address to which the forge redirects the browser.
func (p *people) depart(account string) string {
	p.Helper()
	there := p.hop(p.server.URL+"/signin/forge?next=%2Fissue%3Fref%3D7", "").Header.Get("Location")
	back := p.hop(there, account).Header.Get("Location")
	if back == "" {
		p.Fatalf("%s: got no redirect", there)
	}
	return back
}

// arrive requests that address.
func (p *people) arrive(back string) (int, string) {
	return p.get(strings.TrimPrefix(back, p.server.URL))
}

// newBrowser drops all cookies.
func (p *people) newBrowser() { p.client.Jar, _ = cookiejar.New(nil) }

// An account that can read every repository may look, and one that can write to every one may steer. Agents may do
// neither.
func TestForgeSignIn(t *testing.T) {
	for _, tt := range []struct {
		account string
		status  int
		says    string
		steers  bool
	}{
		{"ada", http.StatusOK, "You are signed in", true},
		{"bob", http.StatusOK, "You are signed in", false},
		{"carl", http.StatusOK, "You are signed in", false},
		{"dev-qwen", http.StatusForbidden, "only people may sign in", false},
		{"dev-far", http.StatusForbidden, "only people may sign in", false},
	} {
		t.Run(tt.account, func(t *testing.T) {
			p := newPeople(t)
			if _, page := p.get("/"); !strings.Contains(page, "Sign in with Forgejo") {
				t.Errorf("the page has no sign-in button:\n%s", page)
			}
			status, page := p.arrive(p.depart(tt.account))
			if status != tt.status || !strings.Contains(page, tt.says) {
				t.Fatalf("got %d, want %d with %q:\n%s", status, tt.status, tt.says, page)
			}
			if status != http.StatusOK {
				if _, page := p.get("/"); !strings.Contains(page, "Sign in") {
					t.Error("an agent is signed in")
				}
				return
			}
			if !strings.Contains(page, `content="0; url=/issue?ref=7"`) {
				t.Errorf("the page does not redirect to the issue:\n%s", page)
			}
			_, page = p.get("/")
			if !strings.Contains(page, ">"+tt.account) || strings.Contains(page, "May only read") == tt.steers {
				t.Errorf("the page does not show the visitor's name and rights:\n%s", page)
			}
			for _, still := range stills {
				if status, _ := p.get(still.path + "?do=drain"); tt.steers != (status != http.StatusForbidden) {
					t.Errorf("%s: got status %d", still.path, status)
				}
			}
			if tt.steers != strings.Contains(page, "/do/new") {
				t.Errorf("new issues are offered: %v, want %v", !tt.steers, tt.steers)
			}
			status, page = p.post("/do/retry", p.server.URL, url.Values{"ref": {"ada/one#1"}, "secret": {p.secret(page)}})
			if steered := p.api.commands() != ""; steered != tt.steers || !steered && status != http.StatusForbidden {
				t.Errorf("steered: %v (status %d), want %v", steered, status, tt.steers)
			}
			if !tt.steers && (!strings.Contains(page, "Not allowed") || !strings.Contains(page, "write access")) {
				t.Errorf("the refusal does not say which right is missing:\n%s", page)
			}
		})
	}
}

// An account that cannot read one of the repositories cannot sign in.
func TestForgeStranger(t *testing.T) {
	p := newPeople(t)
	p.config.Forge.Repos = append(p.config.Forge.Repos, "ada/secret")
	if status, page := p.arrive(p.depart("ada")); status != http.StatusForbidden ||
		!strings.Contains(page, "may not read ada/secret") {
		t.Errorf("got %d, want 403:\n%s", status, page)
	}
}

// A callback works once, in the browser that started the sign-in, within ten minutes.
func TestForgeTrips(t *testing.T) {
	p := newPeople(t)
	back := p.depart("ada")
	if status, _ := p.arrive(back); status != http.StatusOK {
		t.Fatalf("first callback: got status %d, want 200", status)
	}
	u, _ := url.Parse(back)
	p.client.Jar.SetCookies(u, []*http.Cookie{{Name: tripCookie, Value: u.Query().Get("state"), Path: Callback}})
	if status, _ := p.arrive(back); status != http.StatusBadRequest {
		t.Errorf("second callback: got status %d, want 400", status)
	}
	back = p.depart("ada")
	p.newBrowser()
	if status, _ := p.arrive(back); status != http.StatusBadRequest {
		t.Errorf("callback in another browser: got status %d, want 400", status)
	}
	stolen := p.depart("ada")
	p.depart("carl") // the browser has a sign-in under way, but gets the code of another one
	u, _ = url.Parse(stolen)
	if status, _ := p.get(Callback + "?code=" + u.Query().Get("code")); status != http.StatusBadRequest {
		t.Errorf("callback with a code but no state: got status %d, want 400", status)
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var ts forgeSignIns
	late := ts.begin("/", now)
	if _, ok := ts.end(late.state, now.Add(tripTime+time.Second)); ok {
		t.Error("a callback after ten minutes is accepted")
	}
	first := ts.begin(strings.Repeat("/x", maxNext), now)
	if first.next != "/" {
		t.Errorf("next has %d bytes, want /", len(first.next))
	}
	for range maxTrips {
		ts.begin("/", now)
	}
	if _, ok := ts.end(first.state, now); ok || len(ts.list) != maxTrips {
		t.Errorf("got %d sign-ins under way, want %d; the oldest is kept: %v", len(ts.list), maxTrips, ok)
	}
}

// After ten failures in a minute the forge is not called again.
func TestForgeFailures(t *testing.T) {
	p := newPeople(t)
	for i := range wrongTokens + 1 {
		u, _ := url.Parse(p.depart("ada"))
		status, page := p.get(Callback + "?code=wrong&state=" + u.Query().Get("state"))
		want := http.StatusBadGateway
		if i == wrongTokens {
			want = http.StatusTooManyRequests
		}
		if status != want {
			t.Fatalf("wrong code %d: got %d, want %d\n%s", i, status, want, page)
		}
	}
	if status, _ := p.post("/signin", p.server.URL, url.Values{"token": {token}}); status != http.StatusOK {
		t.Errorf("sign-in with the token: got status %d, want 200", status)
	}
}

// A forge that redirects, answers without end or sends nonsense causes no sign-in, and no token goes to another host.
func TestForgeHostile(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	lead := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < 3*maxForgeAnswer && w != nil; i += 1 << 10 {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1<<10))); err != nil {
				return
			}
		}
		fmt.Fprint(w, `{"access_token":"x","token_type":"bearer","login":"ada","permissions":{"pull":true,"push":true}}`)
	}
	say := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		}
	}
	good := say(`{"access_token":"x","token_type":"bearer"}`)
	for _, tt := range []struct {
		name              string
		token, user, repo http.HandlerFunc
	}{
		{"the code elsewhere", lead, nil, nil},
		{"the token elsewhere", good, lead, nil},
		{"the repository elsewhere", good, say(`{"login":"ada"}`), lead},
		{"an endless token", endless, nil, nil},
		{"an endless account", good, endless, nil},
		{"an endless repository", good, say(`{"login":"ada"}`), endless},
		{"no token", say(`{}`), nil, nil},
		{"no account", good, say(`null`), nil},
		{"an account of another shape", good, say(`{"login":7}`), nil},
		{"no rights", good, say(`{"login":"ada"}`), say(`null`)},
		{"rights of another shape", good, say(`{"login":"ada"}`), say(`{"permissions":"all"}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeople(t)
			mux := http.NewServeMux()
			for path, h := range map[string]http.HandlerFunc{
				"/login/oauth/access_token": tt.token, "/api/v1/user": tt.user, "/api/v1/repos/": tt.repo,
			} {
				if h != nil {
					mux.HandleFunc(path, h)
				}
			}
			back := p.depart("ada")
			hostile := httptest.NewServer(mux)
			defer hostile.Close()
			p.config.Forge.URL = hostile.URL
			if status, page := p.arrive(back); status < 400 || strings.Contains(page, "You are signed in") {
				t.Errorf("got %d, want an error:\n%s", status, page)
			}
			if elsewhere.Load() > 0 {
				t.Error("a request went to another host")
			}
		})
	}
}

// The browser is sent to the address that the forge publishes, unless that is not an http address.
func TestForgeAddress(t *testing.T) {
	for said, want := range map[string]string{
		"https://forge.example/login/oauth/authorize": "https://forge.example/login/oauth/authorize",
		"javascript:alert(1)":                         "",
		"//evil.example/":                             "",
		"https://user:pass@evil.example/":             "",
		"":                                            "",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"authorization_endpoint":%q}`, said)
		}))
		if got := authorizeAt(t.Context(), server.URL, ""); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
		server.Close()
	}
}

// A sign-in ends when the configuration no longer admits it: another token or application, none, or an agent's
// account.
func TestProofs(t *testing.T) {
	for name, change := range map[string]func(*threads.Config){
		"another client id": func(c *threads.Config) { c.Factory.WebClientID = "another" },
		"no client id":      func(c *threads.Config) { c.Factory.WebClientID = "" },
		"an agent's now":    func(c *threads.Config) { c.Forge.Bots = []string{"ada"} },
	} {
		p := newPeople(t)
		p.arrive(p.depart("ada"))
		if _, page := p.get("/"); !strings.Contains(page, "Sign out") {
			t.Fatalf("not signed in:\n%s", page)
		}
		change(p.config)
		if _, page := p.get("/"); strings.Contains(page, "Sign out") {
			t.Errorf("%s: still signed in", name)
		}
	}
	v := newVisit(t)
	v.signIn()
	v.site.Config().Factory.ListenToken = "another token, long enough"
	if _, page := v.get("/"); strings.Contains(page, "Sign out") {
		t.Error("another token: still signed in")
	}
}
