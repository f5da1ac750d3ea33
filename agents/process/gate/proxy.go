package gate

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
)

// Order says what a session may reach.
type Order struct {
	Hosts []string // words of package egress
	Setup []string // more of them, until the session's setup is over
	// Password of the proxy, which keeps out other sessions; empty for a random one.
	Password string `json:",omitempty"`
	// Ports are those of the session's own network that lead to this machine's 127.0.0.1.
	Ports []int `json:",omitempty"`
	// Environ is the session's environment without the gate's variables. It names the operator's own proxy.
	Environ []string `json:"-"`
}

// Proxy is the proxy of one session.
type Proxy struct {
	listener net.Listener
	password string
	rules    egress.Rules
	upstream *upstream
	log      func(line string)
	room     chan struct{} // filled by the connections that are served
	plain    *httputil.ReverseProxy

	mu      sync.Mutex // guards the fields below
	setup   egress.Rules
	refused agents.Refusals
}

const (
	// most bounds the connections at a time, so that the shim keeps descriptors for the session's sockets.
	most = 256
	// headTime is how long a program may take for the head of a request, and for the start of TLS.
	headTime = time.Minute
	// maxHead bounds a request's head, in bytes.
	maxHead = 64 << 10
	// proxyUser is the proxy's user. Its password keeps out other sessions of the machine, which have their own rules.
	proxyUser = "session"
)

// Listen starts a proxy on the loopback of this thread's network, which connects from the network of the process. log
// gets a line for each host that is refused, the first time.
func Listen(o *Order, log func(line string)) (*Proxy, error) {
	p := &Proxy{password: cmp.Or(o.Password, rand.Text()), log: log, room: make(chan struct{}, most)}
	var err error
	if p.rules, err = egress.Parse(o.Hosts); err != nil {
		return nil, err
	}
	if p.setup, err = egress.Parse(o.Setup); err != nil {
		return nil, err
	}
	p.upstream = upstreamOf(o.Environ)
	for _, port := range o.Ports { // first, because the kernel could choose one of them for the proxy
		if err = p.lead(port); err != nil {
			return nil, err
		}
	}
	if p.listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("cannot start the session's proxy: %w", err)
	}
	p.plain = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.User = nil },
		Transport:     &http.Transport{DialContext: p.dialAddress, DisableKeepAlives: true, DisableCompression: true},
		FlushInterval: -1, // models answer in pieces
		ErrorHandler:  p.fail,
		ErrorLog:      silent,
	}
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: headTime, MaxHeaderBytes: maxHead, ErrorLog: silent, ConnState: p.count,
	}
	server.SetKeepAlivesEnabled(false)
	go func() { _ = server.Serve(p.listener) }()
	return p, nil
}

// silent is the log of the standard library: a session could fill its own log through it.
var silent = log.New(io.Discard, "", 0)

// count waits for room for a new connection, and gives it back. That of a tunnel is given back by tunnel.
func (p *Proxy) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		p.room <- struct{}{}
	case http.StateClosed:
		<-p.room
	}
}

// Port is the proxy's TCP port.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Environ returns the variables by which programs find the proxy. All other addresses of this machine go through it,
// too: a session has no sockets of IPv6.
func (p *Proxy) Environ() (vars []string) {
	u := url.URL{Scheme: "http", User: url.UserPassword(proxyUser, p.password), Host: p.listener.Addr().String()}
	for _, name := range agents.ProxyVars {
		vars = append(vars, name+"="+u.String())
	}
	const direct = "localhost,127.0.0.1"
	return append(vars, "NO_PROXY="+direct, "no_proxy="+direct, "NODE_USE_ENV_PROXY=1")
}

// Refused returns what was refused so far. A nil proxy refuses nothing.
func (p *Proxy) Refused() agents.Refusals {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused.Sorted()
}

// ServeHTTP serves one request of a program: CONNECT, or a request of plain HTTP, whose target is a whole URL.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given, _ := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")
	want := base64.StdEncoding.EncodeToString([]byte(proxyUser + ":" + p.password))
	switch {
	case subtle.ConstantTimeCompare([]byte(given), []byte(want)) != 1:
		w.Header().Set("Proxy-Authenticate", `Basic realm="disinto"`)
		http.Error(w, "the session's proxy wants the user and password of $HTTPS_PROXY",
			http.StatusProxyAuthRequired)
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.Method == http.MethodPost && r.RequestURI == egress.SetupOver:
		p.mu.Lock()
		p.setup = nil
		p.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && r.RequestURI == egress.Refused:
		_ = json.NewEncoder(w).Encode(p.Refused())
	case r.URL.Scheme != "http" || r.URL.Host == "":
		http.Error(w, "disinto's proxy serves CONNECT, and requests for http://", http.StatusBadRequest)
	default:
		p.forward(w, r)
	}
}

// allows reports whether a session may reach a port of a host now; named is as in egress.Rule.
func (p *Proxy) allows(host string, port int) (named, ok bool) {
	p.mu.Lock()
	setup := p.setup
	p.mu.Unlock()
	return slices.Concat(p.rules, setup).Allows(host, port)
}

// connect connects to a host, if the rules allow it.
func (p *Proxy) connect(ctx context.Context, host string, port int) (net.Conn, error) {
	named, ok := p.allows(host, port)
	if !ok {
		return nil, &refusedError{host: host, port: port}
	}
	return p.dial(ctx, host, port, named)
}

// dialAddress is connect for the transport of plain HTTP.
func (p *Proxy) dialAddress(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, ok := hostPort(address, 0)
	if !ok {
		return nil, fmt.Errorf("%q is not host:port", address)
	}
	return p.connect(ctx, host, port)
}

// refusedError says that a session may not reach a host. at is the host's address on this machine, if that is why.
type refusedError struct {
	host string
	port int
	at   string
}

func (e *refusedError) Error() string {
	words := "disinto does not allow this session to reach " + egress.Word(e.host, e.port)
	if e.at != "" {
		words += ", which is " + e.at + ", an address of this machine"
	}
	return words
}

// rule is the word that would allow the host.
func (e *refusedError) rule() string {
	if e.at == "" && e.port == 443 {
		return e.host
	}
	return egress.Word(e.host, e.port)
}

// fail answers a request that led to no server.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	if e, is := errors.AsType[*refusedError](err); is {
		p.note(agents.Refusal{Host: egress.Word(e.host, e.port), Rule: e.rule()}, e.Error())
		http.Error(w, fmt.Sprintf("%v; the operator can allow it: egress = [%q]", e, e.rule()), http.StatusForbidden)
		return
	}
	http.Error(w, fmt.Sprintf("disinto cannot reach %s: %v", r.URL.Host, err), http.StatusBadGateway)
}

// note counts a refusal, and logs its first.
func (p *Proxy) note(r agents.Refusal, words string) {
	p.mu.Lock()
	first := p.refused.Add(r)
	p.mu.Unlock()
	if first {
		p.log("egress: " + words)
	}
}

// tunnel serves CONNECT. What begins at port 443 has to be TLS with the name that was asked for: otherwise an allowed
// name would lead to any server on the same address.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	host, port, ok := hostPort(r.RequestURI, 0)
	if !ok {
		http.Error(w, "CONNECT wants host:port", http.StatusBadRequest)
		return
	}
	out, err := p.connect(r.Context(), host, port)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	defer out.Close()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { conn.Close(); <-p.room }()
	c := &client{p, conn, buffered.Reader}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	if port != 443 || c.greets(host, out) {
		c.relay(out)
	}
}

// client is the program's end of a tunnel.
type client struct {
	*Proxy
	conn net.Conn
	in   *bufio.Reader
}

// greets passes on the start of a TLS connection, and reports whether it names the host. An address need not be named.
func (c *client) greets(host string, out net.Conn) bool {
	_ = c.conn.SetReadDeadline(time.Now().Add(headTime))
	var data []byte
	name, err := "", egress.ErrShort
	for errors.Is(err, egress.ErrShort) {
		buf := make([]byte, 4<<10)
		n, readErr := c.in.Read(buf)
		if n == 0 && readErr != nil {
			return false
		}
		data = append(data, buf[:n]...)
		name, err = egress.ServerName(data)
	}
	word := egress.Word(host, 443)
	switch {
	case err != nil:
		c.note(agents.Refusal{Host: word + " without TLS"}, "what a session sends to "+word+" is not TLS")
		return false
	case name == "" && net.ParseIP(host) != nil || name == host:
		_, err := out.Write(data)
		return err == nil
	}
	c.note(agents.Refusal{Host: egress.Word(cmp.Or(name, "no-name"), 443)}, fmt.Sprintf(
		"a session asks for %s, and then begins TLS with the server %q", word, name))
	return false
}

// relay passes bytes on in both directions, until both have ended.
func (c *client) relay(out net.Conn) {
	_ = c.conn.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass(out, c.in, c.conn)
	}()
	pass(c.conn, out, out)
	<-done
}

// pass copies, and ends the other side's input with it. An error ends both connections.
func pass(to net.Conn, from io.Reader, source net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil && half.CloseWrite() == nil {
		return
	}
	_, _ = to.Close(), source.Close()
}

// forward serves a request of plain HTTP. The next one of a program may be for another host, so no connection is kept.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	host, port, ok := hostPort(r.URL.Host, 80)
	if !ok {
		http.Error(w, "the request names no host", http.StatusBadRequest)
		return
	}
	r.URL.Host = egress.Word(host, port)
	p.plain.ServeHTTP(w, r)
}

// hostPort splits an authority; port 0 means that there has to be one.
func hostPort(authority string, port int) (host string, _ int, ok bool) {
	host = authority
	if at := strings.LastIndexByte(authority, ':'); at > strings.LastIndexByte(authority, ']') {
		n, err := strconv.ParseUint(authority[at+1:], 10, 16)
		if err != nil || n == 0 {
			return "", 0, false
		}
		host, port = authority[:at], int(n)
	}
	host, ok = egress.Canonical(host)
	return host, port, ok && port != 0
}
