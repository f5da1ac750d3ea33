//go:build linux

package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/control"
)

// listenerSet opens a supervisor's listeners, and stores them with the init for the next supervisor: the kernel queues
// a client's connection meanwhile instead of refusing it. It is safe for concurrent use.
type listenerSet struct {
	store process.Store // nil without an init

	mu   sync.Mutex     // guards left
	left map[string]int // descriptors of an earlier supervisor that no listener uses yet, by name
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
	return &storedListen{l, p.store, name}, nil
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
	store process.Store
	name  string
}

// Close closes both.
func (l *storedListen) Close() error {
	l.store.Drop(l.name)
	return l.Listener.Close()
}
