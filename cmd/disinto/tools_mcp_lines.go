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

// longestMessage limits a line from an MCP client, in bytes.
const longestMessage = 20 << 20

var errLongMessage = fmt.Errorf("its message is longer than %d MiB", longestMessage>>20)

// clientLines reads the messages of an MCP client, one per line. It answers any other line, such as output of a shell's
// profile, with a JSON-RPC error: the SDK would end the session there.
type clientLines struct {
	in   *bufio.Reader
	out  io.Writer
	open *openRequests
	rest []byte // the unread rest of the current line
}

// Read reads from the lines that are messages.
func (l *clientLines) Read(p []byte) (n int, err error) {
	for len(l.rest) == 0 && err == nil {
		var line []byte
		if line, err = l.line(); len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		fault := faultOf(line)
		if fault == nil {
			line, fault = l.open.read(line)
		}
		if fault != nil {
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

// line returns the next line.
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

// faultOf returns the JSON-RPC error for a line; nil for a message or a batch of messages.
func faultOf(line []byte) *jsonrpc.Error {
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "Parse error: not JSON"}
	}
	messages, _ := rawMessages(line)
	known := len(messages) > 0
	for _, m := range messages {
		_, err := jsonrpc.DecodeMessage(m)
		known = known && err == nil
	}
	if !known {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Invalid Request: not a JSON-RPC message"}
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

// wholeWrites serialises the writes of several writers to one output. Close does not close the output.
type wholeWrites struct {
	open *openRequests
	mu   sync.Mutex // guards to
	to   io.Writer
}

func (w *wholeWrites) Write(p []byte) (int, error) {
	batch, held := w.open.batch(p)
	if held && batch == nil {
		return len(p), nil
	}
	line := p
	if held {
		line = batch
	}
	defer w.open.wrote(line)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, err := w.to.Write(line); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// Close does nothing: the transport must not close the output.
func (w *wholeWrites) Close() error { return nil }
