package gate

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
)

// door is a session's proxy with a client of it.
type door struct {
	*Proxy
	*testing.T
	client http.Client
	log    strings.Builder
}

func newDoor(t *testing.T, o Order) *door {
	t.Helper()
	d := &door{T: t}
	p, err := Listen(&o, func(line string) { d.log.WriteString(line + "\n") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listener.Close() })
	d.Proxy = p
	u, err := url.Parse(agents.Getenv(p.Environ(), "https_proxy"))
	if err != nil {
		t.Fatal(err)
	}
	d.client.Transport = &http.Transport{
		Proxy: http.ProxyURL(u), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}
	return d
}

// get returns the answer's status and body.
func (d *door) get(address string) string {
	answer, err := d.client.Get(address)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.Status + " " + string(body)
}

// raw sends a request by hand, with the password, and returns the connection and the first line of the answer.
func (d *door) raw(request string) (net.Conn, *bufio.Reader, string) {
	d.Helper()
	c, err := net.Dial("tcp", d.listener.Addr().String())
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { c.Close() })
	login, _ := http.NewRequest(http.MethodGet, "http://x", nil)
	login.SetBasicAuth(proxyUser, d.password)
	if _, err := io.WriteString(c, request+" HTTP/1.1\r\nHost: x\r\nProxy-Authorization: "+
		login.Header.Get("Authorization")+"\r\n\r\n"); err != nil {
		d.Fatal(err)
	}
	in := bufio.NewReader(c)
	line, _ := in.ReadString('\n')
	return c, in, strings.TrimSpace(line)
}

// refusedHosts waits until a number of hosts was refused.
func (d *door) refusedHosts(n int) agents.Refusals {
	for range 2000 {
		if got := d.Refused(); len(got) >= n {
			return got
		}
		time.Sleep(5 * time.Millisecond)
	}
	return d.Refused()
}

func TestPlainHTTP(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte("heard "), body...))
	}))
	defer server.Close()
	u, _ := url.Parse(server.URL)
	d := newDoor(t, Order{Hosts: []string{u.Host, "localhost"}})
	answer, err := d.client.Post(server.URL+"/a?b=c", "text/plain", strings.NewReader("words"))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	if string(body) != "heard words" || got.RequestURI != "/a?b=c" || got.Host != u.Host ||
		got.Header.Get("Proxy-Authorization") != "" || !got.Close {
		t.Errorf("%s %q, request %+v", answer.Status, body, got)
	}
	for address, want := range map[string]string{
		"http://evil.example/": "403 Forbidden disinto does not allow this session to reach evil.example:80; " +
			`the operator can allow it: egress = ["evil.example:80"]`,
		"http://evil.example:8080/": `egress = ["evil.example:8080"]`,
		"https://evil.example/":     "Forbidden",
		"https://localhost/":        "Forbidden", // its rule has no port, and this is an address of this machine
	} {
		if got := d.get(address); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	want := agents.Refusals{
		{Host: "evil.example:443", Rule: "evil.example", Times: 1},
		{Host: "evil.example:80", Rule: "evil.example:80", Times: 1},
		{Host: "evil.example:8080", Rule: "evil.example:8080", Times: 1},
		{Host: "localhost:443", Rule: "localhost:443", Times: 1},
	}
	if got := d.Refused(); !slices.Equal(got, want) {
		t.Errorf("refused %+v", got)
	}
	if n := strings.Count(d.log.String(), "egress: "); n != 4 {
		t.Errorf("%d lines in the log:\n%s", n, &d.log)
	}
}

// Another session, which has no password, and what is no request get nothing.
func TestStrangers(t *testing.T) {
	d := newDoor(t, Order{Hosts: []string{"evil.example"}})
	for request, want := range map[string]string{
		"CONNECT evil.example:443 HTTP/1.1\r\n\r\n": "407", "\r\n": "400", "CONNECT a HTTP/1.1\r\n b: c\r\n\r\n": "400",
		"CONNECT evil.example:443 HTTP/1.1\r\nProxy-Authorization: Basic AAAA\r\n\r\n": "407",
		"POST " + egress.SetupOver + " HTTP/1.1\r\nHost: x\r\n\r\n":                    "407",
		"GET /" + strings.Repeat("x", 2*maxHead) + " HTTP/1.1\r\n\r\n":                 "431",
	} {
		c, err := net.Dial("tcp", d.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, request)
		line, _ := bufio.NewReader(c).ReadString('\n')
		if c.Close(); !strings.HasPrefix(line, "HTTP/1.1 "+want) && line != "" { // reset, with an unread rest
			t.Errorf("%.40q: %s, want %s", request, line, want)
		}
	}
	if got := d.Refused(); len(got) > 0 {
		t.Errorf("refused %v", got)
	}
	for _, request := range []string{
		"CONNECT evil.example", "CONNECT [::1", "CONNECT a..b:443", "GET https://a/", "GET /",
	} {
		if _, _, line := d.raw(request); !strings.Contains(line, " 400 ") {
			t.Errorf("%s: %s", request, line)
		}
	}
}

// TestTLS checks that what goes to port 443 is TLS for the name that was asked for.
func TestTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		t.Skip("needs port 443: ", err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "secret")
	}))
	server.Listener.Close()
	server.Listener = l
	server.StartTLS()
	defer server.Close()
	d := newDoor(t, Order{Hosts: []string{"localhost:443", "127.0.0.1:443"}})
	for _, address := range []string{"https://localhost/", "https://127.0.0.1/"} {
		if got := d.get(address); got != "200 OK secret" {
			t.Errorf("%s: %s", address, got)
		}
	}
	d.client.Transport.(*http.Transport).TLSClientConfig.ServerName = "evil.example"
	for _, address := range []string{"https://localhost/", "https://127.0.0.1/"} {
		if got := d.get(address); !strings.Contains(got, "EOF") && !strings.Contains(got, "reset") {
			t.Errorf("%s as evil.example: %s", address, got)
		}
	}
	c, in, line := d.raw("CONNECT LOCALHOST.:443")
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatal(line, err)
	}
	if rest, _ := io.ReadAll(in); strings.TrimSpace(string(rest)) != "" {
		t.Errorf("plain text is answered: %q", rest)
	}
	want := agents.Refusals{{Host: "evil.example:443", Times: 2}, {Host: "localhost:443 without TLS", Times: 1}}
	if got := d.refusedHosts(2); !slices.Equal(got, want) {
		t.Errorf("refused %+v, want %+v", got, want)
	}
}

// The hosts of the setup end with it, and every client of the session can end it.
func TestSetupOver(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	u, _ := url.Parse(server.URL)
	d := newDoor(t, Order{Setup: []string{u.Host}})
	if got := d.get(server.URL); !strings.HasPrefix(got, "404") {
		t.Errorf("during the setup: %s", got)
	}
	if _, _, line := d.raw("POST " + egress.SetupOver); !strings.Contains(line, " 204 ") {
		t.Error(line)
	}
	if got := d.get(server.URL); !strings.HasPrefix(got, "403") {
		t.Errorf("afterwards: %s", got)
	}
	if _, in, line := d.raw("GET " + egress.Refused); !strings.Contains(line, " 200 ") {
		t.Error(line)
	} else if rest, _ := io.ReadAll(in); !strings.Contains(string(rest), `[{"host":"`+u.Host+`"`) {
		t.Errorf("what was refused: %s", rest)
	}
}

// The operator's proxy gets what the rules allow, with its password, but for its exceptions.
func TestUpstream(t *testing.T) {
	asked := make(chan string, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				continue
			}
			asked <- r.Method + " " + r.Host + " " + r.Header.Get("Proxy-Authorization")
			status := "200 OK\r\n\r\nearly"
			if strings.HasPrefix(r.Host, "no.") {
				status = "403 No\r\n\r\n"
			}
			_, _ = io.WriteString(c, "HTTP/1.1 "+status)
			_ = c.Close()
		}
	}()
	d := newDoor(t, Order{
		Hosts:   []string{"*.example.org:8443", "no.example.net:25"},
		Environ: []string{"HTTPS_PROXY=http://me:pw@" + l.Addr().String(), "no_proxy=.lan, 10.0.0.0/8"},
	})
	_, in, line := d.raw("CONNECT a.example.org:8443")
	rest, _ := io.ReadAll(in)
	if got := <-asked; !strings.Contains(line, " 200 ") || got != "CONNECT a.example.org:8443 Basic bWU6cHc=" ||
		!strings.HasSuffix(string(rest), "early") {
		t.Errorf("%s, the proxy was asked %q, and the rest is %q", line, got, rest)
	}
	if _, _, line := d.raw("CONNECT no.example.net:25"); !strings.Contains(line, " 502 ") {
		t.Error(line)
	}
	if _, _, line := d.raw("CONNECT evil.example:443"); !strings.Contains(line, " 403 ") || len(asked) > 1 {
		t.Errorf("%s, %d requests", line, len(asked))
	}
	for host, want := range map[string]bool{
		"a.example.org": true, "git.lan": false, "10.1.2.3": false, "11.1.2.3": true, "localhost": false, "127.0.0.1": false,
	} {
		if got := d.upstream.serves(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	socks := newDoor(t, Order{Hosts: []string{"a.org:99"}, Environ: []string{"ALL_PROXY=socks5://x:1"}})
	if got := socks.get("http://a.org:99/"); !strings.Contains(got, "only kind") {
		t.Error(got)
	}
}

func TestLocalAddresses(t *testing.T) {
	own := ownAddresses()
	if len(own) == 0 {
		t.Error("no addresses of this machine")
	}
	for address, want := range map[string]bool{
		"127.9.9.9": true, "::1": true, "169.254.169.254": true, "fe80::1": true, "0.0.0.0": true, "::": true,
		"224.0.0.1": true,
		"10.0.0.1":  slices.Contains(own, netip.MustParseAddr("10.0.0.1")), "1.1.1.1": false, "fd00:ec2::254": false,
	} {
		if got := isLocal(netip.MustParseAddr(address), own); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
