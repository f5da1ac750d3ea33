package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
)

func fleetCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "fleet", Short: "show and balance the agents of several hosts"}
	cmd.AddCommand(fleetStatusCommand(c), fleetRebalanceCommand(c), fleetExportCommand(c))
	return cmd
}

func fleetStatusCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Args: cobra.NoArgs,
		Short: "show the agents of all hosts, what waits, and recent moves",
		Long: `
Asks the running supervisor; only the supervisor of the hub knows all hosts.
Below the agents it lists the last rebalances, newest first: which agents were
idle and which busy, which issues moved between them, and why the others stayed.`,
	}
	var q query
	q.flags(cmd.Flags(), "the document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return get(cmd.Context(), c, &q, "/v1/fleet", screen.View.Fleet)
	}
	return cmd
}

func fleetRebalanceCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rebalance", Args: cobra.NoArgs,
		Short: "move waiting issues to idle agents now",
		Long: `
The running supervisor rebalances by itself every few minutes. The supervisor of
the hub reads all other hosts first. --dry-run reports which issues would move,
and why the others stay. Exits 3 if the forge does not answer: the issues move
when it does.`,
		Example: `
  disinto fleet rebalance --dry-run`,
	}
	flags := cmd.Flags()
	var q query
	dryRun := flags.Bool("dry-run", false, "move nothing")
	q.flags(flags, "the document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ask := control.RebalanceRequest{DryRun: *dryRun}
		cycle, err := post(cmd.Context(), c, &q, "/v1/fleet/rebalance", ask, screen.View.Cycle)
		pending := func(m fleet.Move) bool { return m.State == fleet.MovePending }
		if err == nil && slices.ContainsFunc(cycle.Moves, pending) {
			return errNotNow
		}
		return err
	}
	return cmd
}

func fleetExportCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Args: cobra.NoArgs,
		Short: "print this host's agents for the hub, which runs this over ssh",
		Long: `
Prints the time, then fleet-status.json of the state directory, unchanged.`,
	}
	var p location
	p.flags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error { return export(c, p.stateDir(c)) }
	return cmd
}

// export prints the time and the unchanged file: the hub validates its content.
func export(c *cli, state string) error {
	path := filepath.Join(state, fleet.FileName)
	text, err := plainfile.Read(path, fleet.MaxExport)
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
