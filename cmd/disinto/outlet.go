package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// outletLines is how many lines wait for a reader that does not keep up: minutes of a busy factory.
	outletLines = 1024
	// outletPatience is how long the end of the program waits for the last of them.
	outletPatience = time.Second
)

// outlet is a writer that never makes its user wait. The pipe behind a container's stderr fills up when the log driver
// hangs, and a factory that logs would stop with it: what does not fit is lost instead, and counted.
type outlet struct {
	w     io.Writer
	queue chan entry
	lost  atomic.Int64
}

// entry is a line to be written or, with a channel, a request to be told when all before it are.
type entry struct {
	line    []byte
	written chan struct{}
}

func newOutlet(w io.Writer) *outlet {
	o := &outlet{w: w, queue: make(chan entry, outletLines)}
	go o.drain()
	return o
}

// Write takes a line, or loses it. It never fails: a log that nobody reads is no reason to stop.
func (o *outlet) Write(line []byte) (int, error) {
	select {
	case o.queue <- entry{line: append([]byte(nil), line...)}: // whoever calls uses its buffer again
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
			_, _ = fmt.Fprintf(o.w, "%s [WARN]  %d lines of the log are lost: nobody read it\n", time.Now().Format(time.RFC3339), n)
		}
	}
}

// flush waits, but not for long, until everything is written.
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
