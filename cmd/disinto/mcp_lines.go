package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// longestMessage bounds a line of an MCP client, in bytes.
const longestMessage = 20 << 20

var errLongMessage = fmt.Errorf("its message is longer than %d MiB", longestMessage>>20)

// clientLines are the messages of an MCP client, one in each line. The SDK ends the session at the first line that is
// none, such as one that a shell's profile prints: here that gets the answer that JSON-RPC has for it.
type clientLines struct {
	in   *bufio.Reader
	out  io.Writer
	rest []byte // of the line that is being read
}

// Read returns the lines that are messages.
func (l *clientLines) Read(p []byte) (n int, err error) {
	for len(l.rest) == 0 && err == nil {
		var line []byte
		if line, err = l.line(); len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if fault := faultOf(line); fault != nil {
			err = errors.Join(err, l.refuse(fault))
			continue
		}
		l.rest = line
	}
	if len(l.rest) == 0 {
		return 0, err
	}
	n = copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line reads a line.
func (l *clientLines) line() (line []byte, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longestMessage:
			return nil, errLongMessage
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// faultOf says what is wrong with a line; nil for a message, or for a batch, which some versions of the protocol have.
func faultOf(line []byte) *jsonrpc.Error {
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "Parse error: the line is no JSON"}
	}
	messages := []json.RawMessage{line}
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
		_ = json.Unmarshal(line, &messages)
	}
	known := len(messages) > 0
	for _, m := range messages {
		_, err := jsonrpc.DecodeMessage(m)
		known = known && err == nil
	}
	if !known {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Invalid Request: the line is no JSON-RPC message"}
	}
	return nil
}

func (l *clientLines) refuse(fault *jsonrpc.Error) error {
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": fault})
	if err == nil {
		_, err = l.out.Write(append(answer, '\n'))
	}
	return err
}

// wholeWrites is an output of several writers, each of whose writes stands in one piece. It is kept open.
type wholeWrites struct {
	mu sync.Mutex // guards to
	to io.Writer
}

func (w *wholeWrites) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// Close leaves the output open, which the transport would close.
func (w *wholeWrites) Close() error { return nil }
