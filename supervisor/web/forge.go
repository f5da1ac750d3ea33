package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// People sign in with their accounts on the forge by OAuth2's code flow with PKCE. The control room is a public
// client: it has no secret that could leak. The token that the forge gives for the code only serves to read who the
// person is and what the account may do. It is not kept.

const (
	// tripTime is how long a person may take at the forge. maxTrips bounds the sign-ins under way; the oldest is
	// dropped.
	tripTime = 10 * time.Minute
	maxTrips = 1000
	// tripCookie is the cookie that identifies the browser when it returns from the forge. The session's own cookie
	// cannot: it is SameSite=Strict, and a browser that comes from the forge does not send it.
	tripCookie = "disinto-signin"
	// maxNext bounds the address to redirect to after a sign-in, in bytes.
	maxNext = 1 << 10
	// atForge bounds the sign-ins that call the forge at the same time, forgeTime the time of each, and
	// maxForgeAnswer the bytes read of an answer.
	atForge        = 4
	forgeTime      = 20 * time.Second
	maxForgeAnswer = 1 << 20
)

// Callback is the path to which the forge sends the browser back: the redirect URI of the application, without the
// control room's address.
const Callback = "/signin/callback"

// forgeSignIn is one sign-in with the forge, from the redirect there until the return.
type forgeSignIn struct {
	state, verifier, next string
	begun                 time.Time
}

// forgeSignIns are the sign-ins under way. The zero value has none.
type forgeSignIns struct {
	mu   sync.Mutex    // guards the fields below
	list []forgeSignIn // oldest first
	busy int           // sign-ins that call the forge now
}

// begin records a sign-in that starts now.
func (ts *forgeSignIns) begin(next string, now time.Time) forgeSignIn {
	if len(next) > maxNext {
		next = "/"
	}
	t := forgeSignIn{state: rand.Text(), verifier: oauth2.GenerateVerifier(), next: local(next), begun: now}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.list = slices.DeleteFunc(ts.list, func(t forgeSignIn) bool { return now.Sub(t.begun) > tripTime })
	if len(ts.list) >= maxTrips {
		ts.list = slices.Delete(ts.list, 0, 1)
	}
	ts.list = append(ts.list, t)
	return t
}

// end removes a sign-in. ok reports whether it existed and had not timed out.
func (ts *forgeSignIns) end(state string, now time.Time) (t forgeSignIn, ok bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	i := slices.IndexFunc(ts.list, func(t forgeSignIn) bool { return t.state == state })
	if i < 0 {
		return forgeSignIn{}, false
	}
	t = ts.list[i]
	ts.list = slices.Delete(ts.list, i, i+1)
	return t, now.Sub(t.begun) <= tripTime
}

// acquire reserves the forge for one sign-in. It returns false if atForge sign-ins already call the forge.
func (ts *forgeSignIns) acquire() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.busy >= atForge {
		return false
	}
	ts.busy++
	return true
}

func (ts *forgeSignIns) release() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.busy--
}

// forgeClient calls the forge. It follows no redirect: one could take the code or the token to another host.
var forgeClient = &http.Client{
	Timeout:       forgeTime,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// application returns the control room as an OAuth2 application of the forge; nil if none is configured.
func (s *Site) application() *oauth2.Config {
	c := s.Config()
	if c == nil || c.Factory.WebClientID == "" || c.Factory.WebAddress() == "" {
		return nil
	}
	return &oauth2.Config{
		ClientID: c.Factory.WebClientID, RedirectURL: c.Factory.WebAddress() + Callback,
		Endpoint: oauth2.Endpoint{
			AuthURL: c.Forge.URL + "/login/oauth/authorize", TokenURL: c.Forge.URL + "/login/oauth/access_token",
			AuthStyle: oauth2.AuthStyleInParams,
		},
		Scopes: []string{"read:user", "read:repository"},
	}
}

// refusal is the reason why the forge sign-in failed, in words for the person.
type refusal struct {
	status int
	words  string
}

func (r *refusal) Error() string { return r.words }

func refused(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// errNoTrip refuses a callback that does not belong to a sign-in under way in this browser, such as a second use or
// an attacker's link.
var errNoTrip = refused(http.StatusBadRequest,
	"This sign-in did not start in this browser, or took too long: try again.")

// redirectToForge redirects a person to the forge.
func (s *Site) redirectToForge(w http.ResponseWriter, r *http.Request) {
	app := s.application()
	if app == nil {
		http.NotFound(w, r)
		return
	}
	if !s.trips.acquire() {
		s.showSignIn(w, http.StatusServiceUnavailable, r.FormValue("next"), "Too many sign-ins at once: try again.")
		return
	}
	app.Endpoint.AuthURL = authorizeAt(r.Context(), s.Config().Forge.URL, app.Endpoint.AuthURL)
	s.trips.release()
	t := s.trips.begin(r.URL.Query().Get("next"), time.Now())
	s.setSignInCookie(w, r, t.state, int(tripTime/time.Second))
	http.Redirect(w, r, app.AuthCodeURL(t.state, oauth2.S256ChallengeOption(t.verifier)), http.StatusSeeOther)
}

// setSignInCookie sets the cookie of a sign-in, or deletes it if age is negative. The cookie is Lax because a browser
// that comes back from the forge sends no Strict cookies.
func (s *Site) setSignInCookie(w http.ResponseWriter, r *http.Request, state string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: tripCookie, Value: state, Path: Callback, MaxAge: age, HttpOnly: true, Secure: secure(r),
		SameSite: http.SameSiteLaxMode,
	})
}

// authorizeAt returns the address of the forge's consent page as browsers reach it. [forge] url is the forge's
// address for the supervisor, which in a container may have another name. The browser is sent there without a token.
func authorizeAt(ctx context.Context, forgeURL, otherwise string) string {
	var known struct {
		Authorize string `json:"authorization_endpoint"`
	}
	if fetchForge(ctx, forgeURL+"/.well-known/openid-configuration", "", &known) != nil {
		return otherwise
	}
	u, err := url.Parse(known.Authorize)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return otherwise
	}
	return known.Authorize
}

// signInFromForge signs in a person who comes back from the forge.
func (s *Site) signInFromForge(w http.ResponseWriter, r *http.Request) {
	app := s.application()
	if app == nil {
		http.NotFound(w, r)
		return
	}
	query := r.URL.Query()
	s.setSignInCookie(w, r, "", -1)
	came, err := r.Cookie(tripCookie)
	if err != nil || came.Value == "" || came.Value != query.Get("state") {
		s.showRefusal(w, "", errNoTrip)
		return
	}
	t, ok := s.trips.end(came.Value, time.Now())
	if !ok {
		s.showRefusal(w, "", errNoTrip)
		return
	}
	who, err := s.exchangeCode(r.Context(), app, t, query)
	if err != nil {
		s.showRefusal(w, t.next, err)
		return
	}
	s.setCookie(w, r, s.visitors.add(who, time.Now()))
	s.Log.Info("the control room: " + who.Name + " signed in with the forge")
	// Not a redirect: the browser would count it as part of its way from the forge and not send the Strict cookie.
	send(w, http.StatusOK, "signedin", t.next)
}

func (s *Site) showRefusal(w http.ResponseWriter, next string, err error) {
	status, words := http.StatusBadGateway, "The sign-in with the forge failed: try again."
	if r := (*refusal)(nil); errors.As(err, &r) {
		status, words = r.status, r.words
	} else {
		s.Log.Warn("the control room: " + err.Error())
	}
	s.showSignIn(w, status, next, words)
}

// exchangeCode exchanges the code for a token and returns the visitor. After ten failures within a minute, counted over
// all visitors, it does not call the forge until the minute is over.
func (s *Site) exchangeCode(ctx context.Context, app *oauth2.Config, t forgeSignIn, query url.Values) (visitor, error) {
	code := query.Get("code")
	switch {
	case query.Get("error") == "access_denied":
		return visitor{}, refused(http.StatusForbidden, "You did not authorize disinto on Forgejo.")
	case code == "":
		return visitor{}, refused(http.StatusBadGateway,
			"The forge refused: is web_client_id right, and %s a redirect URI of the application?", app.RedirectURL)
	case !s.trips.acquire():
		return visitor{}, refused(http.StatusServiceUnavailable, "Too many sign-ins at once: try again.")
	}
	defer s.trips.release()
	if !s.failures.allow(time.Now()) {
		return visitor{}, refused(http.StatusTooManyRequests, "Too many sign-ins failed: wait a minute.")
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, forgeClient), forgeTime)
	defer cancel()
	token, err := app.Exchange(ctx, code, oauth2.VerifierOption(t.verifier))
	if err != nil {
		return visitor{}, fmt.Errorf("cannot exchange the code of a sign-in: %w", brief(err))
	}
	who, err := s.visitorOf(ctx, token.AccessToken)
	if err == nil {
		s.failures.succeed()
	}
	return who, err
}

// brief returns an exchange error without the forge's answer, which may be long and contain the code.
func brief(err error) error {
	if r := (*oauth2.RetrieveError)(nil); errors.As(err, &r) {
		return fmt.Errorf("the forge answered %s", r.Response.Status)
	}
	return fmt.Errorf("%w: no answer that could be read", forge.ErrUnavailable)
}

// visitorOf returns the visitor whose token it is. The account must be able to read every repository of the factory,
// because the pages show all of them. It may steer if it can write to every one.
func (s *Site) visitorOf(ctx context.Context, token string) (visitor, error) {
	c := s.Config()
	var account struct{ Login string }
	if err := fetchForge(ctx, c.Forge.URL+"/api/v1/user", token, &account); err != nil {
		return visitor{}, err
	}
	switch {
	case account.Login == "":
		return visitor{}, errors.New("cannot read the forge's answer: it names no account")
	case worksFor(c, account.Login):
		return visitor{}, refused(http.StatusForbidden,
			"%s is an agent's account: only people may sign in.", account.Login)
	}
	v := visitor{Name: account.Login, Steers: true, stay: forgeStay, proof: s.proof(byForge)}
	for _, repo := range c.Forge.Repos {
		var r struct {
			Permissions struct{ Admin, Push, Pull bool }
		}
		err := fetchForge(ctx, c.Forge.URL+"/api/v1/repos/"+repo, token, &r)
		if no := r.Permissions; errors.Is(err, forge.ErrNotFound) || err == nil && !(no.Pull || no.Push || no.Admin) {
			return visitor{}, refused(http.StatusForbidden, "%s may not read %s.", account.Login, repo)
		} else if err != nil {
			return visitor{}, err
		}
		v.Steers = v.Steers && (r.Permissions.Push || r.Permissions.Admin)
	}
	return v, nil
}

// worksFor reports whether an account is an agent's, on this host or another.
func worksFor(c *threads.Config, login string) bool {
	same := func(other string) bool { return strings.EqualFold(other, login) }
	for i := range c.Agents {
		if same(c.Agents[i].Login) {
			return true
		}
	}
	return slices.ContainsFunc(c.Forge.Bots, same)
}

// fetchForge gets JSON from the forge. An empty token sends none.
func fetchForge(ctx context.Context, address, token string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("cannot ask the forge: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := forgeClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot ask the forge: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("cannot ask the forge: GET %s: %w", req.URL.Path, forge.ErrNotFound)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("cannot ask the forge: GET %s: %s", req.URL.Path, cmp.Or(resp.Status, "no status"))
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxForgeAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("cannot read the forge's answer to GET %s: %w", req.URL.Path, err)
	}
	return nil
}
