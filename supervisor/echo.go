package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// echo copies what a service with stdout = true prints from now on to the supervisor's stdout, each line with the
// service's name, until stop is called. stop copies the rest. goesOn says that an earlier supervisor did that before:
// the copy continues where that one stopped.
func (v *serviceRunner) echo(x *threads.Service, goesOn bool) (stop func()) {
	if !x.Stdout || v.stdout == nil || v.state.config() == nil { // without a configuration its secrets are unknown
		return func() {}
	}
	log := control.Log{Path: ServiceLog(v.stateDir, x.Name)}
	p := openPlace(log.Path)
	log.From, log.Copied = p.begin(log.Path, goesOn), p.move
	ctx, cancel := context.WithCancel(context.Background())
	var copying sync.WaitGroup
	v.background(&copying, "the output of service "+x.Name, func() {
		out := &prefixed{w: v.stdout, prefix: x.Name + " | "}
		secrets := func() []string { return v.state.secretsOf(v.state.config()) }
		_ = log.Copy(context.WithoutCancel(ctx), out, secrets, func() bool { return ctx.Err() == nil })
		out.end()
	})
	return func() {
		cancel()
		copying.Wait()
		p.close()
	}
}

// place remembers how far a service's log was copied to stdout, in a file beside the log: a killed supervisor can
// journal nothing. What was written may be in a queue, so the file lags behind by one piece of the log. The next
// supervisor rather repeats lines than misses some.
type place struct {
	file  *os.File // nil if it cannot be opened: the next supervisor then begins at the end of the log
	ino   uint64   // of the log
	moved int64    // the newest offset
}

// openPlace opens the place of a log.
func openPlace(log string) *place {
	_ = os.MkdirAll(filepath.Dir(log), 0o700)
	f, err := plainfile.Open(strings.TrimSuffix(log, ".log")+".copied", os.O_RDWR|os.O_CREATE)
	if err != nil {
		return new(place)
	}
	return &place{file: f}
}

// begin returns the offset at which the copy begins.
func (p *place) begin(log string, goesOn bool) (from int64) {
	var is unix.Stat_t
	_ = unix.Stat(log, &is) // a missing log has no bytes yet
	from = is.Size
	if goesOn && p.file != nil {
		var ino uint64
		var at int64
		if _, err := fmt.Fscan(io.NewSectionReader(p.file, 0, 64), &ino, &at); err == nil {
			from = at
			if ino != is.Ino { // the log was made anew meanwhile
				from = 0
			}
		}
	}
	p.ino, p.moved = is.Ino, from
	p.save()
	return from
}

// move saves the place before this one.
func (p *place) move(log *os.File, offset int64) {
	p.save()
	var is unix.Stat_t
	if unix.Fstat(int(log.Fd()), &is) == nil {
		p.ino, p.moved = is.Ino, offset
	}
}

// save writes the place to its file. The text always has the same length.
func (p *place) save() {
	if p.file != nil {
		_, _ = p.file.WriteAt(fmt.Appendf(nil, "%20d %20d\n", p.ino, p.moved), 0)
	}
}

// close saves the place.
func (p *place) close() {
	p.save()
	_ = p.file.Close() // of nil, too
}

// longLine is how long a line may get before its first part is written.
const longLine = 64 << 10

// prefixed writes whole lines, each after a prefix.
type prefixed struct {
	w      io.Writer
	prefix string
	line   []byte // begun, and not yet written
}

// Write writes the lines that p completes.
func (o *prefixed) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		o.line = append(o.line, line...)
		if !whole && len(o.line) < longLine {
			return n, nil
		}
		if err := o.flush(); err != nil {
			return n, err
		}
		p = rest
	}
}

// end writes a last line that has no line break.
func (o *prefixed) end() {
	if len(o.line) > 0 {
		_ = o.flush()
	}
}

func (o *prefixed) flush() error {
	_, err := o.w.Write([]byte(o.prefix + string(o.line) + "\n"))
	o.line = o.line[:0]
	return err
}
