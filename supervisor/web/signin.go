package web

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const (
	// visitTime is how long a sign-in lasts without a request, and stayTime how long in all.
	visitTime = 12 * time.Hour
	stayTime  = 7 * 24 * time.Hour
	// forgeStay is how long a sign-in with the forge lasts in all. The next sign-in reads the person's rights again.
	forgeStay = 12 * time.Hour
	// maxVisitors bounds the sign-ins that are kept. The least recently used one is dropped first.
	maxVisitors = 1000
	// wrongTokens bounds the wrong tokens within a minute, counted over all clients. After them no token is checked
	// until the minute is over.
	wrongTokens = 10
	// cookie is the name of the cookie with a visitor's secret.
	cookie = "disinto"
	// maxForm bounds a form, in bytes.
	maxForm = 64 << 10
)

// visitor is a person who signed in with the forge or with the token.
type visitor struct {
	Name   string // the login on the forge; empty for the token
	Steers bool   // may use commands; other visitors may only look
	Secret string // sent with every form, so that no other site can forge one

	key         [sha256.Size]byte // of the cookie
	proof       [sha256.Size]byte // of the configuration that admitted the visitor: see Site.proof
	stay        time.Duration     // how long this sign-in lasts in all
	since, seen time.Time
	notice      string // the last command's answer, for the next page
	failed      bool
}

// visitors are the people signed in. The zero value has none. They are lost when the program ends.
type visitors struct {
	wrong tries // of tokens

	mu sync.Mutex // guards the fields below
	by map[[sha256.Size]byte]*visitor
}

// tries counts the failures of the last minute. The zero value has none.
type tries struct {
	mu     sync.Mutex // guards the fields below
	failed []time.Time
}

// allow reports whether another attempt is allowed now. An attempt counts as failed until succeed takes it back, so
// that simultaneous attempts have the same bound as successive ones.
func (t *tries) allow(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.failed) > 0 && now.Sub(t.failed[0]) >= time.Minute {
		t.failed = t.failed[1:]
	}
	if len(t.failed) >= wrongTokens {
		return false
	}
	t.failed = append(t.failed, now)
	return true
}

func (t *tries) succeed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.failed); n > 0 {
		t.failed = t.failed[:n-1]
	}
}

// add adds a visitor and returns the secret for the cookie.
func (vs *visitors) add(v visitor, now time.Time) (secret string) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.by == nil {
		vs.by = make(map[[sha256.Size]byte]*visitor)
	}
	vs.tidyLocked(now)
	secret = rand.Text()
	key := sha256.Sum256([]byte(secret))
	v.Secret, v.key, v.since, v.seen = rand.Text(), key, now, now
	vs.by[key] = &v
	return secret
}

// tidyLocked removes the visitors whose time is over, and makes room for one more.
func (vs *visitors) tidyLocked(now time.Time) {
	var oldest [sha256.Size]byte
	for key, v := range vs.by {
		if v.expired(now) {
			delete(vs.by, key)
		} else if o := vs.by[oldest]; o == nil || v.seen.Before(o.seen) {
			oldest = key
		}
	}
	if len(vs.by) >= maxVisitors {
		delete(vs.by, oldest)
	}
}

func (v *visitor) expired(now time.Time) bool {
	return now.Sub(v.seen) > visitTime || now.Sub(v.since) > v.stay
}

// find returns the visitor with a cookie's secret; nil if there is none.
func (vs *visitors) find(secret string, now time.Time) *visitor {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.by[sha256.Sum256([]byte(secret))]
	if v == nil || v.expired(now) {
		return nil
	}
	v.seen = now
	seen := *v
	return &seen
}

// setNotice stores a command's answer for the next page that the visitor loads; consumeNotice returns it once.
func (vs *visitors) setNotice(v *visitor, said string, failed bool) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if known := vs.by[v.key]; known != nil {
		known.notice, known.failed = said, failed
	}
}

func (vs *visitors) consumeNotice(v *visitor) (said string, failed bool) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if known := vs.by[v.key]; known != nil {
		said, failed = known.notice, known.failed
		known.notice, known.failed = "", false
	}
	return said, failed
}

func (vs *visitors) remove(secret string) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	delete(vs.by, sha256.Sum256([]byte(secret)))
}

// mayTry reports whether a token may be checked now, and counts a wrong one.
func (vs *visitors) mayTry(right func() bool, now time.Time) (may, ok bool) {
	if !vs.wrong.allow(now) {
		return false, false
	}
	if ok = right(); ok {
		vs.wrong.succeed()
	}
	return true, ok
}

// The ways to sign in.
const (
	byToken = "token"
	byForge = "forge"
)

// proof returns a hash of the configuration that admits visitors. A visitor who signed in with another token, or with
// the forge before it was turned off, has to sign in again.
func (s *Site) proof(way string) [sha256.Size]byte {
	f := s.factory()
	if way == byForge {
		return sha256.Sum256([]byte(byForge + "\x00" + f.WebClientID))
	}
	return sha256.Sum256([]byte(byToken + "\x00" + f.ListenToken.Reveal()))
}

// admits reports whether the configuration still admits a visitor. The account of a new agent is no longer admitted.
func (s *Site) admits(v *visitor) bool {
	if v.Name == "" {
		return v.proof == s.proof(byToken)
	}
	c := s.Config()
	return s.application() != nil && v.proof == s.proof(byForge) && !worksFor(c, v.Name)
}

// requireSignIn calls next only for visitors who signed in. It redirects other browsers to the sign-in, and answers
// programs with 401.
func (s *Site) requireSignIn(next func(http.ResponseWriter, *http.Request, *visitor)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var v *visitor
		if c, err := r.Cookie(cookie); err == nil {
			if v = s.visitors.find(c.Value, time.Now()); v != nil && !s.admits(v) {
				s.visitors.remove(c.Value)
				v = nil
			}
		}
		switch {
		case v != nil:
			next(w, r, v)
		case r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, "/signin?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		default:
			http.Error(w, "sign in first, at /signin", http.StatusUnauthorized)
		}
	}
}

// signInPage shows the form for the token.
func (s *Site) signInPage(w http.ResponseWriter, r *http.Request) {
	s.showSignIn(w, http.StatusOK, r.URL.Query().Get("next"), "")
}

// signIn checks a token.
func (s *Site) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := local(r.PostFormValue("next"))
	may, ok := s.visitors.mayTry(func() bool { return s.isToken(r.PostFormValue("token")) }, time.Now())
	switch {
	case !may:
		w.Header().Set("Retry-After", "60")
		s.showSignIn(w, http.StatusTooManyRequests, next, "Too many wrong tokens: wait a minute.")
	case !ok:
		s.showSignIn(w, http.StatusForbidden, next, "This is not the token of [factory] listen_token.")
	default:
		s.setCookie(w, r, s.visitors.add(visitor{Steers: true, stay: stayTime, proof: s.proof(byToken)}, time.Now()))
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// isToken reports whether a text is the token of the API.
func (s *Site) isToken(said string) bool {
	token := s.factory().ListenToken.Reveal()
	return token != "" && control.SameSecret(strings.TrimSpace(said), token)
}

// factory returns [factory] of the current configuration; the zero value without one.
func (s *Site) factory() threads.Factory {
	if c := s.Config(); c != nil {
		return c.Factory
	}
	return threads.Factory{}
}

// setCookie sets the visitor's cookie.
func (s *Site) setCookie(w http.ResponseWriter, r *http.Request, secret string) {
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: secret, Path: "/", MaxAge: int(stayTime / time.Second), HttpOnly: true,
		Secure: secure(r), SameSite: http.SameSiteStrictMode,
	})
}

// secure reports whether the browser uses TLS, according to the connection or to a proxy.
func secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func (s *Site) signOut(w http.ResponseWriter, r *http.Request, v *visitor) {
	if !checkForm(w, r, v) {
		return
	}
	if c, err := r.Cookie(cookie); err == nil {
		s.visitors.remove(c.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: secure(r)})
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

// checkForm reports whether a form carries the visitor's secret, and answers with 403 if not.
func checkForm(w http.ResponseWriter, r *http.Request, v *visitor) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if control.SameSecret(r.PostFormValue("secret"), v.Secret) {
		return true
	}
	http.Error(w, "this form is too old: load the page again", http.StatusForbidden)
	return false
}

// local returns next if it is a path of this site, else "/".
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.Contains(next, "\\") {
		return "/"
	}
	return next
}
