package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"
)

// link is the supervisor's end of the socket to a session's shim.
type link struct {
	socket *os.File
	in     *json.Decoder
	idle   chan struct{} // closed when no goroutine reads the socket
	// Valid once idle is closed.
	ended  bool       // the shim has sent its last report or has closed the socket
	report *endReport // nil if the shim was killed before it could report
}

func newLink(fd int) *link {
	socket := os.NewFile(uintptr(fd), "session shim")
	return &link{socket: socket, in: json.NewDecoder(socket)}
}

// start orders the shim to start the program, and returns its answer.
func (l *link) start(o startOrder) (report startReport, err error) {
	if err = json.NewEncoder(l.socket).Encode(o); err == nil {
		err = l.in.Decode(&report)
	}
	return report, err
}

// end orders the shim to end all processes of the session. It ignores the error for a shim that is gone, because the
// shim's exit reports the same.
func (l *link) end(grace time.Duration) { _ = json.NewEncoder(l.socket).Encode(endOrder{Grace: grace}) }

// listen reads the shim's last report in the background, until pause.
func (l *link) listen() {
	l.idle = make(chan struct{})
	go func() {
		defer close(l.idle)
		var r endReport
		err := safely("the link to a shim", func() error { return l.in.Decode(&r) })
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if l.ended = true; err == nil {
			l.report = &r
		}
	}()
}

// last waits for the shim's last report; nil if the shim was killed before it could write one.
func (l *link) last() *endReport {
	<-l.idle
	return l.report
}

// pause stops listening, and returns the part of a report that has been read.
func (l *link) pause() (heard []byte) {
	_ = l.socket.SetReadDeadline(time.Now())
	<-l.idle
	if !l.ended {
		heard, _ = io.ReadAll(l.in.Buffered())
	}
	return heard
}

// resume listens again after pause, unless the shim has ended.
func (l *link) resume(heard []byte) {
	_ = l.socket.SetReadDeadline(time.Time{})
	if !l.ended {
		l.in = json.NewDecoder(io.MultiReader(bytes.NewReader(heard), l.socket))
		l.listen()
	}
}

func (l *link) close() { _ = l.socket.Close() }
