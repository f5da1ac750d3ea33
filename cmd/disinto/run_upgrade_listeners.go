//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/control"
)

// listenerSet opens a supervisor's listeners, and stores them with the init for the next supervisor: the kernel queues
// a client's connection meanwhile instead of refusing it. It is safe for concurrent use.
type listenerSet struct {
	store process.Store // nil without an init

	mu    sync.Mutex             // guards the fields below
	left  map[string]int         // descriptors of an earlier supervisor that no listener uses yet, by name
	open  map[*storedListen]bool // whether its server waits until still is closed
	still chan struct{}          // closed when connections are accepted again; nil while they are
}

// stillTime bounds how long keepStill waits. Without load a server needs microseconds for a connection.
const stillTime = 100 * time.Millisecond

// keepStill accepts no more connections until resume is called: the kernel queues them for the next supervisor. It
// waits until the servers know all that were accepted before.
func (p *listenerSet) keepStill() (resume func()) {
	p.mu.Lock()
	p.still = make(chan struct{})
	p.mu.Unlock()
	p.setDeadlines(time.Unix(1, 0))
	for late := time.Now().Add(stillTime); !p.isStill() && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	return func() {
		p.setDeadlines(time.Time{})
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.still)
		p.still = nil
		for l := range p.open {
			p.open[l] = false
		}
	}
}

// isStill reports whether every server waits for resume.
func (p *listenerSet) isStill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waits := range p.open {
		if !waits {
			return false
		}
	}
	return true
}

// setDeadlines sets until when the listeners accept connections; the zero time is never.
func (p *listenerSet) setDeadlines(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
			_ = d.SetDeadline(at)
		}
	}
}

// The first words of the names under which the init stores a supervisor's descriptors.
const (
	storedLock     = "lock "
	storedListener = "listener "
)

func (p *listenerSet) unix(path string) (net.Listener, error) {
	return p.listen(path, control.ListenUnix)
}

func (p *listenerSet) tcp(address string) (net.Listener, error) {
	return p.listen(address, func(address string) (net.Listener, error) { return net.Listen("tcp", address) })
}

func (p *listenerSet) listen(at string, create func(string) (net.Listener, error)) (l net.Listener, err error) {
	name := storedListener + at
	if fd, ok := p.take(name); ok {
		l, err = reopen(fd, at)
	} else {
		l, err = create(at)
	}
	if err != nil || p.store == nil {
		return l, err
	}
	if c, ok := l.(syscall.Conn); ok {
		if err = p.store.Keep(name, process.Descriptor(c), 0, 0); err != nil {
			return nil, err
		}
	}
	stored := &storedListen{l, p, name}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = make(map[*storedListen]bool)
	}
	p.open[stored] = false
	return stored, nil
}

// take returns the descriptor that an earlier supervisor stored under a name, once.
func (p *listenerSet) take(name string) (fd int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fd, ok = p.left[name]
	delete(p.left, name)
	return fd, ok
}

// dropUnused drops every stored listener on an address that is not among these.
func (p *listenerSet) dropUnused(addresses ...string) {
	for _, name := range slices.Sorted(maps.Keys(p.left)) {
		if !slices.Contains(addresses, strings.TrimPrefix(name, storedListener)) {
			fd, _ := p.take(name)
			_ = syscall.Close(fd)
			p.store.Drop(name)
		}
	}
}

// reopen makes a listener from a descriptor of an earlier supervisor.
func reopen(fd int, at string) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), at)
	defer f.Close() // the listener has its own copy
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("cannot take over the listener: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(true)
	}
	return l, nil
}

// storedListen is a listener of which the init has a copy.
type storedListen struct {
	net.Listener
	set  *listenerSet
	name string
}

// Accept waits for a connection, also while none is accepted.
func (l *storedListen) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
		l.set.mu.Lock()
		still := l.set.still
		l.set.open[l] = still != nil
		l.set.mu.Unlock()
		if still != nil {
			<-still
		}
	}
}

// Close closes both.
func (l *storedListen) Close() error {
	l.set.mu.Lock()
	delete(l.set.open, l)
	l.set.mu.Unlock()
	l.set.store.Drop(l.name)
	return l.Listener.Close()
}
