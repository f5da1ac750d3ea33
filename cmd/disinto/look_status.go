package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func statusCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Args: cobra.NoArgs,
		Short: "show threads, agents and sessions, and what waits and why",
		Long: `
Asks the running supervisor. Exits 0 if the supervisor answers, even when the
forge is down, and so serves as a health check. Without an answer it shows the
last saved state and exits 1. Without --all it fits the terminal; a pipe gets
the first twenty waiting items.`,
		Example: `
  disinto status --watch
  disinto status --address https://factory.example.org`,
	}
	var s statusFlags
	cmd.Flags().BoolVar(&s.all, "all", false, "show every row, whatever the terminal's height")
	s.flags(cmd.Flags(), "the status document")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), c, args) }
	return cmd
}

// statusFlags are the flags of a command that shows a document, once or with --watch.
type statusFlags struct {
	query
	watch bool
	all   bool // show every row of the document
}

func (s *statusFlags) flags(flags *pflag.FlagSet, document string) {
	flags.BoolVar(&s.watch, "watch", false, "update the output until interrupted")
	s.query.flags(flags, document)
}

func (s *statusFlags) run(ctx context.Context, c *cli, _ []string) error {
	return s.show(ctx, c, statePath, rendering(func(v screen.View, d *control.Document) string {
		v.All = s.all
		return v.Status(d)
	}))
}

// show shows the document at a path of the control API. Without a supervisor it shows the last saved status, if path is
// statePath, and returns the error.
func (s *statusFlags) show(ctx context.Context, c *cli, path string, render render) error {
	client, err := s.client(c)
	if err != nil {
		return err
	}
	q := &statusQuery{client: client, c: c, at: &s.at, json: s.json, path: path, render: render}
	if s.watch {
		return q.watch(ctx, watchPace)
	}
	raw, at, err := q.read(ctx)
	if raw != nil {
		if showErr := q.show(c.terminal(), raw, at, err != nil); showErr != nil {
			return showErr
		}
	}
	if errors.Is(err, control.ErrNoAnswer) && hasInit(client.StateDir()) {
		// The container is well: an orchestrator that ended it now would end the sessions, which go on.
		fmt.Fprintln(c.stderr, "disinto: the supervisor does not answer yet; its init starts it again, and sessions go on")
		return nil
	}
	return err
}

// render turns a document into text.
type render func(raw json.RawMessage, v screen.View) (string, error)

func rendering[T any](text func(screen.View, *T) string) render {
	return func(raw json.RawMessage, v screen.View) (string, error) {
		document := new(T)
		if err := json.Unmarshal(raw, document); err != nil {
			return "", fmt.Errorf("cannot understand the supervisor's answer: %w", err)
		}
		return text(v, document), nil
	}
}

// statusQuery gets a document from a supervisor and shows it.
type statusQuery struct {
	client *control.Client
	c      *cli
	at     *target // of the client
	json   bool
	path   string // of the control API
	render render
}

// statePath is the path of the status, the only document that the supervisor also saves to a file.
const statePath = "/v1/state"

// read gets the document from the supervisor. Without one it returns the error and, for statePath, the last saved
// status with its time.
func (q *statusQuery) read(ctx context.Context) (raw json.RawMessage, at time.Time, err error) {
	err = q.client.Get(ctx, q.path, &raw)
	none := errors.Is(err, control.ErrNoSupervisor) || errors.Is(err, control.ErrNoAnswer)
	if !none || q.path != statePath || q.client.StateDir() == "" {
		return raw, q.c.now(), err
	}
	raw, at = control.ReadStatusFile(q.client.StateDir())
	return raw, at, err
}

// show prints a document.
func (q *statusQuery) show(t *terminal, raw json.RawMessage, at time.Time, lost bool) error {
	if q.json {
		return printJSON(t, raw)
	}
	q.c.passDocument(raw)
	v := t.view(at)
	v.Lost = lost
	text, err := q.render(raw, v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(t, text)
	return err
}
