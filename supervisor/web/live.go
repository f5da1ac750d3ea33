package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

const (
	// livePulse is how often an open page is rendered without an event: not every change of a status sends one. Each
	// time the page hears that it is current; page.js calls it old after three times as long without a word.
	livePulse = 5 * time.Second
	// maxViews bounds the pages that are kept up to date. Each is rendered once for all its readers.
	maxViews = 64
	// maxReaders bounds the open streams. Each takes about 30 kB.
	maxReaders = 2000
	// behind bounds the changes that wait for a reader. A reader that falls further behind must reload the page.
	behind = 16
)

// live keeps open pages up to date.
type live struct {
	events func(ctx context.Context, heard io.Writer) error // writes to heard at every event
	failed func(what string, panicked any)

	mu         sync.Mutex // guards the fields below
	views      map[string]*view
	readers    int
	stopEvents context.CancelFunc // stops listening to events; nil while no page is open
}

// view is one page with one query, shared by all its readers.
type view struct {
	end  context.CancelFunc
	wake chan struct{} // buffered: 1

	mu      sync.Mutex             // guards the fields below
	board   *board                 // the newest; nil before the first rendering
	version string                 // of board
	readers map[chan []byte]string // the version that each reader shows
}

// The messages on which a page reloads itself, and which says that nothing has changed.
const (
	stale   = `{"stale":true}`
	current = `{}`
)

// stream keeps a page up to date: one line of JSON for each change (SSE). The query's v is the version shown.
func (s *Site) stream(w http.ResponseWriter, r *http.Request, p page) {
	query := r.URL.Query()
	has := query.Get("v")
	query.Del("v")
	lines, leave := s.live.join(p.path+"?"+query.Encode(), has, p.rest, func(ctx context.Context) (*board, error) {
		return s.board(ctx, p, query)
	})
	if lines == nil {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	send := func(line []byte) { fmt.Fprintf(w, "data: %s\n\n", line) }
	if control.Stream(r.Context(), w, lines, send) {
		send([]byte(stale))
	}
}

// join adds a reader that shows a version of the page to its view. lines is nil if too many pages are open. It is
// closed when the reader must reload the page.
func (l *live) join(
	key, version string, rest time.Duration, show func(context.Context) (*board, error),
) (lines <-chan []byte, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.views[key]
	if l.readers >= maxReaders || v == nil && len(l.views) >= maxViews {
		return nil, nil
	}
	if v == nil {
		v = l.openLocked(key, rest, show)
	}
	l.readers++
	c := make(chan []byte, behind)
	v.add(c, version)
	return c, func() { l.leave(key, v, c) }
}

// openLocked starts to keep a view up to date. The first view also starts the listening to events.
func (l *live) openLocked(key string, rest time.Duration, show func(context.Context) (*board, error)) *view {
	if l.views == nil {
		l.views = make(map[string]*view)
	}
	ctx, end := context.WithCancel(context.Background())
	v := &view{end: end, wake: make(chan struct{}, 1), readers: make(map[chan []byte]string)}
	l.views[key] = v
	go l.safely("an open page", func() { v.run(ctx, rest, show) })
	if l.stopEvents == nil {
		var listening context.Context
		listening, l.stopEvents = context.WithCancel(context.Background())
		go l.safely("listening to events", func() { l.followEvents(listening) })
	}
	return v
}

// leave removes a reader. The last reader of a view ends it, and the last view ends the listening to events.
func (l *live) leave(key string, v *view, c chan []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers--
	if v.remove(c) > 0 {
		return
	}
	v.end()
	if l.views[key] == v {
		delete(l.views, key)
	}
	if len(l.views) == 0 && l.stopEvents != nil {
		l.stopEvents()
		l.stopEvents = nil
	}
}

// safely runs f and reports a panic in it to l.failed.
func (l *live) safely(what string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			l.failed(what, v)
		}
	}()
	f()
}

// followEvents wakes every view at each event until ctx is done.
func (l *live) followEvents(ctx context.Context) {
	for ctx.Err() == nil {
		_ = l.events(ctx, waker{l})
		select {
		case <-ctx.Done():
		case <-time.After(livePulse):
		}
	}
}

// waker wakes every view at each write.
type waker struct{ l *live }

func (w waker) Write(p []byte) (int, error) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	for _, v := range w.l.views {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// run renders a view until ctx is done, waiting at least rest between two renderings. After an error the view stays
// as it was.
func (v *view) run(ctx context.Context, rest time.Duration, show func(context.Context) (*board, error)) {
	for {
		if b, err := show(ctx); err == nil {
			v.publish(b)
		}
		select {
		case <-ctx.Done():
			return
		case <-v.wake:
		case <-time.After(livePulse):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

func (v *view) add(c chan []byte, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.readers[c] = version
	if v.board != nil && v.version != version {
		v.dropLocked(c)
	}
}

// remove removes a reader and returns how many remain.
func (v *view) remove(c chan []byte) (left int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.readers, c)
	return len(v.readers)
}

// dropLocked ends a reader's stream, so that the page reloads.
func (v *view) dropLocked(c chan []byte) {
	delete(v.readers, c)
	close(c)
}

// update is the message about a new version of a page.
type update struct {
	Version string   `json:"v"`
	Changes []change `json:"changes"`
	Needs   int      `json:"needs"`
}

// publish makes a board the newest one. Readers of the version before get the changes; all others reload the page.
func (v *view) publish(b *board) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, version := v.version, b.version()
	var line []byte
	if v.board != nil && was != version {
		if list, ok := changes(v.board, b); ok {
			line, _ = json.Marshal(update{version, list, b.Needs})
		}
	}
	v.board, v.version = b, version
	for c, has := range v.readers {
		switch {
		case has == version:
			select {
			case c <- []byte(current):
			default: // it has not read the changes before
			}
		case has != was || line == nil:
			v.dropLocked(c)
		default:
			select {
			case c <- line:
				v.readers[c] = version
			default:
				v.dropLocked(c)
			}
		}
	}
}
