package process

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// link is the supervisor's end of the socket to a session's shim.
type link struct {
	socket *os.File
	gen    uint32
	// states delivers what the shim sends. It is closed at the end of the socket: the shim has ended.
	states chan shimState
	closed chan struct{}
	once   sync.Once
}

// newLink listens on a socket.
func newLink(fd int) *link {
	_ = unix.SetNonblock(fd, true) // otherwise each session would keep a thread blocked in read
	l := &link{
		socket: os.NewFile(uintptr(fd), "session shim"), gen: ownGeneration(),
		states: make(chan shimState), closed: make(chan struct{}),
	}
	go func() {
		defer close(l.states)
		_ = safely("the link to a shim", l.listen)
	}()
	return l
}

func (l *link) listen() error {
	for buf := make([]byte, maxText); ; {
		var s shimState
		switch err := receiveMessage(l.socket, buf, &s); {
		case err == io.EOF:
			return nil
		case err != nil:
			continue
		}
		select {
		case l.states <- s:
		case <-l.closed:
			return nil
		}
	}
}

// send sends an order. It ignores the error for a shim that is gone, because the end of the socket reports the same.
func (l *link) send(o order) {
	o.Gen = l.gen
	if o.End != nil {
		o.End.Reason = o.End.Reason[:min(len(o.End.Reason), maxReason)]
	}
	_ = sendMessage(l.socket, o)
}

// close may be repeated.
func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.socket.Close()
	})
}

// Descriptor returns the number of a file or a connection; -1 when it is closed. Unlike Fd it leaves the file in
// non-blocking mode, in which no thread waits for it.
func Descriptor(f syscall.Conn) (number int) {
	number = -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number
}
