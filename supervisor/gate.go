package supervisor

import (
	"context"
	"sync"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// startTime is how long a command waits for the supervisor's start. A start takes milliseconds, unless an engine does
// not answer, or sessions that the journal does not know have to end.
const startTime = 5 * time.Second

// gate admits commands while the loops run: not before they start, not while the supervisor is being replaced, and
// not after the end.
type gate struct {
	mu     sync.Mutex      // guards the fields below
	opened chan struct{}   // closed when until is set; nil until somebody waits for that
	until  context.Context // done when the supervisor must stop; nil until loops may start
	closed bool            // the supervisor is about to be replaced
	inside int             // commands under way
}

var (
	errStarting  = control.NotNow("not now: the supervisor is still starting")
	errStopping  = control.NotNow("not now: the supervisor stops")
	errUpgrading = control.NotNow("not now: an upgrade is under way")
)

// open admits commands until a context is done. It may be repeated with the same one.
func (g *gate) open(until context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until == nil && g.opened != nil {
		close(g.opened)
	}
	g.until = until
}

// await waits until loops may start, but no longer than startTime.
func (g *gate) await(ctx context.Context) {
	g.mu.Lock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	opened, open := g.opened, g.until != nil
	g.mu.Unlock()
	if open {
		return
	}
	select {
	case <-opened:
	case <-ctx.Done():
	case <-time.After(startTime):
	}
}

// isOpen reports whether loops may start.
func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until != nil && g.until.Err() == nil
}

// enter admits a command. The wait group running counts it until leave is called.
func (g *gate) enter(ctx context.Context, running *sync.WaitGroup) (leave func(), err error) {
	g.await(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.closedLocked(); err != nil {
		return nil, err
	}
	running.Add(1)
	g.inside++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside--
		running.Done()
	}, nil
}

// close closes the gate until reopen is called.
func (g *gate) close(ctx context.Context) error {
	g.await(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.closedLocked()
	g.closed = g.closed || err == nil
	return err
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}

func (g *gate) closedLocked() error {
	switch {
	case g.until == nil:
		return errStarting
	case g.until.Err() != nil:
		return errStopping
	case g.closed:
		return errUpgrading
	}
	return nil
}

// busy reports whether a command is under way.
func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside > 0
}
