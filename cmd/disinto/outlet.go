//go:build linux

package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// outletLines is how many lines are queued for a slow reader: minutes of a busy factory.
	outletLines = 1024
	// outletPatience is how long flush waits for the last of them.
	outletPatience = time.Second
)

// outlet is a writer that never blocks. When a container's log driver hangs, the pipe behind stderr fills up, and a
// factory that logs would hang too: lines that do not fit are dropped and counted instead. It may be used by any
// goroutine.
type outlet struct {
	w     io.Writer
	queue chan entry
	lost  atomic.Int64
}

// entry is a line to write or, with a channel, a request to close that when all lines before it are written.
type entry struct {
	line    []byte
	written chan struct{}
}

func newOutlet(w io.Writer) *outlet {
	o := &outlet{w: w, queue: make(chan entry, outletLines)}
	go func() {
		for !safely(hclog.NewNullLogger(), o.drain) { // a panic here cannot be logged; it costs the line that it was about
			o.lost.Add(1)
		}
	}()
	return o
}

// Write queues a line or drops it, and never fails: a log without a reader is no reason to stop.
func (o *outlet) Write(line []byte) (int, error) {
	select {
	case o.queue <- entry{line: append([]byte(nil), line...)}: // the caller uses its buffer again
	default:
		o.lost.Add(1)
	}
	return len(line), nil
}

func (o *outlet) drain() {
	for e := range o.queue {
		if e.written != nil {
			close(e.written)
			continue
		}
		_, _ = o.w.Write(e.line)
		if n := o.lost.Swap(0); n > 0 {
			now := time.Now().Format(time.RFC3339)
			_, _ = fmt.Fprintf(o.w, "%s [WARN]  %d lines of the log are lost: nobody read it\n", now, n)
		}
	}
}

// flush waits until everything is written, outletPatience at most.
func (o *outlet) flush() {
	late := time.After(outletPatience)
	e := entry{written: make(chan struct{})}
	select {
	case o.queue <- e:
	case <-late:
		return
	}
	select {
	case <-e.written:
	case <-late:
	}
}
