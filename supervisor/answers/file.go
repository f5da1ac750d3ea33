package answers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// The files in a state directory.
const (
	newName = "answers.jsonl"
	oldName = "answers.old.jsonl"
)

const (
	// sizeLimit is the size in bytes at which a file becomes the old one: some 50,000 changes.
	sizeLimit = 8 << 20
	// markRest is the time after which a line is written while no answer changes. After a kill it shows until when the
	// supervisor ran. A file stays the new one at least as long: 100,000 items could fill it at once.
	markRest = 10 * time.Minute
	// failRest is the time between two tries to write.
	failRest = time.Minute
)

// file is the file of a state directory.
type file struct {
	dir     string
	trouble func(error)

	mu       sync.Mutex // guards the fields below, and keeps lines whole; nothing but writes waits for it
	out      *os.File   // nil: the next write opens it
	size     int64
	opened   time.Time
	marked   time.Time // when the newest line was written
	failed   time.Time // when a write failed; zero while none does
	lostFrom time.Time // the first time of which lines are missing; zero if none are
}

// Begin starts the file of a state directory, or continues it after End. program is the version of disinto. trouble
// receives the reason why answers cannot be written, and nil when they can be again; it may be called by any goroutine
// that writes.
func (r *Recorder) Begin(now time.Time, stateDir, program string, trouble func(error)) {
	r.file.dir, r.file.trouble = stateDir, trouble
	r.again.Store(true)
	r.Write(now, []Line{{At: now, Event: began, Program: program}})
}

// Write appends lines, and now and then one that shows that the supervisor runs.
func (r *Recorder) Write(now time.Time, lines []Line) {
	f := &r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(lines) == 0 {
		if now.Sub(f.marked) < markRest {
			return
		}
		lines = []Line{{At: now}}
	}
	if f.dir == "" || !f.failed.IsZero() && now.Sub(f.failed) < failRest {
		r.again.Store(true)
		return
	}
	if !f.lostFrom.IsZero() {
		lines = append([]Line{{At: f.lostFrom, Event: failed}}, lines...)
	}
	err := f.write(now, lines)
	if (err != nil) != !f.failed.IsZero() {
		f.trouble(err)
	}
	if err == nil {
		f.failed, f.lostFrom = time.Time{}, time.Time{}
		if f.rotate(now) {
			r.again.Store(true)
		}
		return
	}
	r.again.Store(true)
	f.close()
	f.failed = now
	if f.lostFrom.IsZero() {
		f.lostFrom = now
	}
}

// End writes that the supervisor stops. Nothing may be written afterwards.
func (r *Recorder) End(now time.Time) {
	r.Write(now, []Line{{At: now, Event: stopped}})
	r.file.mu.Lock()
	defer r.file.mu.Unlock()
	r.file.close()
	r.file.dir = ""
}

// write appends lines, as Write documents. mu must be held.
func (f *file) write(now time.Time, lines []Line) error {
	var text []byte
	for i := range lines {
		line, err := json.Marshal(&lines[i])
		if err != nil {
			return fmt.Errorf("internal error: cannot encode an answer: %w", err)
		}
		text = append(append(text, line...), '\n')
	}
	if f.out == nil {
		if err := f.open(now); err != nil {
			return fmt.Errorf("cannot keep answers: %w", err)
		}
		text = append([]byte("\n"), text...) // ends a line that a crash has torn
	}
	n, err := f.out.Write(text)
	f.size += int64(n)
	if err != nil {
		return fmt.Errorf("cannot keep answers: %w", err)
	}
	f.marked = now
	return nil
}

// rotate makes a large file the old one, and reports whether it did.
func (f *file) rotate(now time.Time) bool {
	if f.size < sizeLimit || now.Sub(f.opened) < markRest {
		return false
	}
	f.close()
	return os.Rename(filepath.Join(f.dir, newName), filepath.Join(f.dir, oldName)) == nil
}

func (f *file) open(now time.Time) (err error) {
	f.out, err = plainfile.Open(filepath.Join(f.dir, newName), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		f.out = nil
		return err
	}
	info, err := f.out.Stat()
	if err != nil {
		return err
	}
	f.size, f.opened = info.Size(), now
	return nil
}

func (f *file) close() {
	if f.out != nil {
		_ = f.out.Close()
		f.out = nil
	}
}
