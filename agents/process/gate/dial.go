package gate

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
)

// dialTime bounds the connection to one host, with all of its addresses.
const dialTime = 30 * time.Second

// dial connects to a host, through the operator's proxy if there is one for it. A name is resolved once, and the
// address that was checked is the one that is dialled: a name whose address changes meanwhile leads nowhere else.
func (p *Proxy) dial(ctx context.Context, host string, port int, named bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if p.upstream.serves(host) {
		return p.upstream.dial(ctx, egress.Word(host, port))
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	if !named {
		own = ownAddresses()
	}
	for _, a := range list {
		a = a.Unmap()
		if !named && isLocal(a, own) {
			err = cmp.Or(err, error(&refusedError{host, port, a.String()}))
			continue
		}
		conn, dialErr := new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(a, uint16(port)).String())
		if dialErr == nil {
			return conn, nil
		}
		err = dialErr
	}
	return nil, cmp.Or(err, errors.New("it has no address"))
}

// isLocal reports whether an address is this machine's, or has a meaning on its link only, such as the services of a
// cloud at 169.254.169.254.
func isLocal(a netip.Addr, own []netip.Addr) bool {
	if a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() || !a.IsValid() {
		return true
	}
	for _, o := range own {
		if a.WithZone("") == o {
			return true
		}
	}
	return false
}

// ownAddresses returns the addresses of this machine; none where they cannot be read.
func ownAddresses() (list []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix.Addr().Unmap().WithZone(""))
		}
	}
	return list
}

// Local reports whether the server of an address is this machine, as far as the address says.
func Local(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && isLocal(a.Unmap(), ownAddresses())
}

// upstream is the operator's own proxy. The session's goes through it, and its rules come first: the names that they
// allow are resolved there.
type upstream struct {
	address string // host:port; empty if wrong says why it is of no use
	wrong   string
	login   http.Header // of a proxy with a password
	direct  []string    // hosts that are not reached through it
}

// upstreamOf finds the proxy in an environment; nil if there is none.
func upstreamOf(environ []string) *upstream {
	address := ""
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"} {
		address = cmp.Or(address, agents.Getenv(environ, name))
	}
	if address == "" {
		return nil
	}
	up := new(upstream)
	for name := range strings.SplitSeq(agents.Getenv(environ, "NO_PROXY")+","+agents.Getenv(environ, "no_proxy"), ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			up.direct = append(up.direct, name)
		}
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		up.wrong = "the operator's proxy is not an http:// proxy, the only kind that egress can go through"
		return up
	}
	up.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80"))
	if u.User != nil {
		password, _ := u.User.Password()
		login := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		up.login = http.Header{"Proxy-Authorization": {"Basic " + login}}
	}
	return up
}

// serves reports whether a host is reached through the proxy: not this machine, and nothing of NO_PROXY.
func (up *upstream) serves(host string) bool {
	if up == nil || host == "localhost" {
		return false
	}
	a, err := netip.ParseAddr(host)
	if err == nil && a.IsLoopback() {
		return false
	}
	for _, name := range up.direct {
		prefix, notPrefix := netip.ParsePrefix(name)
		bare := strings.TrimPrefix(strings.TrimPrefix(name, "*"), ".")
		if name == "*" || host == bare || strings.HasSuffix(host, "."+bare) || notPrefix == nil && err == nil &&
			prefix.Contains(a) {
			return false
		}
	}
	return true
}

// dial makes a tunnel through the proxy, also for plain HTTP.
func (up *upstream) dial(ctx context.Context, to string) (net.Conn, error) {
	if up.wrong != "" {
		return nil, errors.New(up.wrong)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", up.address)
	if err != nil {
		return nil, fmt.Errorf("the operator's proxy: %w", err)
	}
	until, _ := ctx.Deadline()
	_ = conn.SetDeadline(until)
	limit := &io.LimitedReader{R: conn, N: maxHead}
	in := bufio.NewReader(limit)
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to}, Host: to, Header: up.login}
	err = ask.Write(conn)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(in, ask)
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New("it answers " + answer.Status)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the operator's proxy: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	limit.N = math.MaxInt64
	return &tunnel{conn, in}, nil
}

// tunnel is a connection through the operator's proxy. in has what a server says first.
type tunnel struct {
	net.Conn
	in *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.in.Read(p) }

// CloseWrite ends what is sent.
func (t *tunnel) CloseWrite() error { return t.Conn.(*net.TCPConn).CloseWrite() }
