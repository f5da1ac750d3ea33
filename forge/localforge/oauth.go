package localforge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// application is a user's OAuth2 application. All applications are public clients, which authenticate with PKCE.
type application struct {
	id       int64
	user     *user
	name     string
	clientID string
	to       []string // redirect URIs
	created  time.Time
}

// grant is the code that a user gave to an application. It is valid for one exchange.
type grant struct {
	user      *user
	app       *application
	to        string
	challenge string
	scopes    []string
}

var oauthRoutes = []route{
	{"GET /user/applications/oauth2", scopeUser, signedIn, 200, listApplications, underLock},
	{"POST /user/applications/oauth2", scopeUser, signedIn, 201, createApplication, underLock},
}

type wireApplication struct {
	ID           int64     `json:"id"`
	Name         string    `json:"name"`
	ClientID     string    `json:"client_id"`
	ClientSecret string    `json:"client_secret"`
	Confidential bool      `json:"confidential_client"`
	RedirectURIs []string  `json:"redirect_uris"`
	Created      time.Time `json:"created"`
}

func (a *application) wire() wireApplication {
	return wireApplication{ID: a.id, Name: a.name, ClientID: a.clientID, RedirectURIs: a.to, Created: a.created}
}

func listApplications(c *call) (any, error) {
	own := slices.DeleteFunc(slices.Clone(c.f.apps), func(a *application) bool { return a.user != c.doer })
	return paged(c, own, (*application).wire), nil
}

func createApplication(c *call) (any, error) {
	var form wireApplication
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if form.Name == "" {
		return nil, missing("Name")
	}
	if form.Confidential {
		return nil, fail(http.StatusUnprocessableEntity, "the local forge has public clients only")
	}
	a := &application{
		id: c.f.nextIDLocked(), user: c.doer, name: form.Name, clientID: rand.Text(), to: form.RedirectURIs,
		created: c.f.now(),
	}
	c.f.apps = append(c.f.apps, a)
	answer := a.wire()
	answer.ClientSecret = rand.Text() // Forgejo creates a secret for public clients too
	return answer, nil
}

// oauth returns the handler of the OAuth2 endpoints. A person signs in with HTTP Basic instead of a form; signing in
// counts as consent.
func (f *Forge) oauth() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		base := "http://" + r.Host
		if f.opt.URL != "" {
			base = strings.TrimSuffix(f.opt.URL, "/")
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"authorization_endpoint": base + "/login/oauth/authorize"})
	})
	mux.HandleFunc("GET /login/oauth/authorize", f.authorize)
	mux.HandleFunc("POST /login/oauth/access_token", f.exchange)
	return mux
}

// authorize redirects a signed-in person to the application, with a code.
func (f *Forge) authorize(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ask := r.URL.Query()
	i := slices.IndexFunc(f.apps, func(a *application) bool { return a.clientID == ask.Get("client_id") })
	if i < 0 || !slices.Contains(f.apps[i].to, ask.Get("redirect_uri")) {
		http.Error(w, "unregistered client or redirect URI", http.StatusBadRequest)
		return
	}
	who, err := f.identifyLocked(r)
	if err != nil || who.user == nil || who.scopes != nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="the local forge"`)
		http.Error(w, "sign in with a password", http.StatusUnauthorized)
		return
	}
	answer := url.Values{"state": {ask.Get("state")}}
	if ask.Get("code_challenge_method") != "S256" || ask.Get("code_challenge") == "" {
		answer.Set("error", "invalid_request")
	} else {
		code := rand.Text()
		f.grants[code] = grant{
			who.user, f.apps[i], ask.Get("redirect_uri"), ask.Get("code_challenge"), strings.Fields(ask.Get("scope")),
		}
		answer.Set("code", code)
	}
	http.Redirect(w, r, ask.Get("redirect_uri")+"?"+answer.Encode(), http.StatusSeeOther)
}

// exchange returns a token for a code, once, to a client that knows the verifier of the code's challenge.
func (f *Forge) exchange(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	_ = r.ParseForm()
	f.mu.Lock()
	defer f.mu.Unlock()
	g, ok := f.grants[r.PostForm.Get("code")]
	delete(f.grants, r.PostForm.Get("code"))
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if !ok || g.app.clientID != r.PostForm.Get("client_id") || g.to != r.PostForm.Get("redirect_uri") ||
		g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "unauthorized_client"})
		return
	}
	t := f.addTokenLocked(g.user, "oauth2-"+rand.Text(), g.scopes)
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": t.secret, "token_type": "bearer", "expires_in": 3600})
}
