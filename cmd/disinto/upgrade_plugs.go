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

// plugs are the listeners of a supervisor. They survive its image: whoever connects while that is replaced waits in the
// kernel for the next one, instead of being refused. The zero value has none.
type plugs struct {
	mu   sync.Mutex // guards what follows
	open map[string]net.Listener
	left map[string]int // of the last image, not taken yet
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

// again is a listener of the last image.
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

// descriptors are those of the listeners that are open.
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
