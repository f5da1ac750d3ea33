package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// logRest is the time between two reads of a followed log.
const logRest = 200 * time.Millisecond

// longLine is how far the beginning of a line is searched for, in bytes.
const longLine = 64 << 10

// Log is the output of one session, or of a service.
type Log struct {
	RunID, Agent, Path string
	Work               string    // in words, such as "issue o/r#12"
	Began              time.Time // when the session was reserved
	Lines              int       // number of last lines that Copy copies; 0 copies all
	From               int64     // offset at which Copy begins, without Lines
	Times              bool      // Copy puts its time before each line, see Clock
	// Copied is called after each piece with the file and the offset behind the last whole line of it that Copy has
	// written. It may be nil.
	Copied func(file *os.File, offset int64)
}

// Copy writes the log with its secrets hidden. It follows the log while live returns true, also when its file is made
// anew; with a nil live it copies only the present content. It calls secrets before each piece. When ctx is done it
// stops early, without an error.
func (l *Log) Copy(ctx context.Context, w io.Writer, secrets func() []string, live func() bool) error {
	c := copier{log: l, w: w, secrets: secrets, redactor: agents.NewRedactor(nil)}
	if l.Times {
		c.timer = &timer{log: l.Path}
	}
	for {
		// Call live before reading: once it returns false, the file has all of the session's output.
		more := live != nil && live()
		if err := c.copy(ctx, more); err != nil || ctx.Err() != nil {
			c.close()
			return err
		}
		if !more {
			c.close()
			_, err := io.WriteString(w, c.rest())
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(logRest):
		}
	}
}

// copier copies a log.
type copier struct {
	log      *Log
	w        io.Writer
	secrets  func() []string
	redactor *agents.Redactor
	file     *os.File // nil until the log exists
	timer    *timer   // nil without times
	held     int64    // offset of what the redactor holds, with a timer
}

func (c *copier) close() {
	if c.file != nil {
		c.file.Close()
	}
}

// copy copies all available text, until ctx is done. A log that is followed need not exist yet.
func (c *copier) copy(ctx context.Context, follows bool) error {
	if c.file == nil {
		f, err := plainfile.Open(c.log.Path, os.O_RDONLY)
		if follows && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			c.file, err = f, c.log.skipTo(f)
		}
		if err != nil {
			return fmt.Errorf("cannot read the log: %w", err)
		}
	}
	err := c.skipCut()
	if err == nil {
		err = c.copyRedacted(ctx)
	}
	if err == nil && c.log.Copied != nil {
		c.tellCopied()
	}
	if err != nil || !c.replaced() {
		return err
	}
	// Somebody deleted or moved the file, and the program's shim made it anew.
	c.file.Close()
	c.file, c.log.Lines, c.log.From = nil, 0, 0
	return c.copy(ctx, follows)
}

// tellCopied calls Copied. A line longer than longLine counts as whole.
func (c *copier) tellCopied() {
	at, err := c.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	at -= int64(c.redactor.Held())
	buf := make([]byte, min(max(at, 0), longLine))
	n, _ := c.file.ReadAt(buf, at-int64(len(buf)))
	switch i := bytes.LastIndexByte(buf[:n], '\n'); {
	case i >= 0:
		at -= int64(n - i - 1)
	case n < longLine:
		at -= int64(n)
	}
	c.log.Copied(c.file, at)
}

// replaced reports whether the log's name leads to another file by now.
func (c *copier) replaced() bool {
	ours, err := c.file.Stat()
	named, errNamed := os.Lstat(c.log.Path)
	return err == nil && errNamed == nil && named.Mode().IsRegular() && !os.SameFile(ours, named)
}

// skipCut moves to the end of a log that was cut since the last read, because it had reached its limit.
func (c *copier) skipCut() error {
	at, err := c.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	info, err := c.file.Stat()
	if err != nil || info.Size() >= at {
		return err
	}
	if _, err := c.file.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	const note = "\ndisinto: the log has reached max_log and was cut; the rest is in "
	_, err = io.WriteString(c.w, c.rest()+note+c.log.Path+"\n")
	return err
}

// skipTo seeks to the start of the last Lines lines.
func (l *Log) skipTo(f *os.File) error {
	if l.Lines <= 0 {
		_, err := f.Seek(l.From, io.SeekStart)
		return err
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
func (c *copier) copyRedacted(ctx context.Context) error {
	buf := make([]byte, 32<<10)
	for ctx.Err() == nil {
		n, err := c.file.Read(buf)
		if n > 0 {
			c.redactor.Hide(c.secrets())
		}
		text, hideErr := c.hide(buf[:n])
		if hideErr != nil {
			return fmt.Errorf("cannot read the log: %w", hideErr)
		}
		if _, err := io.WriteString(c.w, text); err != nil {
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
