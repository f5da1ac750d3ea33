//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/control"
)

// listenerSet holds the listeners of a supervisor, which stay open across an upgrade: the kernel queues a client's
// connection for the next image instead of refusing it. The zero value has no listeners. It is safe for concurrent use.
type listenerSet struct {
	mu   sync.Mutex              // guards the fields below
	open map[string]net.Listener // by address
	left map[string]int          // descriptors of the last image that no listener uses yet, by address
}

func (p *listenerSet) inherit(left map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = left
}

func (p *listenerSet) unix(path string) (net.Listener, error) {
	return p.listen(path, control.ListenUnix)
}

func (p *listenerSet) tcp(address string) (net.Listener, error) {
	return p.listen(address, func(address string) (net.Listener, error) { return net.Listen("tcp", address) })
}

func (p *listenerSet) listen(at string, create func(string) (net.Listener, error)) (l net.Listener, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fd, ok := p.left[at]; ok {
		delete(p.left, at)
		l, err = reopen(fd, at)
	} else {
		l, err = create(at)
	}
	if err != nil {
		return nil, err
	}
	if p.open == nil {
		p.open = make(map[string]net.Listener)
	}
	p.open[at] = l
	return l, nil
}

// reopen makes a listener from a descriptor of the last image.
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

// descriptors returns the descriptors of the open listeners, by address.
func (p *listenerSet) descriptors() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	fds := make(map[string]int)
	for at, l := range p.open {
		c, ok := l.(syscall.Conn)
		if !ok {
			continue
		}
		if fd := process.Descriptor(c); fd >= 0 {
			fds[at] = fd
		}
	}
	return fds
}
