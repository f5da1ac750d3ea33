//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/supervisor/receipts"
	"codeberg.org/johba/disinto/threads/audit"
	"codeberg.org/johba/disinto/threads/ledger"
)

func auditCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "verify the receipts of sessions"}
	cmd.AddCommand(auditVerifyCommand(c))
	return cmd
}

func auditVerifyCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify", Args: cobra.NoArgs,
		Short: "verify that no session's receipt was changed or removed",
		Long: `
Each session leaves a receipt in the state directory, with the hash of the
previous one; the journal has the hash of the newest. The command reads both, so
it needs an account that may read them, but no supervisor. It names the first
file that does not match, and exits 1.`,
	}
	flags := cmd.Flags()
	var p location
	var asJSON bool
	p.flags(flags)
	jsonFlag(flags, &asJSON, "print the report, for programs")
	cmd.RunE = func(*cobra.Command, []string) error { return auditVerify(c, p.stateDir(c), asJSON) }
	return cmd
}

func auditVerify(c *cli, state string, asJSON bool) error {
	_, origin, err := journal.ReadInstance(state)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot verify receipts: no supervisor has used %s yet: use --state", state)
	}
	if err != nil {
		return fmt.Errorf("cannot verify receipts: %w", err)
	}
	r, err := receipts.Verify(state, origin, func() (audit.Journal, error) {
		file, err := journal.ReadOnly(state)
		if errors.Is(err, fs.ErrNotExist) {
			return audit.Journal{}, nil
		}
		if err != nil {
			return audit.Journal{}, err
		}
		defer file.Close()
		return ledger.ReadReceipts(file)
	})
	if err != nil {
		return fmt.Errorf("cannot verify receipts: %w", err)
	}
	if err := c.print(asJSON, r, func(v screen.View) string { return v.Audit(&r) }); err != nil {
		return err
	}
	if r.OK {
		return nil
	}
	if asJSON {
		return &exitError{exitFailed, ""}
	}
	return fmt.Errorf("the receipts are not intact: %s: %s", r.Break.File, r.Break.Why)
}
