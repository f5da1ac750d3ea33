package pid1

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
)

// The init of a factory and its supervisor exchange messages over a SOCK_SEQPACKET pair. A message is words, the last
// of which may contain blanks, and at most one descriptor.
//
// The supervisor sends:
//
//	alive                            at least every 10 s
//	ready GRACE                      nanoseconds: the sessions' time to end; repeated when it changes
//	keep PID START NAME   + fd       PID is 0 for what is no shim
//	drop NAME
//	become                + fd       the program to start when the supervisor exits
//
// The init sends, in this order at the supervisor's start:
//
//	begin STARTED UPGRADES CRASHES WHY   the init's start in Unix nanoseconds, and what it counted since; how the last
//	                                     supervisor died
//	kept PID START STATUS NAME   + fd    STATUS is a wait status, or - while the shim lives
//	end
//
// and later:
//
//	signal NUMBER
//	ended PID START STATUS           a kept shim
//	orphans NUMBER                   reaped so far; after each alive

// Message is one message between the init of a factory and its supervisor.
type Message struct {
	Words []string
	FD    int // -1 without a descriptor; the receiver closes it
}

// maxMessage bounds the text of a message, in bytes: a name is a run id or a path.
const maxMessage = 16 << 10

// NewMessage returns a message without a descriptor.
func NewMessage(words ...string) Message { return Message{words, -1} }

// Number returns the word at an index as a number; 0 if there is none.
func (m Message) Number(i int) int64 {
	if i >= len(m.Words) {
		return 0
	}
	n, _ := strconv.ParseInt(m.Words[i], 10, 64)
	return n
}

// Rest returns the text from the word at an index on.
func (m Message) Rest(i int) string { return strings.Join(m.Words[min(i, len(m.Words)):], " ") }

// Close closes the descriptor.
func (m Message) Close() {
	if m.FD >= 0 {
		_ = syscall.Close(m.FD)
	}
}

// Send sends a message. With wait unset it returns EAGAIN when the receiver is behind.
func Send(socket int, m Message, wait bool) error {
	flags := syscall.MSG_NOSIGNAL
	if !wait {
		flags |= syscall.MSG_DONTWAIT
	}
	var rights []byte
	if m.FD >= 0 {
		rights = syscall.UnixRights(m.FD)
	}
	for {
		err := syscall.Sendmsg(socket, []byte(strings.Join(m.Words, " ")), rights, nil, flags)
		if err != syscall.EINTR {
			return err
		}
	}
}

// errClosed says that the other end of the socket is closed.
var errClosed = errors.New("the other end is closed")

// Receive waits for a message.
func Receive(socket int) (m Message, err error) {
	text, rights := make([]byte, maxMessage), make([]byte, syscall.CmsgSpace(4))
	var n, more int
	for {
		n, more, _, _, err = syscall.Recvmsg(socket, text, rights, syscall.MSG_CMSG_CLOEXEC)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return m, err
	}
	if n == 0 && more == 0 {
		return m, errClosed
	}
	m = Message{strings.Split(string(text[:n]), " "), -1}
	if parts, err := syscall.ParseSocketControlMessage(rights[:more]); err == nil {
		for i := range parts {
			if fds, err := syscall.ParseUnixRights(&parts[i]); err == nil && len(fds) == 1 {
				m.FD = fds[0]
			}
		}
	}
	return m, nil
}
