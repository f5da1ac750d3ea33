package supervisor

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// echo copies what a service with stdout = true prints from now on to the supervisor's stdout, each line with the
// service's name, until stop is called. stop copies the rest.
func (v *serviceRunner) echo(x *threads.Service) (stop func()) {
	if !x.Stdout || v.stdout == nil || v.state.config() == nil { // without a configuration its secrets are unknown
		return func() {}
	}
	log := control.Log{Path: ServiceLog(v.stateDir, x.Name)}
	if info, err := os.Stat(log.Path); err == nil {
		log.From = info.Size()
	}
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
	}
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
