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

// logRest is the time between two reads of a followed log.
const logRest = 200 * time.Millisecond

// Log is the output of one session.
type Log struct {
	RunID, Agent, Path string
	Work               string    // in words, such as "issue o/r#12"
	Began              time.Time // when the session was reserved
	Lines              int       // number of last lines that Copy copies; 0 copies all
}

// Copy writes the log with its secrets hidden. It follows the log while live returns true; with a nil live it copies
// only the present content. When ctx is done it stops early, without an error.
func (l *Log) Copy(ctx context.Context, w io.Writer, secrets []string, live func() bool) error {
	f, err := plainfile.Open(l.Path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	defer f.Close()
	if err := l.skipTo(f); err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	redactor := agents.NewRedactor(secrets)
	for {
		// Call live before reading: once it returns false, the file has all of the session's output.
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

// skipCut moves to the end of a log that was cut since the last read, because it had reached its limit.
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

// skipTo seeks to the start of the last Lines lines.
func (l *Log) skipTo(f *os.File) error {
	if l.Lines <= 0 {
		return nil
	}
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buf, left := make([]byte, 32<<10), l.Lines+1 // the last line usually ends in a line break
	for at > 0 && left > 0 {
		n := min(at, int64(len(buf)))
		at -= n
		if _, err := f.ReadAt(buf[:n], at); err != nil {
			return err
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] != '\n' {
				continue
			}
			if left--; left == 0 {
				at += i + 1
				break
			}
		}
	}
	_, err = f.Seek(at, io.SeekStart)
	return err
}

// copyRedacted copies all available text, until ctx is done.
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

// flushing sends each piece at once. A write fails if the client reads nothing for 30 s.
type flushing struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

// Write sends p.
func (f *flushing) Write(p []byte) (int, error) {
	_ = f.out.SetWriteDeadline(time.Now().Add(2 * eventPulse))
	n, err := f.w.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
