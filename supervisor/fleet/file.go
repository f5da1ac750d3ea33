package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents/plainfile"
)

const (
	// Pulse is how often a host rewrites its file when nothing changes.
	Pulse = 30 * time.Second
	// fileRest is the time between two checks for changes. A document costs one decision of the scheduler.
	fileRest = 5 * time.Second
)

// File keeps fleet-status.json up to date. One goroutine makes and writes every version, so that they stay in order.
// Its methods may be called from any goroutine.
type File struct {
	path     string
	document func() *Document
	changes  func() int64
	log      hclog.Logger
	asked    chan chan struct{} // each is closed once the file is up to date
	stop     chan struct{}      // closed to end the goroutine
	ended    chan struct{}      // closed when it has ended

	// Only the goroutine uses what follows.
	written *Document // the content of the file without its times; nil when there is no file
	at      time.Time // its UpdatedAt
	seen    int64     // the count of changes that it includes
}

// StartFile starts writing the file at path: now, within 5 s of every change, and every Pulse. It calls document in a
// goroutine of the File, at a Pulse and when changes, a count of possible changes, returns a new number. A nil
// document means that there is nothing to report. Then, and if the file cannot be written, as on a full disk, it is
// removed, because the hub must not believe an old one. Only a failure to remove it is logged: the journal, on the
// same disk, reports the rest.
func StartFile(path string, document func() *Document, changes func() int64, log hclog.Logger) *File {
	f := &File{
		path: path, document: document, changes: changes, log: log,
		asked: make(chan chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go f.safely(f.run)
	return f
}

// Write returns when the file is up to date. After End it does nothing.
func (f *File) Write() {
	done := make(chan struct{})
	select {
	case f.asked <- done:
		<-done
	case <-f.ended:
	}
}

// End removes the file: no agent of a supervisor that has ended is idle. It may be called once.
func (f *File) End() {
	close(f.stop)
	<-f.ended
}

// safely recovers a panic. The supervisor's document recovers its own, so a panic here is a mistake in this file.
func (f *File) safely(keep func()) {
	defer func() {
		if v := recover(); v != nil {
			f.log.Error(fmt.Sprintf("internal error: writing %s panicked: %v\n%s", f.path, v, debug.Stack()))
		}
	}()
	keep()
}

func (f *File) run() {
	defer close(f.ended)
	defer f.remove()
	ticker := time.NewTicker(fileRest)
	defer ticker.Stop()
	f.update()
	for {
		select {
		case <-f.stop:
			return
		case now := <-ticker.C:
			if f.written == nil || f.due(now) || f.changes() != f.seen {
				f.update()
			}
		case done := <-f.asked:
			f.update()
			close(done)
		}
	}
}

// update replaces the file, unless its content is unchanged and no pulse is due. A reader sees the old file or the
// new one.
func (f *File) update() {
	f.seen = f.changes() // later changes may be missing in the document
	d := f.document()
	if d == nil {
		f.remove()
		return
	}
	steady := d.withoutTimes()
	if f.written != nil && !f.due(d.UpdatedAt) && reflect.DeepEqual(steady, f.written) {
		return
	}
	text, err := json.Marshal(d)
	if err == nil {
		err = plainfile.Replace(f.path, append(text, '\n'))
	}
	if err != nil {
		f.remove()
		return
	}
	f.written, f.at = steady, d.UpdatedAt
}

// due reports whether the file must be written at this time although nothing has changed.
func (f *File) due(now time.Time) bool { return now.Sub(f.at) >= Pulse-time.Second }

func (f *File) remove() {
	f.written = nil
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("cannot " + err.Error())
	}
}

// withoutTimes returns the document without the fields that differ each time it is made.
func (d *Document) withoutTimes() *Document {
	c := *d
	c.UpdatedAt = time.Time{}
	c.Agents = slices.Clone(d.Agents)
	for i := range c.Agents {
		c.Agents[i].UpdatedAt = time.Time{}
	}
	return &c
}
