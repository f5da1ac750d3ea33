package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/supervisor/control"
)

// commandTime bounds one command: an agent may take the whole grace to end, and the forge half a minute to answer.
const commandTime = 2 * time.Minute

// order is a command that a running supervisor does.
type order struct {
	place place
	path  string // of the control API, such as /v1/cancel
	json  bool
}

func (o *order) flags(flags *pflag.FlagSet) {
	o.place.flags(flags)
	flags.BoolVar(&o.json, "json", false, "print the report, for programs")
}

// tell has the supervisor do it and prints what came of it. What is not all done by now ends in exit code 3.
func (o *order) tell(ctx context.Context, c *cli, request any) error {
	var raw json.RawMessage
	if err := newClient(o.place.stateDir(c)).post(ctx, o.path, request, &raw); err != nil {
		return err
	}
	var r control.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	t := c.terminal()
	if o.json {
		if err := printJSON(t, raw); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(t, clean(reportLine(&r))); err != nil {
		return err
	}
	if r.Pending != "" {
		return &exitError{exitNotNow, ""}
	}
	return nil
}

// reportLine is a report in a line.
func reportLine(r *control.Report) string {
	parts := r.Did
	if len(parts) == 0 && r.Note == "" && r.Pending == "" {
		parts = []string{"nothing to do"}
	}
	line := r.Subject + ": " + strings.Join(parts, ", ")
	for _, more := range []string{r.Note, r.Pending} {
		switch {
		case more == "":
		case strings.HasSuffix(line, ": "):
			line += more
		default:
			line += "; " + more
		}
	}
	return line
}

// post says a command and decodes the answer. Its errors are those of get; a supervisor that cannot do it now is exit
// code 3, and one that does not understand it 2.
func (c *client) post(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://disinto"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.do(req, answer)
}
