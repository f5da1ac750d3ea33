package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const (
	apiToken   = "0123456789abcdef0123"
	hookSecret = "the secret of the hook"
)

func config() *threads.Config {
	c := &threads.Config{}
	f := &c.Factory
	f.Listen, f.ListenToken, f.ListenHosts = "factory.example:7070", apiToken, []string{"proxy.example"}
	c.Forge.WebhookSecret = hookSecret
	return c
}

// Every request needs the token and a Host that names the factory.
func TestGuard(t *testing.T) {
	behind := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := Guard(config, behind)
	const good = "Bearer " + apiToken
	for _, tt := range []struct {
		host, auth string
		want       int
	}{
		{"factory.example", good, 200},
		{"Factory.Example:7070", good, 200},
		{"proxy.example", good, 200},
		{"localhost:7070", good, 200},
		{"127.0.0.9", good, 200},
		{"[::1]:7070", good, 200},
		{"localhost", "bearer  " + apiToken, 200},
		{"localhost", "", 401},
		{"localhost", "Bearer ", 401},
		{"localhost", "Bearer " + apiToken[1:], 401},
		{"localhost", good + "0", 401},
		{"localhost", "Basic " + apiToken, 401},
		{"localhost", apiToken, 401},
		// The owner of a web page can make its name resolve to our address.
		{"evil.example", good, 421},
		{"factory.example.evil.example", good, 421},
		{"10.0.0.7", good, 421},
		{"", good, 421},
		{"localhost/", good, 421},
	} {
		r := httptest.NewRequest("GET", "/v1/state", nil)
		r.Host = tt.host
		r.Header.Set("Authorization", tt.auth)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("at %q with %q: got %d, want %d", tt.host, tt.auth, w.Code, tt.want)
		}
		asks := w.Header().Get("WWW-Authenticate") != ""
		if asks != (tt.want == 401) || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("at %q with %q: got headers %v", tt.host, tt.auth, w.Header())
		}
	}
	for name, none := range map[string]*threads.Config{"no configuration": nil, "no token": {}} {
		w := httptest.NewRecorder()
		Guard(func() *threads.Config { return none }, behind).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != 503 {
			t.Errorf("with %s: got %d, want 503", name, w.Code)
		}
	}
}

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// posted sends a web hook and returns the answer's status, and the call that it caused.
func posted(body string, header ...string) (status int, called string) {
	h := Hooks{
		Config:   config,
		Signed:   func(repo string) { called += "signed " + repo },
		Unsigned: func(repo string) { called = "unsigned " + repo },
		Written: func(s forge.CommandComment) {
			called = fmt.Sprintf("%d by %s: %s, ", s.ID, s.Author, s.Command.Verb)
		},
	}
	r := httptest.NewRequest("POST", "/v1/hook", strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, r)
	return w.Code, called
}

// A hook proves what a comment said when it was written, if its author sent it, and only then.
func TestHookOfComment(t *testing.T) {
	body := func(action, sender, text string) string {
		return fmt.Sprintf(`{"action":%q,"comment":{"id":7,"body":%q,"user":{"login":"ada"}},"sender":{"login":%q},`+
			`"repository":{"full_name":"a/b"}}`, action, text, sender)
	}
	for _, tt := range []struct{ name, body, secret, called string }{
		{"new", body("created", "ada", "/disinto retry"), hookSecret, "7 by ada: retry, signed a/b"},
		{"new text", body("created", "ada", "Thanks."), hookSecret, "7 by ada: , signed a/b"},
		{"edited", body("edited", "ada", "/disinto retry"), hookSecret, "signed a/b"},
		{"of another account", body("created", "dev", "/disinto retry"), hookSecret, "signed a/b"},
		{"without a sender", body("created", "", "/disinto retry"), hookSecret, "signed a/b"},
		{"unsigned", body("created", "ada", "/disinto retry"), "x", "unsigned a/b"},
	} {
		if _, called := posted(tt.body, "X-Forgejo-Signature", sign(tt.secret, tt.body)); called != tt.called {
			t.Errorf("%s: got %q, want %q", tt.name, called, tt.called)
		}
	}
}

// Only a body that is signed with the secret counts.
func TestHook(t *testing.T) {
	const body = `{"action":"opened","repository":{"full_name":"Johba/Harb"}}`
	sum := sign(hookSecret, body)
	large := strings.Repeat(" ", maxHook) + body
	form := url.Values{"payload": {body}}.Encode()
	const unsigned, formType = "unsigned Johba/Harb", "application/x-www-form-urlencoded"
	for _, tt := range []struct {
		name   string
		body   string
		header []string
		want   int
		called string
	}{
		{"Forgejo's", body, []string{"X-Forgejo-Signature", sum}, 202, "signed Johba/Harb"},
		{"Gitea's", body, []string{"X-Gitea-Signature", sum}, 202, "signed Johba/Harb"},
		{"GitHub's", body, []string{"X-Hub-Signature-256", "sha256=" + sum}, 202, "signed Johba/Harb"},
		{"a form", form, []string{"X-Forgejo-Signature", sum, "Content-Type", formType}, 202, "signed Johba/Harb"},
		{"a form, unsigned", form, []string{"Content-Type", formType + "; charset=utf-8"}, 403, unsigned},
		{"a form without a payload", "x=1", []string{"X-Forgejo-Signature", sum, "Content-Type", formType}, 403, ""},
		{"unsigned", body, nil, 403, unsigned},
		{"empty", "", nil, 403, ""},
		{"signed with another secret", body, []string{"X-Forgejo-Signature", sign("x", body)}, 403, unsigned},
		{"signed with an empty secret", body, []string{"X-Forgejo-Signature", sign("", body)}, 403, unsigned},
		{"another body", body + " ", []string{"X-Forgejo-Signature", sum}, 403, unsigned},
		{"half a signature", body, []string{"X-Forgejo-Signature", sum[:32]}, 403, unsigned},
		{"no hex", body, []string{"X-Forgejo-Signature", "z" + sum[1:]}, 403, unsigned},
		{"GitHub's without its prefix", body, []string{"X-Hub-Signature-256", sum}, 403, unsigned},
		{"the first header wrong", body, []string{"X-Forgejo-Signature", "00", "X-Gitea-Signature", sum}, 403, unsigned},
		{"too large", large, []string{"X-Forgejo-Signature", sign(hookSecret, large)}, 413, ""},
		{"not JSON", "payload=", []string{"X-Forgejo-Signature", sign(hookSecret, "payload=")}, 400, ""},
		{"without a repository", "{}", []string{"X-Forgejo-Signature", sign(hookSecret, "{}")}, 400, ""},
	} {
		if got, called := posted(tt.body, tt.header...); got != tt.want || called != tt.called {
			t.Errorf("%s: got %d %q, want %d %q", tt.name, got, called, tt.want, tt.called)
		}
	}
	for path, want := range map[string]int{"/v1/hook": 405, "/v1/state": 404} {
		w := httptest.NewRecorder()
		Hooks{Config: config}.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("GET %s: got %d, want %d", path, w.Code, want)
		}
	}
	w := httptest.NewRecorder()
	none := Hooks{Config: func() *threads.Config { return nil }}
	none.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/v1/hook", nil))
	if w.Code != 503 {
		t.Errorf("without a configuration: got %d, want 503", w.Code)
	}
}

// Every hook is answered, and none has an effect without a valid signature.
func FuzzHook(f *testing.F) {
	f.Add(`{"repository":{"full_name":"johba/harb"}}`, "", true)
	f.Add(`{"repository":null}`, "", false)
	f.Add(`{"repository":{"full_name":"../.."}}`, "sha256=", true)
	f.Add(`[[[[`, "00", true)
	f.Fuzz(func(t *testing.T, body, signature string, sealed bool) {
		right := sign(hookSecret, body)
		if sealed {
			signature = right
		}
		got, called := posted(body, "X-Forgejo-Signature", signature)
		if strings.EqualFold(signature, right) {
			if got != 202 && got != 400 {
				t.Errorf("%q signed %q: got %d, want 202 or 400", body, signature, got)
			}
		} else if got != 403 || strings.HasPrefix(called, "signed") {
			t.Errorf("%q signed %q: got %d, %s; want 403 and no effect", body, signature, got, called)
		}
	})
}

// A failed listener is reported, opened again, and its report withdrawn; a reload moves a listener.
func TestPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		c, busy := *config(), errors.New("address already in use")
		c.Factory.Listen = "one:7070"
		listened, problem := []string{}, ""
		listeners := make(map[string]*stub)
		p := &Ports{
			Config: func() *threads.Config {
				mu.Lock()
				defer mu.Unlock()
				now := c
				return &now
			},
			API: http.NotFoundHandler(), Hooks: http.NotFoundHandler(), Log: hclog.NewNullLogger(),
			Problem: func(key, why string) {
				if key == "listen" {
					mu.Lock()
					defer mu.Unlock()
					problem = why
				}
			},
			Listen: func(address string) (net.Listener, error) {
				mu.Lock()
				defer mu.Unlock()
				listened = append(listened, address)
				if busy != nil {
					return nil, busy
				}
				listeners[address] = &stub{closed: make(chan struct{}), err: make(chan error, 1)}
				return listeners[address], nil
			},
		}
		step := func(wantTries int, wantProblem string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(listened) != wantTries || problem != wantProblem {
				t.Errorf("got tries %q, problem %q; want %d tries, %q", listened, problem, wantTries, wantProblem)
			}
		}
		changed := make(chan struct{})
		end := p.Serve(changed)
		const taken = "cannot listen on one:7070: address already in use: nothing answers there; see [factory] listen"
		step(1, taken)
		time.Sleep(portRest)
		step(2, taken)
		mu.Lock()
		busy = nil
		mu.Unlock()
		time.Sleep(portRest)
		step(3, "")
		listeners["one:7070"].err <- errors.New("too many open files")
		step(4, "")
		changed <- struct{}{}
		step(4, "")
		mu.Lock()
		c.Factory.Listen = "two:7070"
		mu.Unlock()
		changed <- struct{}{}
		step(5, "")
		<-listeners["one:7070"].closed
		end()
		<-listeners["two:7070"].closed
	})
}

// stub is a listener without clients.
type stub struct {
	once   sync.Once
	closed chan struct{}
	err    chan error // ends Accept
}

func (l *stub) Accept() (net.Conn, error) {
	select {
	case err := <-l.err:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *stub) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *stub) Addr() net.Addr { return &net.UnixAddr{Name: "stub", Net: "unix"} }

func TestListenUnix(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", maxSocketPath))
	if _, err := ListenUnix(long); err == nil || !strings.Contains(err.Error(), "use a shorter --state") {
		t.Errorf("with a long path: got error %v", err)
	}
	path := filepath.Join(t.TempDir(), SocketName)
	for range 2 { // the second time a dead supervisor's socket exists
		l, err := ListenUnix(path)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
	}
}
