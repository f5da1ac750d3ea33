//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func upgradeCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade", Args: cobra.NoArgs,
		Short: "replace the running program in place, without ending sessions",
		Long: `
The supervisor ends, and its init starts the new program as the next one, which
takes over the sessions, the services and the listeners. Without --binary that
is the file from which run was started: replace it with install or mv, because
cp cannot overwrite a running program. USR2 does the same.

The supervisor first tests the new program in a child process. If the new
program does not start, or does not understand the state or factory.toml, the
old one keeps running. The supervisor also refuses an upgrade while a claim or a
release hangs.`,
		Example: `
  disinto upgrade
  disinto upgrade --binary ./disinto`,
	}
	flags := cmd.Flags()
	var p location
	binary := flags.String("binary", "", "start this `FILE`")
	p.flags(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return upgrade(cmd.Context(), c, &p, *binary) }
	return cmd
}

// pollInterval is the time between two requests to the supervisor.
const pollInterval = 50 * time.Millisecond

// upgradeTime is the timeout for the new image to answer. It usually takes tens of milliseconds.
const upgradeTime = 30 * time.Second

func upgrade(ctx context.Context, c *cli, p *location, binary string) error {
	if binary != "" {
		path, err := filepath.Abs(binary)
		if err != nil {
			return fmt.Errorf("cannot find %s: %w", binary, err)
		}
		binary = path
	}
	client := control.NewClient(p.stateDir(c))
	var before, after control.Document
	if err := client.Get(ctx, "/v1/state", &before); err != nil {
		return err
	}
	var none control.Report
	if err := client.Post(ctx, "/v1/upgrade", control.UpgradeRequest{Binary: binary}, &none); err != nil && !cutOff(err) {
		return err
	}
	for late := time.Now().Add(upgradeTime); after.Upgrades <= before.Upgrades; {
		if time.Now().After(late) || ctx.Err() != nil {
			return fmt.Errorf("cannot find out whether the upgrade succeeded: the supervisor on %s does not answer; see its log",
				client.StateDir())
		}
		switch err := client.Get(ctx, "/v1/state", &after); {
		case err != nil:
			time.Sleep(pollInterval)
		case after.Upgrades <= before.Upgrades: // the connection broke, so this is another supervisor
			return errors.New("not upgraded: the supervisor or its new program died, and the program before it runs; " +
				"see the log")
		}
	}
	goOn := "continue"
	if len(after.Sessions) == 1 {
		goOn = "continues"
	}
	did := "upgraded"
	if older(after.Version, before.Version) {
		did = "downgraded"
	}
	_, err := fmt.Fprintln(c.stdout, screen.Clean(fmt.Sprintf("%s from %s to %s: %s %s",
		did, before.Version, after.Version, control.Count(len(after.Sessions), "session"), goOn)))
	return err
}

// cutOff reports whether a connection ended without an answer, as happens when the server's program is replaced.
func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, http.ErrServerClosed)
}
