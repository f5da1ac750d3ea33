package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lastAnswers limits how long the server answers requests after its client closed stdin: the SDK drops the answers of
// requests that are carried out when the input ends. A cancel waits for a session to end.
const lastAnswers = time.Minute

// openRequests are the requests of an MCP client that have no answer yet. Its methods may be called from several
// goroutines.
type openRequests struct {
	mu    sync.Mutex // guards the fields below
	ids   map[jsonrpc.ID]bool
	empty chan struct{} // closed when the last one is answered; nil while nobody waits
}

// read records a line of the client: it opens the requests in the line, and closes those that the line cancels.
func (o *openRequests) read(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range messagesOf(line) {
		r, isRequest := m.(*jsonrpc.Request)
		switch {
		case !isRequest:
		case r.ID.IsValid():
			if o.ids == nil {
				o.ids = make(map[jsonrpc.ID]bool)
			}
			o.ids[r.ID] = true
		case r.Method == "notifications/cancelled":
			var cancelled struct{ RequestID any }
			if json.Unmarshal(r.Params, &cancelled) == nil {
				if id, err := jsonrpc.MakeID(cancelled.RequestID); err == nil {
					o.close(id)
				}
			}
		}
	}
}

// wrote records a line that was written to the client: it closes the requests that the line answers.
func (o *openRequests) wrote(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range messagesOf(line) {
		if r, isAnswer := m.(*jsonrpc.Response); isAnswer {
			o.close(r.ID)
		}
	}
}

// close removes a request; o.mu is held.
func (o *openRequests) close(id jsonrpc.ID) {
	delete(o.ids, id)
	if len(o.ids) == 0 && o.empty != nil {
		close(o.empty)
		o.empty = nil
	}
}

// wait returns when every request is answered, after lastAnswers, or when ctx is done.
func (o *openRequests) wait(ctx context.Context) {
	o.mu.Lock()
	var empty chan struct{}
	if len(o.ids) > 0 {
		empty = make(chan struct{})
		o.empty = empty
	}
	o.mu.Unlock()
	if empty == nil {
		return
	}
	select {
	case <-empty:
	case <-time.After(lastAnswers):
	case <-ctx.Done():
	}
}

// messagesOf returns the JSON-RPC messages of a line, which is one or a batch.
func messagesOf(line []byte) (list []jsonrpc.Message) {
	raw := []json.RawMessage{line}
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) && json.Unmarshal(line, &raw) != nil {
		return nil
	}
	for _, r := range raw {
		if m, err := jsonrpc.DecodeMessage(r); err == nil {
			list = append(list, m)
		}
	}
	return list
}

// lastRequests reads from the lines of a client, and reports their end once every request has its answer.
type lastRequests struct {
	ctx   context.Context
	lines *clientLines
}

func (l *lastRequests) Read(p []byte) (int, error) {
	n, err := l.lines.Read(p)
	if errors.Is(err, io.EOF) {
		l.lines.open.wait(l.ctx)
	}
	return n, err
}
