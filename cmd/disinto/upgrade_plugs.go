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

// plugs are the listeners of a supervisor. They outlive its image: a client that connects during an upgrade waits in
// the kernel for the next image instead of being refused. The zero value has none; its methods may be called by any
// goroutine.
type plugs struct {
	mu   sync.Mutex              // guards what follows
	open map[string]net.Listener // by where they listen
	left map[string]int          // descriptors of the last image that no listener has taken over yet
}

func (p *plugs) inherit(left map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = left
}

func (p *plugs) unix(path string) (net.Listener, error) { return p.listen(path, control.ListenUnix) }

func (p *plugs) tcp(address string) (net.Listener, error) {
	return p.listen(address, func(address string) (net.Listener, error) { return net.Listen("tcp", address) })
}

func (p *plugs) listen(at string, anew func(string) (net.Listener, error)) (l net.Listener, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fd, ok := p.left[at]; ok {
		delete(p.left, at)
		l, err = again(fd, at)
	} else {
		l, err = anew(at)
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

// again makes a listener of the descriptor that the last image left.
func again(fd int, at string) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), at)
	defer f.Close() // the listener has a descriptor of its own
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("cannot go on listening: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(true)
	}
	return l, nil
}

// descriptors are those of the open listeners, by where they listen.
func (p *plugs) descriptors() map[string]int {
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
