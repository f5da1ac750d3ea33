package decisions

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/delta"
	"codeberg.org/johba/disinto/threads/wire"
)

const (
	// markRest is how long nothing is written while nothing changes. After a kill the last line shows a time until which
	// the supervisor ran.
	markRest = 10 * time.Minute
	// failRest is the time between two tries to write.
	failRest = time.Minute
	// lockWait is how long a loop may wait for the lock under which it decides. It reads the clock before that, so a
	// decision may be older than the one before it. A clock that goes back further was set back.
	lockWait = 10 * time.Second
)

// zips has the compressors of ended segments, of 800 kB each.
var zips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// writer writes the newest segment. It belongs to one goroutine.
type writer struct {
	Options
	dir   string
	after ending // ending of the segment before the next one

	file   *os.File // nil between two segments
	zip    *gzip.Writer
	now    segment   // the one in file
	at     time.Time // time of the last line in file, which never goes back
	base   int64     // the size of the segment with its whole snapshot only
	before []segment
	last   threads.Snapshot // the newest decision in file
	sum    string           // of its plan

	failing bool
	failed  time.Time
}

// take writes a decision if it differs from the last.
func (w *writer) take(d *decision) {
	if d.written != nil {
		close(d.written)
		return
	}
	if now := d.Snapshot.Now; w.failing && now.Before(w.failed.Add(failRest)) && !now.Before(w.failed) {
		return
	}
	s := d.Whole()
	l := &line{At: s.Now, Sum: delta.Sum(&d.Plan), Starts: startsOf(&d.Plan), Lost: d.lost}
	err := w.write(s, l, d.Plan.Acts())
	if err != nil {
		w.end(failed, s.Now)
		w.failed = s.Now
	}
	if (err != nil) != w.failing && w.Trouble != nil {
		w.Trouble(err)
	}
	w.failing = err != nil
}

func startsOf(p *threads.Plan) (refs []forge.Ref) {
	for i := range p.Starts {
		refs = append(refs, p.Starts[i].Item.Ref)
	}
	return refs
}

// write appends a decision to the segment, or starts another segment with it.
func (w *writer) write(s *threads.Snapshot, l *line, acts bool) error {
	if w.file != nil && w.over(s) {
		w.end(full, s.Now)
	}
	if w.file == nil {
		return w.begin(s, l)
	}
	d := delta.Between(&w.last, s)
	marked := s.Now.Sub(w.last.Now) >= markRest
	if l.Sum == w.sum && l.Lost == nil && !acts && !marked && d.Quiet(&w.last) {
		return nil
	}
	l.Delta = d
	if w.at.After(l.At) {
		l.At = w.at
	}
	w.at = l.At
	err := w.append(l)
	w.last, w.sum = *s, l.Sum
	return errors.Join(err, w.prune(s.Now))
}

// over reports whether the segment is long enough, or the decision cannot follow its last one.
func (w *writer) over(s *threads.Snapshot) bool {
	return w.now.size >= max(segmentSize, 2*w.base) || s.Now.Sub(w.now.began) >= segmentTime ||
		s.Now.Before(w.at.Add(-lockWait)) || s.Config != w.last.Config
}

// begin starts a segment with a decision.
func (w *writer) begin(s *threads.Snapshot, l *line) (err error) {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return fmt.Errorf("cannot keep decisions: %w", err)
	}
	if w.before, err = list(w.dir); err != nil {
		return fmt.Errorf("cannot keep decisions: %w", err)
	}
	w.now = segment{number: 1, began: s.Now}
	if n := len(w.before); n > 0 {
		w.now.number = w.before[n-1].number + 1
	}
	w.file, err = os.OpenFile(w.now.path(w.dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		w.file = nil
		return fmt.Errorf("cannot keep decisions: %w", err)
	}
	w.zip = zips.Get().(*gzip.Writer)
	w.zip.Reset(w.file)
	if l.Base, err = wire.EncodeSnapshot(s); err == nil {
		err = w.append(&line{At: s.Now, Heading: &heading{Format: format, Program: w.Program, After: w.after}})
	}
	if err == nil {
		err = w.append(l)
	}
	w.base, w.at, w.last, w.sum = w.now.size, s.Now, *s, l.Sum
	return errors.Join(err, w.prune(s.Now))
}

// append writes a line and flushes it to readers.
func (w *writer) append(l *line) error {
	text, err := encode(l)
	if err == nil {
		_, err = w.zip.Write(text)
	}
	if err == nil {
		err = w.zip.Flush()
	}
	if err == nil {
		var info os.FileInfo
		if info, err = w.file.Stat(); err == nil {
			w.now.size = info.Size()
		}
	}
	if err != nil {
		return fmt.Errorf("cannot keep decisions: %w", err)
	}
	return nil
}

// end closes the segment.
func (w *writer) end(why ending, at time.Time) {
	w.after = why
	if w.file == nil {
		return
	}
	if why != failed {
		_ = w.append(&line{At: at, End: why}) // without this line the segment ends as after a kill
		_ = w.zip.Close()
	}
	w.file.Close()
	zips.Put(w.zip)
	w.file, w.zip, w.last = nil, nil, threads.Snapshot{}
}

// prune deletes segments that contain only old decisions, and the oldest ones while all together are too large.
func (w *writer) prune(now time.Time) error {
	size := w.now.size
	for i := range w.before {
		size += w.before[i].size
	}
	for len(w.before) > 0 {
		next := w.now.began
		if len(w.before) > 1 {
			next = w.before[1].began
		}
		if now.Sub(next) <= KeepTime && size <= keepSize {
			return nil
		}
		if err := os.Remove(w.before[0].path(w.dir)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("cannot delete old decisions: %w", err)
		}
		size -= w.before[0].size
		w.before = w.before[1:]
	}
	if size > keepSize {
		return fmt.Errorf("cannot keep decisions: one has %d bytes, and all may have %d", size, keepSize)
	}
	return nil
}
