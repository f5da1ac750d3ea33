package supervisor

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"codeberg.org/johba/disinto/threads"
)

const (
	// portRest is the time between two attempts to listen on an address that cannot be had.
	portRest = 10 * time.Second
	// requestTime bounds how long one may take to say a request: what comes over TCP may come from anybody.
	requestTime = 10 * time.Second
	// idleTime is how long a connection may stay open without a request.
	idleTime = time.Minute
	// maxHeader bounds the head of a request, in bytes.
	maxHeader = 16 << 10
)

// ports are the TCP listeners that the configuration asks for. It belongs to one goroutine.
type ports struct {
	s    *Supervisor
	open map[string]*port // by key of [factory]
}

// port is one listener.
type port struct {
	address string
	server  *http.Server
	failed  chan struct{} // closed when it serves no more
}

// keepPorts listens where the configuration says, and goes on doing so after it changed. What cannot be had is a problem
// that status shows, not the end: it is tried again. It returns how to end that.
func (s *Supervisor) keepPorts() (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p := &ports{s, make(map[string]*port)}
		defer p.close()
		for {
			var again <-chan time.Time
			if !p.adjust() {
				again = time.After(portRest)
			}
			select {
			case <-stop:
				return
			case <-s.replug:
			case <-again:
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// lookAtPorts has the listeners adjusted to the configuration.
func (s *Supervisor) lookAtPorts() {
	select {
	case s.replug <- struct{}{}:
	default:
	}
}

// adjust opens and closes what is to be opened and closed. It reports whether all is as it should be.
func (p *ports) adjust() bool {
	p.s.mu.Lock()
	var f threads.Factory
	if p.s.config != nil {
		f = p.s.config.Factory
	}
	p.s.mu.Unlock()
	api := func() *http.Server {
		return &http.Server{Handler: p.s.guarded(p.s.Handler()), ReadHeaderTimeout: requestTime}
	}
	hooks := func() *http.Server {
		return &http.Server{Handler: p.s.HookHandler(), ReadTimeout: requestTime, WriteTimeout: requestTime}
	}
	one := p.set("listen", f.Listen, api)
	return p.set("listen_hooks", f.ListenHooks, hooks) && one
}

// set makes one port what it is to be, and reports whether it is. Without an address there is none.
func (p *ports) set(key, address string, server func() *http.Server) bool {
	if old := p.open[key]; old != nil {
		select {
		case <-old.failed:
			delete(p.open, key)
		default:
			if old.address == address {
				return true
			}
			old.close()
			delete(p.open, key)
		}
	}
	if address == "" {
		p.s.portProblem(key, "")
		return true
	}
	listen := p.s.ListenTCP
	if listen == nil {
		listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	l, err := listen(address)
	if err != nil {
		p.s.portProblem(key, fmt.Sprintf("cannot listen on %s: %s: nothing answers there; see [factory] %s", address, text(err), key))
		return false
	}
	n := &port{address: address, server: server(), failed: make(chan struct{})}
	n.server.IdleTimeout, n.server.MaxHeaderBytes, n.server.ErrorLog = idleTime, maxHeader, p.s.log.StandardLogger(nil)
	go func() {
		defer close(n.failed)
		if err := n.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.s.portProblem(key, fmt.Sprintf("cannot go on listening on %s: %s", address, text(err)))
			p.s.lookAtPorts()
		}
	}()
	p.open[key] = n
	p.s.portProblem(key, "")
	p.s.log.Info(fmt.Sprintf("listening on %s: %s", l.Addr(), key))
	return true
}

func (n *port) close() {
	_ = n.server.Close()
	<-n.failed
}

func (p *ports) close() {
	for _, n := range p.open {
		n.close()
	}
}

// portProblem shows why an address cannot be listened on, and says it once; empty means that it can.
func (s *Supervisor) portProblem(key, why string) {
	s.mu.Lock()
	was := s.problems.ports[key]
	if s.problems.ports == nil {
		s.problems.ports = make(map[string]string)
	}
	setOrDelete(s.problems.ports, key, why)
	s.mu.Unlock()
	if why != was {
		s.tell(notice{bad: true, words: why})
		s.touchStatus()
	}
}

func setOrDelete(m map[string]string, key, value string) {
	delete(m, key)
	setUnlessZero(m, key, value)
}
