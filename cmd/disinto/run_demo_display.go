//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/cmd/disinto/watch"
	"codeberg.org/johba/disinto/supervisor/control"
)

// display shows a demo: as a redrawn status on a terminal, as log lines elsewhere, and with --json as one document at
// the end.
type display struct {
	*terminal
	json    bool
	redrawn bool
	room    string // the address of the control room; empty without one
	log     hclog.Logger
	logging *atomic.Bool  // whether log lines are shown
	program *tea.Program  // the screen, between begin and end
	left    chan struct{} // closed when the screen is the person's again
}

func newDisplay(c *cli, asJSON bool) *display {
	s := &display{terminal: c.terminal(), json: asJSON, logging: new(atomic.Bool)}
	s.redrawn = s.live() && !asJSON
	s.logging.Store(!s.redrawn && !asJSON)
	s.log = newLog(switchedWriter{c.stdout, s.logging}, pid1.LineForm{})
	return s
}

// switchedWriter is a writer that drops its input while it is closed.
type switchedWriter struct {
	io.Writer
	open *atomic.Bool
}

func (v switchedWriter) Write(p []byte) (int, error) {
	if !v.open.Load() {
		return len(p), nil
	}
	return v.Writer.Write(p)
}

func (s *display) begin() {
	if s.room != "" && !s.json {
		fmt.Fprintf(s, "the control room, until the demo ends:\n%s\n", s.room)
	}
	if s.redrawn {
		s.program, s.left = s.terminal.program(context.Background(), watch.New(nil, "", s.colour), nil), make(chan struct{})
		go func() {
			defer close(s.left)
			_, _ = s.program.Run()
		}()
	}
}

func (s *display) end() {
	if s.redrawn {
		s.program.Quit()
		<-s.left
	}
}

// frame draws the factory's current state.
func (s *display) frame(d *control.Document, merged int, took time.Duration) {
	if !s.redrawn {
		return
	}
	now := time.Now()
	s.program.Send(watch.Above(s.view(now).DemoProgress(s.room, merged, took)))
	s.program.Send(watch.News{Doc: d, At: now})
}

// report prints the demo's result.
func (s *display) report(r *demo.Report, took time.Duration) error {
	if s.json {
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return printJSON(s, raw)
	}
	_, err := io.WriteString(s, s.view(time.Now()).DemoReport(r, took))
	return err
}

// printHints says once what to do with a demo that keeps running, which is quiet from then on.
func (s *display) printHints(to io.Writer, self string, w *demo.World, dir string) {
	s.logging.Store(false)
	fmt.Fprintf(to, `
The factory keeps running until you interrupt it. In another terminal:

  export DISINTO_STATE_DIR=%s/state
  %s sling --title "Add a bell"
  %s status --watch
  %s why 9
  git clone %s/%s.git

As %s, a person, on the forge:

  curl -H "Authorization: token %s" -H "Content-Type: application/json" \
    -d '{"title": "Add a sign", "body": "Add `+"`sign.md`"+`.", "labels": [%d]}' \
    %s/api/v1/repos/%s/issues

`, dir, self, self, self, w.URL, demo.Repo, demo.Human, w.HumanToken, w.Backlog, w.URL, demo.Repo)
	if s.room != "" {
		fmt.Fprintf(to, "The control room:\n\n  %s\n\n", s.room)
	}
	fmt.Fprintf(to, "Its files stay in %s.\n", dir)
}
