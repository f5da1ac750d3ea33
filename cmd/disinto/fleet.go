package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
)

var fleetStatusCommand = command{
	name:  "fleet status",
	short: "show the agents of all hosts, what waits, and recent moves with reasons",
	long: `
Asks the running supervisor; only the supervisor of the hub knows all hosts.
Below the agents it lists the last rebalances, newest first: which agents were
idle and which busy, which issues moved between them, and why the others stayed.`,
	setup: func(flags *pflag.FlagSet) action {
		var q query
		q.flags(flags, "the document")
		return func(ctx context.Context, c *cli, _ []string) error {
			return get(ctx, c, &q, "/v1/fleet", screen.View.Fleet)
		}
	},
}

var fleetRebalanceCommand = command{
	name:  "fleet rebalance",
	short: "move waiting issues to idle agents now",
	long: `
The running supervisor rebalances by itself every few minutes. The supervisor of
the hub reads all other hosts first. --dry-run reports which issues would move,
and why the others stay. Exits 3 if the forge does not answer: the issues move
when it does.`,
	setup: func(flags *pflag.FlagSet) action {
		var q query
		q.flags(flags, "the document")
		dryRun := flags.Bool("dry-run", false, "move nothing")
		return func(ctx context.Context, c *cli, _ []string) error {
			ask := control.RebalanceRequest{DryRun: *dryRun}
			cycle, err := post(ctx, c, &q, "/v1/fleet/rebalance", ask, screen.View.Cycle)
			pending := func(m fleet.Move) bool { return m.State == fleet.MovePending }
			if err == nil && slices.ContainsFunc(cycle.Moves, pending) {
				return errNotNow
			}
			return err
		}
	},
}

var fleetExportCommand = command{
	name:  "fleet export",
	short: "print this host's agents for the hub, which runs this over ssh",
	long: `
Prints the time, then fleet-status.json of the state directory, unchanged.`,
	setup: func(flags *pflag.FlagSet) action {
		var p place
		p.flags(flags)
		return func(_ context.Context, c *cli, _ []string) error { return export(c, p.stateDir(c)) }
	},
}

// export prints the time and the unchanged file: the hub validates its content.
func export(c *cli, state string) error {
	path := filepath.Join(state, fleet.FileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no %s: start a supervisor there, or use --state", path)
	}
	if err != nil {
		return fmt.Errorf("cannot export: %w", err)
	}
	if err = json.NewEncoder(c.stdout).Encode(fleet.Export{ExportedAt: c.now()}); err == nil {
		_, err = c.stdout.Write(text)
	}
	if err != nil {
		return fmt.Errorf("cannot export: %w", err)
	}
	return nil
}
