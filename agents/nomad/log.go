package nomad

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// defaultLog bounds a log without a limit. logSlack allows a limited log to exceed its limit by notes about the log
// itself.
const (
	defaultLog = 1 << 30
	logSlack   = 1 << 20
)

// Log writes what a run has printed, without the session's secrets. With follow it also writes what the run prints
// until it ends.
func (e *Executor) Log(ctx context.Context, runID string, follow bool, w io.Writer) error {
	s := e.find(runID)
	if s == nil {
		c, err := e.locate(ctx, jobID(runID))
		if err != nil {
			return err
		}
		list, err := c.allocations(ctx, jobID(runID))
		if err != nil {
			return err
		}
		a := mainAllocation(list)
		if a == nil {
			return fmt.Errorf("no log of %s is left in Nomad", runID)
		}
		l := &logReader{client: c, alloc: a.ID, out: w, most: defaultLog}
		return l.read(ctx, follow && a.live())
	}
	l := &logReader{client: e.api(), session: s, out: w, most: defaultLog}
	if m := s.maxLog(); m > 0 {
		l.most = m + logSlack
	}
	return l.follow(ctx, follow)
}

// find returns the session of a run, or nil if it is not running.
func (e *Executor) find(runID string) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[jobID(runID)]
}

// maxLog is the limit of the session's log; 0 means none, or not yet known.
func (s *session) maxLog() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logBound
}

// logReader reads a log from the node of an allocation.
type logReader struct {
	client  *client
	session *session // nil if the session is not running
	alloc   string
	out     io.Writer
	at      int64 // bytes read so far
	most    int64
}

// follow reads until the session has ended, and then the remainder. It reconnects when a connection breaks.
func (l *logReader) follow(ctx context.Context, follow bool) error {
	s := l.session
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		s.mu.Lock()
		l.alloc = s.alloc
		s.mu.Unlock()
		select {
		case <-s.quiet:
			return l.read(ctx, false)
		default:
		}
		if l.alloc != "" {
			if err := l.untilQuiet(ctx, follow); !follow {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.quiet:
		case <-time.After(startTick):
		}
	}
}

// untilQuiet reads the log so far and, with follow, continues until the session has ended.
func (l *logReader) untilQuiet(ctx context.Context, follow bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go l.session.exec.safely("the log of "+l.session.id, func() {
		select {
		case <-l.session.quiet:
			cancel()
		case <-done:
		}
	})
	return l.read(ctx, follow)
}

// errNoPath means that the node exists, but no server has a connection to it at the moment.
var errNoPath = errors.New("no server of Nomad has a connection to the node")

// Nomad's messages for a node without a connection, for an unknown allocation, and for a missing right.
const (
	noPath       = "No path to node"
	unknownAlloc = "Unknown allocation"
	noRight      = "Permission denied"
)

// isLate reports whether the server may have the file some seconds later: it has no connection to the node yet, or it
// was just started and does not know the allocation yet.
func isLate(err error) bool {
	no, ok := errors.AsType[*refusal](err)
	return errors.Is(err, errNoPath) || ok && isMissing(err) && strings.HasPrefix(no.words, unknownAlloc)
}

// sendToNode requests a file of an allocation from its node. For a missing allocation or connection, a server answers
// 404. The agent of a node answers 200 with the same message as the body, which must not pass for the file, and so does
// each of them for a missing right, and for an allocation that its node has deleted.
func (c *client) sendToNode(ctx context.Context, what, alloc string, query url.Values) (*http.Response, error) {
	resp, err := c.send(ctx, http.MethodGet, "/client/fs/"+what+"/"+escape(alloc), query, nil)
	if no, ok := errors.AsType[*refusal](err); ok && strings.HasSuffix(no.words, noPath) {
		return nil, errNoPath
	}
	const longestMessage = 128
	if err != nil || resp.ContentLength < 0 || resp.ContentLength > longestMessage {
		return resp, err
	}
	defer resp.Body.Close()
	text, err := readBounded(resp.Body, resp.ContentLength)
	if err != nil {
		return nil, err
	}
	switch words := string(text); words {
	case fmt.Sprintf("%s %q", unknownAlloc, alloc), fmt.Sprintf("state for allocation %s not found on client", alloc):
		return nil, &refusal{http.StatusNotFound, words}
	case noPath:
		return nil, errNoPath
	case noRight:
		return nil, &refusal{http.StatusForbidden, words}
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// read continues where the last read ended.
func (l *logReader) read(ctx context.Context, follow bool) error {
	query := url.Values{
		"task": {taskName}, "type": {"stdout"}, "plain": {"true"}, "origin": {"start"}, "offset": {fmt.Sprint(l.at)},
	}
	if follow {
		query.Set("follow", "true")
	}
	resp, err := l.client.sendToNode(ctx, "logs", l.alloc, query)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(l, io.LimitReader(resp.Body, l.most-l.at))
	return err
}

// Write passes a piece on, and records the time of the output.
func (l *logReader) Write(text []byte) (int, error) {
	if s := l.session; s != nil {
		s.mu.Lock()
		s.activity.LastOutput = time.Now()
		s.mu.Unlock()
	}
	n, err := l.out.Write(text)
	l.at += int64(n)
	return n, err
}
