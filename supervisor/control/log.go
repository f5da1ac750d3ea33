package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// logRest is the time between two looks at a log that is followed.
const logRest = 200 * time.Millisecond

// Log is the output of one session.
type Log struct {
	RunID, Agent, Path string
}

// Copy writes the log with the secrets in it hidden. As long as live reports true it goes on with what is added; nil
// copies what is there. When ctx is done it stops early, without an error.
func (l *Log) Copy(ctx context.Context, w io.Writer, secrets []string, live func() bool) error {
	f, err := plainfile.Open(l.Path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	defer f.Close()
	redactor := agents.NewRedactor(secrets)
	for {
		// Asked before reading: what was printed before the session ended is then in the file.
		more := live != nil && live()
		err := l.skipCut(f, w, redactor)
		if err == nil {
			err = copyRedacted(ctx, w, f, redactor)
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
		if !more {
			_, err := io.WriteString(w, redactor.End())
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logRest):
		}
	}
}

// skipCut goes on at the end of a log that lost its middle meanwhile, because it reached its limit.
func (l *Log) skipCut(f *os.File, w io.Writer, redactor *agents.Redactor) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() >= at {
		return err
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	const note = "\ndisinto: the log has reached max_log and was cut; the rest is in "
	_, err = io.WriteString(w, redactor.End()+note+l.Path+"\n")
	return err
}

// copyRedacted copies what there is to read, until ctx is done.
func copyRedacted(ctx context.Context, w io.Writer, f io.Reader, redactor *agents.Redactor) error {
	buf := make([]byte, 32<<10)
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		if _, err := io.WriteString(w, redactor.Next(string(buf[:n]))); err != nil {
			return err
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		if n == 0 {
			break
		}
	}
	return nil
}

// Logs is the route of the logs: ?of=AGENT or REF, with &follow=1 until the session ends. find returns the log and the
// secrets to hide in it; isRunning reports whether a session is not over.
func Logs(path string, find func(of string) (Log, []string, error), isRunning func(runID string) bool) Route {
	return Route{"GET " + path, func(w http.ResponseWriter, r *http.Request) {
		log, secrets, err := find(r.URL.Query().Get("of"))
		if err != nil {
			answer(w, nil, err)
			return
		}
		var live func() bool
		if r.URL.Query().Get("follow") != "" {
			live = func() bool { return isRunning(log.RunID) }
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusOK)
		// The status is sent: an error now can only end the answer.
		_ = log.Copy(r.Context(), &flushing{w, http.NewResponseController(w)}, secrets, live)
	}}
}

// flushing sends each piece at once. A client that reads nothing for so long is stuck.
type flushing struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

// Write sends p, and fails when the client does not take it in time.
func (f *flushing) Write(p []byte) (int, error) {
	_ = f.out.SetWriteDeadline(time.Now().Add(2 * eventPulse))
	n, err := f.w.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
