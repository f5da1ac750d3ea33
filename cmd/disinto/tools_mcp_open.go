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
	mu    sync.Mutex                // guards the fields below
	ids   map[jsonrpc.ID]*callBatch // nil for a request that came alone
	empty chan struct{}             // closed when the last one is answered; nil while nobody waits
}

// callBatch is a batch of requests, which gets its answers as one array. The SDK gets its messages one by one: it ends
// the session at a batch since protocol 2025-06-18, and never answers a batch with a notification in an older one.
type callBatch struct {
	open    int // requests without an answer
	answers []json.RawMessage
}

// read records a line of the client: it opens the requests in the line, and closes those that the line cancels. It
// returns the messages of the line, one per line, or an error if an id is in use.
func (o *openRequests) read(line []byte) ([]byte, *jsonrpc.Error) {
	raw, isBatch := rawMessages(line)
	messages := messagesOf(line)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.distinct(messages) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Invalid Request: its id is in use"}
	}
	var batch *callBatch
	if isBatch {
		batch, line = new(callBatch), nil
		for _, r := range raw {
			line = append(append(line, r...), '\n')
		}
	}
	for _, m := range messages {
		r, isRequest := m.(*jsonrpc.Request)
		switch {
		case !isRequest:
		case r.ID.IsValid():
			if o.ids == nil {
				o.ids = make(map[jsonrpc.ID]*callBatch)
			}
			o.ids[r.ID] = batch
			if batch != nil {
				batch.open++
			}
		case r.Method == "notifications/cancelled":
			var cancelled struct{ RequestID any }
			if json.Unmarshal(r.Params, &cancelled) == nil {
				// The SDK answers a cancelled request too, and the other answers of a batch wait for that.
				if id, err := jsonrpc.MakeID(cancelled.RequestID); err == nil && o.ids[id] == nil {
					o.close(id)
				}
			}
		}
	}
	return line, nil
}

// distinct reports whether the ids of a line's requests differ from each other and from those of the open requests;
// o.mu is held.
func (o *openRequests) distinct(messages []jsonrpc.Message) bool {
	used := make(map[jsonrpc.ID]bool)
	for _, m := range messages {
		r, isRequest := m.(*jsonrpc.Request)
		if !isRequest || !r.ID.IsValid() {
			continue
		}
		if _, open := o.ids[r.ID]; open || used[r.ID] {
			return false
		}
		used[r.ID] = true
	}
	return true
}

// batch takes a line before it is written. If it answers a request of a batch, held is true: instead of the line, the
// answers of the whole batch are written after the last one came.
func (o *openRequests) batch(line []byte) (answers []byte, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range messagesOf(line) {
		r, isAnswer := m.(*jsonrpc.Response)
		if !isAnswer || o.ids[r.ID] == nil {
			continue
		}
		b := o.ids[r.ID]
		b.open--
		b.answers = append(b.answers, bytes.Clone(line))
		if b.open > 0 {
			return nil, true
		}
		answers, _ = json.Marshal(b.answers) // cannot fail: the SDK encoded each
		return append(answers, '\n'), true
	}
	return nil, false
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

// rawMessages returns the messages of a line, which is one message or a batch.
func rawMessages(line []byte) (raw []json.RawMessage, isBatch bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
		return []json.RawMessage{line}, false
	}
	_ = json.Unmarshal(line, &raw) // faultOf refuses what is not JSON
	return raw, true
}

// messagesOf returns the JSON-RPC messages of a line.
func messagesOf(line []byte) (list []jsonrpc.Message) {
	raw, _ := rawMessages(line)
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
