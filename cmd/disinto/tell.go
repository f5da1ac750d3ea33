package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/supervisor/control"
)

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
	if err := control.NewClient(o.place.stateDir(c)).Post(ctx, o.path, request, &raw); err != nil {
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
