//go:build linux

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/threads"
)

const (
	// maxSocketPath is the longest path that fits into a socket's address.
	maxSocketPath = 107
	// portRest is the time between two attempts to listen on a TCP address.
	portRest = 10 * time.Second
	// idleTime is how long a TCP connection may stay open without a request.
	idleTime = time.Minute
	// maxHeader bounds the head of a request, in bytes.
	maxHeader = 16 << 10
)

// ListenUnix listens on a socket that only our own user can use. The caller holds the lock of the state directory, so
// an existing socket belongs to a dead supervisor and is removed.
func ListenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s is %d bytes long, and a socket's path can have %d: use a shorter --state",
			path, len(path), maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Umask, not chmod afterwards: a client that connects in between would stay connected.
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return net.Listen("unix", path)
}

// Serve answers requests on the control socket of root and of this account, except those of processes for which barred
// returns true; a nil barred bars none. asked can be nil. end closes every connection and waits until no more are
// accepted.
func Serve(
	l net.Listener, h http.Handler, barred func(pid int) bool, asked *Asked, log hclog.Logger,
) (end func()) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: requestTime}
	asked.watch(server)
	refusePeers(server, barred)
	return serve(l, server, log, func(_ *port, err error) { log.Error("the control socket failed: " + line(err)) }).close
}

// port is one listener with its server.
type port struct {
	address string
	server  *http.Server
	ended   chan struct{} // closed when it serves no more
}

// serve serves in its own goroutine, and calls failed there if serving ends before close.
func serve(l net.Listener, server *http.Server, log hclog.Logger, failed func(*port, error)) *port {
	server.ErrorLog = log.StandardLogger(nil)
	p := &port{server: server, ended: make(chan struct{})}
	go safely(log, "a listener", func() {
		defer close(p.ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed(p, err)
		}
	})
	return p
}

// safely recovers a panic in a goroutine's function. net/http recovers those of requests.
func safely(log hclog.Logger, what string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			log.Error(fmt.Sprintf("internal error: %s panicked: %v\n%s", what, v, debug.Stack()))
		}
	}()
	f()
}

func (p *port) close() {
	_ = p.server.Close()
	<-p.ended
}

// line returns an error in one line.
func line(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Ports are the TCP listeners of [factory] listen, listen_hooks, listen_metrics and listen_web. Set the exported fields
// before Serve.
type Ports struct {
	Config  func() *threads.Config // in force now; nil without a valid one
	API     http.Handler           // served on listen, behind Guard
	Hooks   http.Handler           // served on listen_hooks
	Metrics http.Handler           // served on listen_metrics at GET /metrics; nil: nothing
	Web     http.Handler           // served on listen_web; nil: nothing
	Listen  func(address string) (net.Listener, error)
	// Problem is called with a key of [factory] and why its address cannot be listened on; "" when it can.
	Problem func(key, why string)
	Log     hclog.Logger
	Asked   *Asked // can be nil

	open   map[string]*port // by key of [factory]; belongs to the goroutine of Serve
	broken chan *port       // listeners that failed
}

// Serve opens the configured listeners in its own goroutine, and adjusts them after each receive from changed. It
// retries an address that it cannot listen on every 10 seconds. end closes all listeners.
func (p *Ports) Serve(changed <-chan struct{}) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	p.open, p.broken = make(map[string]*port), make(chan *port, 4)
	go safely(p.Log, "listening", func() {
		defer close(done)
		defer p.close()
		for {
			var again <-chan time.Time
			if !p.adjust() {
				again = time.After(portRest)
			}
			select {
			case <-stop:
				return
			case <-changed:
			case n := <-p.broken:
				<-n.ended
			case <-again:
			}
		}
	})
	return func() {
		close(stop)
		<-done
	}
}

func (p *Ports) close() {
	for _, n := range p.open {
		n.close()
	}
}

// adjust opens and closes listeners according to the configuration. It reports whether all of them are open.
func (p *Ports) adjust() bool {
	f, all := factory(p.Config), true
	metrics := checkHost(p.Config, func(f *threads.Factory) string { return f.ListenMetrics }, metricsOnly(p.Metrics))
	for _, d := range []struct {
		key, address string
		handler      http.Handler
		brief        bool // every answer is quick, so reading and writing have a limit
	}{
		{"listen", f.Listen, Guard(p.Config, p.API), false},
		{"listen_hooks", f.ListenHooks, p.Hooks, true},
		{"listen_metrics", f.ListenMetrics, metrics, true},
		{"listen_web", f.ListenWeb, p.room(), false},
	} {
		server := &http.Server{Handler: d.handler, ReadHeaderTimeout: requestTime}
		p.Asked.watch(server)
		if d.brief {
			server.ReadTimeout, server.WriteTimeout = requestTime, requestTime
		}
		all = p.set(d.key, d.address, server) && all
	}
	return all
}

// room returns the control room, which answers under our names.
func (p *Ports) room() http.Handler {
	web := p.Web
	if web == nil {
		web = http.NotFoundHandler()
	}
	return checkHost(p.Config, func(f *threads.Factory) string { return f.ListenWeb }, web)
}

// set puts one key's listener on an address, and reports whether that succeeded. An empty address means no listener.
func (p *Ports) set(key, address string, server *http.Server) bool {
	if old := p.open[key]; old != nil {
		select {
		case <-old.ended:
		default:
			if old.address == address {
				return true
			}
			old.close()
		}
		delete(p.open, key)
	}
	if address == "" {
		p.Problem(key, "")
		return true
	}
	l, err := p.Listen(address)
	if err != nil {
		p.Problem(key, fmt.Sprintf("cannot listen on %s: %s: nothing answers there; see [factory] %s",
			address, line(err), key))
		return false
	}
	server.IdleTimeout, server.MaxHeaderBytes = idleTime, maxHeader
	p.open[key] = serve(l, server, p.Log, func(n *port, err error) {
		p.Problem(key, fmt.Sprintf("cannot keep listening on %s: %s", address, line(err)))
		select {
		case p.broken <- n:
		default:
		}
	})
	p.open[key].address = address
	p.Problem(key, "")
	p.Log.Info(fmt.Sprintf("listening on %s: %s", l.Addr(), key))
	return true
}
