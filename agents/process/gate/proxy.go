package gate

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
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

// Listen starts a proxy on loopback. log gets a line for each host that is refused, the first time.
func Listen(o *Order, log func(line string)) (*Proxy, error) {
	p := &Proxy{password: rand.Text(), log: log, room: make(chan struct{}, most)}
	var err error
	if p.rules, err = egress.Parse(o.Hosts); err != nil {
		return nil, err
	}
	if p.setup, err = egress.Parse(o.Setup); err != nil {
		return nil, err
	}
	p.upstream = upstreamOf(o.Environ)
	if p.listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("cannot start the session's proxy: %w", err)
	}
	go p.serve()
	return p, nil
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

func (p *Proxy) serve() {
	for {
		p.room <- struct{}{}
		conn, err := p.listener.Accept()
		if err != nil { // no descriptor is free
			<-p.room
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer func() {
				_ = recover() // a panic here would end the shim, and the session with it
				_ = conn.Close()
				<-p.room
			}()
			c := &client{Proxy: p, conn: conn, limit: &io.LimitedReader{R: conn, N: maxHead}}
			c.in = bufio.NewReader(c.limit)
			c.serve()
		}()
	}
}

// client is one connection of a program to the proxy. It has one request.
type client struct {
	*Proxy
	conn  net.Conn
	limit *io.LimitedReader // below in
	in    *bufio.Reader
}

func (c *client) serve() {
	_ = c.conn.SetReadDeadline(time.Now().Add(headTime))
	r, err := readHead(c.in)
	if err != nil {
		c.answer("400 Bad Request", "", "disinto cannot read this request: "+err.Error())
		return
	}
	given, _ := strings.CutPrefix(r.field("Proxy-Authorization"), "Basic ")
	want := base64.StdEncoding.EncodeToString([]byte(proxyUser + ":" + c.password))
	if subtle.ConstantTimeCompare([]byte(given), []byte(want)) != 1 {
		c.answer("407 Proxy Authentication Required", "Proxy-Authenticate: Basic realm=\"disinto\"\r\n",
			"the session's proxy wants the user and password of $HTTPS_PROXY")
		return
	}
	c.limit.N = 1 << 62
	switch {
	case r.method == "CONNECT":
		c.tunnel(r)
	case r.method == "POST" && r.target == egress.SetupOver:
		c.mu.Lock()
		c.setup = nil
		c.mu.Unlock()
		c.answer("204 No Content", "", "")
	default:
		c.forward(r)
	}
}

// answer is the proxy's own.
func (c *client) answer(status, fields, words string) {
	if words != "" {
		words += "\n"
		fields += "Content-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(words)) + "\r\n"
	}
	_, _ = io.WriteString(c.conn, "HTTP/1.1 "+status+"\r\n"+fields+"Connection: close\r\n\r\n"+words)
}

// connect returns a connection to a host that the rules allow; nil after an answer that says why there is none.
func (c *client) connect(host string, port int) net.Conn {
	c.mu.Lock()
	setup := c.setup
	c.mu.Unlock()
	named, ok := append(c.rules[:len(c.rules):len(c.rules)], setup...).Allows(host, port)
	if !ok {
		c.refuse(host, port, "")
		return nil
	}
	conn, err := c.dial(host, port, named)
	switch refused, is := errors.AsType[*localError](err); {
	case is:
		c.refuse(host, port, refused.address)
	case err != nil:
		c.answer("502 Bad Gateway", "", fmt.Sprintf("disinto cannot reach %s: %v", egress.Word(host, port), err))
	}
	return conn
}

// refuse answers that a host is not allowed. at is its address on this machine, if that is why.
func (c *client) refuse(host string, port int, at string) {
	r := agents.Refusal{Host: egress.Word(host, port), Rule: egress.Word(host, port)}
	words := "disinto does not allow this session to reach " + r.Host
	switch {
	case at != "":
		words += ", which is " + at + ", an address of this machine"
	case port == 443:
		r.Rule = host
	}
	c.note(r, words)
	c.answer("403 Forbidden", "", words+fmt.Sprintf("; the operator can allow it: egress = [%q]", r.Rule))
}

// note counts a refusal, and logs its first.
func (c *client) note(r agents.Refusal, words string) {
	c.mu.Lock()
	first := c.refused.Add(r)
	c.mu.Unlock()
	if first {
		c.log("egress: " + words)
	}
}

// tunnel serves CONNECT. What begins at port 443 has to be TLS with the name that was asked for: otherwise an allowed
// name would lead to any server on the same address.
func (c *client) tunnel(r *head) {
	host, port, ok := hostPort(r.target, 0)
	if !ok {
		c.answer("400 Bad Request", "", "disinto cannot read this request: CONNECT wants host:port")
		return
	}
	out := c.connect(host, port)
	if out == nil {
		return
	}
	defer out.Close()
	if _, err := io.WriteString(c.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	if port == 443 && !c.greets(host, out) {
		return
	}
	c.relay(out)
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
		"a session asks for %s, and then %s for the server %q", word, "TLS", name))
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

// forward serves a request of plain HTTP, whose target is a whole URL. It is the only one of its connection.
func (c *client) forward(r *head) {
	u, err := url.Parse(r.target)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		c.answer("400 Bad Request", "", "disinto's proxy knows CONNECT, and requests for http://")
		return
	}
	host, port, ok := hostPort(u.Host, 80)
	if !ok {
		c.answer("400 Bad Request", "", "disinto cannot read this request: it names no host")
		return
	}
	out := c.connect(host, port)
	if out == nil {
		return
	}
	defer out.Close()
	u.User = nil
	if _, err := io.WriteString(out, r.directed(u)); err == nil {
		c.relay(out)
	}
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
