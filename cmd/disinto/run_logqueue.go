//go:build linux

package main

import (
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

const (
	// logQueueLength is the length of the queue for a slow reader. A busy factory fills it in minutes.
	logQueueLength = 1024
	// flushTime is the timeout of flush.
	flushTime = time.Second
)

// logQueue is a writer that never blocks, for concurrent use. When a container's log driver hangs, the pipe behind
// stderr fills up, and writing to it would block the factory. logQueue drops and counts the lines that do not fit
// into its queue.
type logQueue struct {
	w     io.Writer
	form  pid1.LineForm
	queue chan entry
	lost  atomic.Int64
}

// entry is a line to write or, with a channel, a request to close the channel when all earlier lines are written.
type entry struct {
	line    []byte
	written chan struct{}
}

func newLogQueue(w io.Writer, form pid1.LineForm) *logQueue {
	o := &logQueue{w: w, form: form, queue: make(chan entry, logQueueLength)}
	go func() {
		for !safely(hclog.NewNullLogger(), o.drain) { // a panic here cannot be logged, and loses the current line
			o.lost.Add(1)
		}
	}()
	return o
}

// Write queues a line or drops it. It never fails, because the factory must work without a reader of its log, too.
func (o *logQueue) Write(line []byte) (int, error) {
	select {
	case o.queue <- entry{line: append([]byte(nil), line...)}: // the caller reuses its buffer
	default:
		o.lost.Add(1)
	}
	return len(line), nil
}

// LevelWrite queues a line of the log with its priority.
func (o *logQueue) LevelWrite(level hclog.Level, line []byte) (int, error) {
	_, _ = o.Write([]byte(o.form.Mark(priorityOf(level), string(line))))
	return len(line), nil
}

func priorityOf(level hclog.Level) pid1.Priority {
	switch level {
	case hclog.Error:
		return pid1.Error
	case hclog.Warn:
		return pid1.Warning
	case hclog.Info:
		return pid1.Info
	}
	return pid1.Debug
}

func (o *logQueue) drain() {
	for e := range o.queue {
		if e.written != nil {
			close(e.written)
			continue
		}
		_, _ = o.w.Write(e.line)
		if n := o.lost.Swap(0); n > 0 {
			words := strconv.FormatInt(n, 10) + " log lines were lost: the reader of the log was too slow"
			_, _ = io.WriteString(o.w, o.form.Line(time.Now(), pid1.Warning, words))
		}
	}
}

// flush waits until all queued lines are written, for at most flushTime.
func (o *logQueue) flush() {
	late := time.After(flushTime)
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
