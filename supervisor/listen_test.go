package supervisor_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

const apiToken = "0123456789abcdef0123"

// phone listens on loopback in place of every requested address.
type phone struct {
	t  *testing.T
	mu sync.Mutex        // guards the fields below
	at map[string]string // the real address, by the requested one
	no map[string]error  // the error of an address that cannot be listened on
}

func (p *phone) listen(address string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.no[address]; err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		p.at[address] = l.Addr().String()
	}
	return l, err
}

// url waits until phone listens in place of the address.
func (p *phone) url(address string) string {
	p.t.Helper()
	url := ""
	eventually(p.t, "somebody listens on "+address, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		url = "http://" + p.at[address]
		return p.at[address] != ""
	})
	return url
}

// reachable returns a supervisor that listens on TCP.
func reachable(t *testing.T) (*supervisor.Supervisor, *simtest.World, *phone) {
	t.Helper()
	p := &phone{t: t, at: map[string]string{}, no: map[string]error{}}
	s, w, _ := real(t, t.TempDir(), func(s *supervisor.Supervisor) {
		s.ListenTCP = p.listen
		f := &s.Config.Factory
		f.Listen, f.ListenToken, f.ListenHosts = "factory.example:7070", apiToken, []string{"proxy.example"}
		f.ListenHooks, f.ListenMetrics = ":7071", "factory.example:7073"
		s.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "disinto_up 1") })
		s.Config.Forge.WebhookSecret = hookSecret
	})
	return s, w, p
}

// ask makes a request with a Host and an Authorization header.
func ask(t *testing.T, method, url, host, authorization string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// Over TCP every request needs the token, and one of our names as its host.
func TestAPIOverTCP(t *testing.T) {
	s, _, p := reachable(t)
	url := p.url("factory.example:7070")
	const good = "Bearer " + apiToken
	eventually(t, "it began", func() bool { return s.Document().Forge.OK })
	for _, tt := range []struct {
		method, path, host, auth string
		want                     int
	}{
		{"GET", "/v1/state", "", good, 200},
		{"POST", "/v1/pause", "", good, 200},
		{"GET", "/healthz", "", good, 200},
		// Without the token every path answers 401, even /healthz.
		{"GET", "/v1/state", "", "", 401},
		{"GET", "/healthz", "", "", 401},
		{"GET", "/v1/nothing", "", "", 401},
		{"POST", "/v1/resume", "", "", 401},
		{"GET", "/v1/events", "", "Bearer ", 401},
		{"GET", "/v1/log?of=1", "", "Bearer " + apiToken[1:], 401},
		{"GET", "/v1/state?token=" + apiToken, "", "", 401},
		// A host name that a web page made resolve to our address is refused.
		{"POST", "/v1/resume", "evil.example:7070", good, 421},
		// Hooks have their own port.
		{"POST", "/v1/hook", "", good, 404},
	} {
		resp := ask(t, tt.method, url+tt.path, tt.host, tt.auth)
		if resp.StatusCode != tt.want {
			t.Errorf("%s %s at %q with %q: got %d, want %d", tt.method, tt.path, tt.host, tt.auth, resp.StatusCode, tt.want)
		}
		if asks := resp.Header.Get("WWW-Authenticate"); (asks != "") != (tt.want == 401) {
			t.Errorf("%s %s: got WWW-Authenticate %q, want it with 401 only", tt.method, tt.path, asks)
		}
	}
	if d := s.Document(); !d.Paused {
		t.Error("the authorised pause did nothing")
	}
	// The socket in the state directory needs no token, because only our own user can open it.
	info, err := os.Stat(filepath.Join(s.StateDir, "disinto.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: got mode %v, %v, want 0600", info.Mode(), err)
	}
	if status, _ := get(t, socketClient(s.StateDir), "/v1/state"); status != http.StatusOK {
		t.Errorf("on the socket: got %d, want 200", status)
	}
}

// The port for hooks serves nothing else.
func TestHookPortServesHooksOnly(t *testing.T) {
	_, _, p := reachable(t)
	url := p.url(":7071")
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/v1/state", 404},
		{"GET", "/healthz", 404},
		{"POST", "/v1/cancel", 404},
		{"GET", "/v1/hook", 405},
		{"POST", "/v1/hook", 403},
	} {
		if resp := ask(t, tt.method, url+tt.path, "", "Bearer "+apiToken); resp.StatusCode != tt.want {
			t.Errorf("%s %s: got %d, want %d", tt.method, tt.path, resp.StatusCode, tt.want)
		}
	}
}

// The port for metrics serves nothing else, without a token, under our own name. On the port of the API, metrics need
// the token.
func TestMetricsPort(t *testing.T) {
	_, _, p := reachable(t)
	metrics, api := p.url("factory.example:7073"), p.url("factory.example:7070")
	for _, tt := range []struct {
		method, url, host, auth string
		want                    int
	}{
		{"GET", metrics + "/metrics", "", "", 200},
		{"GET", metrics + "/metrics", "factory.example:7073", "", 200},
		{"GET", metrics + "/metrics", "proxy.example", "", 200},
		{"GET", metrics + "/metrics", "evil.example:7073", "", 421},
		{"POST", metrics + "/metrics", "", "", 405},
		{"GET", metrics + "/v1/state", "", "Bearer " + apiToken, 404},
		{"POST", metrics + "/v1/pause", "", "Bearer " + apiToken, 404},
		{"GET", metrics + "/healthz", "", "", 404},
		{"GET", metrics + "/debug/pprof/", "", "", 404},
		{"GET", api + "/metrics", "", "Bearer " + apiToken, 200},
		{"GET", api + "/metrics", "", "", 401},
	} {
		if resp := ask(t, tt.method, tt.url, tt.host, tt.auth); resp.StatusCode != tt.want {
			t.Errorf("%s %s at %q with %q: got %d, want %d", tt.method, tt.url, tt.host, tt.auth, resp.StatusCode, tt.want)
		}
	}
}

// A reload opens and closes ports as configured, and replaces the token.
func TestListenReload(t *testing.T) {
	s, w, p := reachable(t)
	url := p.url("factory.example:7070")
	next := *w.Config
	next.Factory.ListenToken = "another token, as long"
	s.Reload(&next, nil)
	if resp := ask(t, "GET", url+"/v1/state", "", "Bearer "+apiToken); resp.StatusCode != 401 {
		t.Errorf("with the old token: got %d, want 401", resp.StatusCode)
	}
	if resp := ask(t, "GET", url+"/v1/state", "", "Bearer another token, as long"); resp.StatusCode != 200 {
		t.Errorf("with the new token: got %d, want 200", resp.StatusCode)
	}
	moved := next
	moved.Factory.Listen, moved.Factory.ListenHooks = ":7072", ""
	s.Reload(&moved, nil)
	if resp := ask(t, "GET", p.url(":7072")+"/v1/state", "", "Bearer another token, as long"); resp.StatusCode != 200 {
		t.Errorf("at the new address: got %d, want 200", resp.StatusCode)
	}
	for _, old := range []string{"factory.example:7070", ":7071"} {
		eventually(t, "nobody listens on "+old, func() bool {
			c, err := net.Dial("tcp", strings.TrimPrefix(p.url(old), "http://"))
			if err == nil {
				c.Close()
			}
			return err != nil
		})
	}
}

// An address that is in use is shown as a problem, and tried again.
func TestListenTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := errors.New("address already in use")
		w := simtest.New(t)
		w.Config.Factory.Listen, w.Config.Factory.ListenToken = "127.0.0.1:7070", apiToken
		var mu sync.Mutex
		tries := 0
		l := w.Start(func(l *simtest.Life) {
			l.ListenTCP = func(string) (net.Listener, error) {
				mu.Lock()
				defer mu.Unlock()
				if tries++; taken != nil {
					return nil, taken
				}
				return simtest.NewListener(), nil
			}
		})
		w.Forge.Issue("one")
		time.Sleep(55 * time.Second)
		want := "cannot listen on 127.0.0.1:7070: address already in use: nothing answers there; see [factory] listen"
		if d := l.Document(); len(d.Problems) != 1 || d.Problems[0] != want || len(d.Sessions) != 1 {
			t.Errorf("got problems %q, %d sessions, want %q and 1", d.Problems, len(d.Sessions), want)
		}
		if n := strings.Count(w.Log.String(), "cannot listen"); n != 1 {
			t.Errorf("got %d log lines about the address, want 1", n)
		}
		mu.Lock()
		if tries != 6 {
			t.Errorf("got %d tries in a minute, want 6", tries)
		}
		taken = nil
		mu.Unlock()
		w.Until(11*time.Second, "it listens", func() bool { return len(l.Document().Problems) == 0 })
		l.Stop()
	})
}
