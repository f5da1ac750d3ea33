package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/supervisor/control"
)

var statusCommand = command{
	name:  "status",
	short: "which thread, which agent, which issue, and what waits and why",
	long: `
Asks the running supervisor. Exits 0 when one answers, whatever the forge's
state, which makes it a health check. When none answers it shows the last state
that was written down and exits 1.`,
	setup: func(flags *pflag.FlagSet) action {
		var s statusFlags
		s.place.flags(flags)
		flags.BoolVar(&s.json, "json", false, "print the status document, for programs")
		flags.BoolVar(&s.watch, "watch", false, "go on showing it until interrupted")
		return s.run
	},
}

type statusFlags struct {
	place       place
	json, watch bool
}

func (s *statusFlags) run(ctx context.Context, c *cli, _ []string) error {
	q := &statusQuery{client: control.NewClient(s.place.stateDir(c)), c: c, json: s.json, path: statePath, render: renderStatus}
	if s.watch {
		return q.watch(ctx, watchPace)
	}
	raw, at, err := q.read(ctx)
	if raw != nil {
		if showErr := q.show(c.terminal(), raw, at, err != nil, 0); showErr != nil {
			return showErr
		}
	}
	return err
}

// statusQuery reads documents of a supervisor and shows them.
type statusQuery struct {
	client *control.Client
	c      *cli
	json   bool
	path   string // of the control API
	render func(raw json.RawMessage, v view) (string, error)
}

// statePath is the one document that is also written down.
const statePath = "/v1/state"

func renderStatus(raw json.RawMessage, v view) (string, error) {
	var d control.Document
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", err
	}
	return v.render(&d), nil
}

// read asks the supervisor. When there is none it returns the error and the document that was journalled last, if
// there is one, with the time it is from.
func (q *statusQuery) read(ctx context.Context) (raw json.RawMessage, at time.Time, err error) {
	err = q.client.Get(ctx, q.path, &raw)
	if !errors.Is(err, control.ErrNoSupervisor) || q.path != statePath {
		return raw, q.c.now(), err
	}
	raw, at = control.ReadStatusFile(q.client.StateDir())
	return raw, at, err
}

// show prints one document. In JSON it is the supervisor's own, so that a newer supervisor's fields are not lost.
func (q *statusQuery) show(t *terminal, raw json.RawMessage, at time.Time, lost bool, height int) error {
	if q.json {
		return printJSON(t, raw)
	}
	width, _ := t.size()
	text, err := q.render(raw, view{now: at, width: width, height: height, colour: t.colour, lost: lost})
	if err != nil {
		return fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	if height > 0 {
		return t.redraw(text)
	}
	_, err = fmt.Fprint(t, text)
	return err
}

// printJSON prints a document readably.
func printJSON(w io.Writer, raw json.RawMessage) error {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	_, err := fmt.Fprintln(w, out.String())
	return err
}
