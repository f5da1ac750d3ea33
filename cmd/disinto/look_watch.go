package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/cmd/disinto/watch"
	"codeberg.org/johba/disinto/supervisor/control"
)

// pace is the timing of a watched document.
type pace struct {
	rest time.Duration // least time between two reads: one claim causes several events
	slow time.Duration // longest time between two reads: some changes, such as a scan, cause no event
}

var watchPace = pace{rest: 200 * time.Millisecond, slow: 5 * time.Second}

// watch shows the document until it is interrupted. On a terminal it is a screen with keys, even while no supervisor
// runs, so that the user can watch a restart. Elsewhere, and as JSON, it prints each new document until the supervisor
// ends.
func (q *statusQuery) watch(ctx context.Context, p pace) error {
	t := q.c.terminal()
	if !t.live() || q.json {
		return q.printEach(ctx, t, p)
	}
	in, ok := q.c.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usagef("cannot watch: its keys come from stdin, which is no terminal (docker exec needs -it); " +
			"to print each change instead, send the output through | cat")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news := make(chan struct{}, 1)
	lines := &lineRunner{ctx: ctx, c: q.c, at: q.at.args(), ended: poke(news)}
	lines.width = func() int { width, _ := sizeOf(t.file); return width }
	program := t.program(ctx, watch.New(lines, "", t.colour), in)
	lines.send = program.Send
	go q.tell(ctx, p, news, program.Send)
	if _, err := program.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("cannot show the screen: %w", err)
	}
	return nil
}

// tell sends each new document to a screen, also the saved one of a supervisor that has ended.
func (q *statusQuery) tell(ctx context.Context, p pace, news chan struct{}, send func(tea.Msg)) {
	go q.followEvents(ctx, p, news)
	var last watch.News
	for ctx.Err() == nil {
		raw, at, err := q.read(ctx)
		if raw != nil {
			found, bad := q.newsOf(raw)
			if found.At, err = at, errors.Join(err, bad); bad == nil {
				last = found
			}
		}
		if last.Lost = err; ctx.Err() == nil {
			send(last)
		}
		p.wait(ctx, news)
	}
}

// newsOf decodes a document for a screen.
func (q *statusQuery) newsOf(raw json.RawMessage) (n watch.News, err error) {
	q.c.passDocument(raw)
	if q.path == statePath {
		n.Doc = new(control.Document)
		if err := json.Unmarshal(raw, n.Doc); err != nil {
			return watch.News{}, fmt.Errorf("cannot understand the supervisor's answer: %w", err)
		}
		return n, nil
	}
	if _, err := q.render(raw, screen.View{}); err != nil {
		return n, err
	}
	n.Text = func(v screen.View) string {
		text, _ := q.render(raw, v) // it was understood before
		return text
	}
	return n, nil
}

// printEach prints each new document, until the supervisor ends.
func (q *statusQuery) printEach(ctx context.Context, t *terminal, p pace) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news := make(chan struct{}, 1)
	go q.followEvents(ctx, p, news)
	var last json.RawMessage
	for {
		raw, at, err := q.read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil && !bytes.Equal(raw, last) {
			if last != nil && !q.json {
				fmt.Fprintln(t)
			}
			last, err = raw, q.show(t, raw, at, false)
		}
		if err != nil {
			return err
		}
		p.wait(ctx, news)
	}
}

// wait returns when it is time for the next read.
func (p pace) wait(ctx context.Context, news <-chan struct{}) {
	slow := time.NewTimer(p.slow)
	defer slow.Stop()
	rest := time.NewTimer(p.rest)
	defer rest.Stop()
	var rested <-chan struct{} // news, after p.rest
	for {
		select {
		case <-rest.C:
			rested = news
		case <-rested:
			return
		case <-slow.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// followEvents sends to news for each event of the supervisor, and when the stream of events starts or ends. It
// reconnects until ctx is done.
func (q *statusQuery) followEvents(ctx context.Context, p pace, news chan<- struct{}) {
	for ctx.Err() == nil {
		q.client.Follow(ctx, poke(news))
		select {
		case <-ctx.Done():
		case <-time.After(p.slow):
		}
	}
}

// poke returns a function that says that there is news.
func poke(news chan<- struct{}) func() {
	return func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
}

// lineRunner runs disinto's own command lines for a screen, and so what its keys do is what the commands do.
type lineRunner struct {
	ctx   context.Context // of the screen
	c     *cli
	at    []string // the flags that name the supervisor
	width func() int
	send  func(tea.Msg)
	ended func() // called after each: what it did shows at once
}

// Run returns a command that runs the arguments and sends what they print, errors too.
func (r *lineRunner) Run(id int, args ...string) (cmd tea.Cmd, stop func()) {
	ctx, stop := context.WithCancel(r.ctx)
	return func() tea.Msg {
		out := &screen.Cleaner{W: outputTo{id, r.send}}
		c := &cli{
			environ: r.c.environ, stdin: strings.NewReader(""), stdout: out, stderr: out, now: r.c.now, width: r.width(),
		}
		code := c.run(ctx, slices.Concat(args[:1], r.at, args[1:]))
		r.ended()
		return watch.Ended{ID: id, Code: code}
	}, stop
}

// outputTo sends what is written to a screen.
type outputTo struct {
	id   int
	send func(tea.Msg)
}

// Write sends p.
func (o outputTo) Write(p []byte) (int, error) {
	o.send(watch.Output{ID: o.id, Text: string(p)})
	return len(p), nil
}
