package control

import (
	"bytes"
	"io"
	"os"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents/logtime"
)

// A line with its time begins with these 20 characters and a space: the time in UTC, or unknownTime.
const (
	lineTime    = "2006-01-02T15:04:05Z"
	unknownTime = "-                   "
)

// timer puts the times of lines before them. The text between its lines' breaks has gone through the redactor, so a
// time never tears a secret of several lines apart.
type timer struct {
	log    string
	stamps logtime.Times
	size   int64 // of the file with stamps when it was read
	within bool  // the last line is unfinished
}

// refresh reads the stamps, if there are new ones.
func (t *timer) refresh() {
	info, err := os.Lstat(t.log + logtime.Suffix)
	if err != nil || info.Size() == t.size {
		return
	}
	t.stamps, t.size = logtime.Read(t.log), info.Size()
}

// mark returns a text with a time before each of its lines. Its first line began at offset from, the others at then.
func (t *timer) mark(text string, from, then int64) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !t.within {
			b.WriteString(t.at(from) + " ")
		}
		b.WriteString(line)
		t.within = !strings.HasSuffix(line, "\n")
		from = then
	}
	return b.String()
}

func (t *timer) at(offset int64) string {
	if at := t.stamps.At(offset); !at.IsZero() {
		return at.UTC().Format(lineTime)
	}
	return unknownTime
}

// hide redacts what was read of the log before the file's present offset, and puts the times before its lines if the
// log has a timer.
func (c *copier) hide(piece []byte) (string, error) {
	if c.timer == nil {
		return c.redactor.Next(string(piece)), nil
	}
	at, err := c.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", err
	}
	at -= int64(len(piece))
	c.timer.refresh() // after the read: a stamp is written before its line
	var b strings.Builder
	for line := range bytes.Lines(piece) {
		from := at - int64(c.redactor.Held())
		b.WriteString(c.timer.mark(c.redactor.Next(string(line)), from, at))
		at += int64(len(line))
		c.held = at - int64(c.redactor.Held())
	}
	return b.String(), nil
}

// rest returns what the redactor still holds.
func (c *copier) rest() string {
	text := c.redactor.End()
	if c.timer != nil {
		text = c.timer.mark(text, c.held, c.held)
		c.timer.within = false
	}
	return text
}

// Clock is a writer for the lines of a log with their times. It writes each with the time that a clock of the place
// showed, and the date if that is another day than now. Lines of which the time is unknown have none.
type Clock struct {
	W    io.Writer
	Now  func() time.Time // in the time zone of the place
	head []byte           // the beginning of a line, until its time is complete
	in   bool             // within a line, behind its time
}

// Write turns the times in p.
func (c *Clock) Write(p []byte) (int, error) {
	var out []byte
	for _, b := range p {
		switch {
		case c.in || b == '\n':
			out, c.head = append(append(out, c.head...), b), c.head[:0]
			c.in = b != '\n'
			continue
		}
		if c.head = append(c.head, b); len(c.head) == len(lineTime)+1 {
			out, c.head, c.in = append(out, c.clock(string(c.head))...), c.head[:0], true
		}
	}
	if _, err := c.W.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the beginning of an unfinished line.
func (c *Clock) Close() error {
	_, err := c.W.Write(c.head)
	c.head = nil
	return err
}

func (c *Clock) clock(head string) string {
	if head == unknownTime+" " {
		return ""
	}
	at, err := time.Parse(lineTime+" ", head)
	if err != nil {
		return head
	}
	now := c.Now()
	if at = at.In(now.Location()); at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04:05 ")
	}
	return at.Format("Jan 02 15:04:05 ")
}
