//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
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
previous one; the journal has the hash of each. The command reads both, so it
needs an account that may read them, but no supervisor. It names the first
file that does not match, and exits 1. With --forge it then compares the hashes
in the supervisor's comments on pull requests, with the address and token of
[forge], and names each that is missing or different.`,
	}
	flags := cmd.Flags()
	var p location
	var asJSON, pulls bool
	p.flags(flags)
	flags.BoolVar(&pulls, "forge", false, "also compare the comments on pull requests")
	jsonFlag(flags, &asJSON, "print the report, for programs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		state := p.stateDir(c)
		r, err := auditVerify(state)
		if err == nil && r.OK && pulls {
			err = comparePulls(cmd.Context(), c, p.configFile(), state, &r)
		}
		if err != nil {
			return fmt.Errorf("cannot verify receipts: %w", err)
		}
		return printAudit(c, &r, asJSON)
	}
	return cmd
}

func auditVerify(state string) (r audit.Report, err error) {
	_, origin, err := journal.ReadInstance(state)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("no supervisor has used %s yet: use --state", state)
	}
	if err != nil {
		return r, err
	}
	return receipts.Verify(state, origin, func() (audit.Journal, error) { return readReceipts(state) })
}

func readReceipts(state string) (audit.Journal, error) {
	file, err := journal.ReadOnly(state)
	if errors.Is(err, fs.ErrNotExist) {
		return audit.Journal{}, nil
	}
	if err != nil {
		return audit.Journal{}, err
	}
	defer file.Close()
	return ledger.ReadReceipts(file)
}

// receiptReader is a forge client that can read the comments with receipts.
type receiptReader interface {
	ReceiptComments(ctx context.Context, since time.Time) (map[forge.Ref]string, error)
}

// comparePulls compares the journal with the comments on pull requests. A supervisor may write some meanwhile, so it
// reports only what two comparisons find.
func comparePulls(ctx context.Context, c *cli, configFile, state string, r *audit.Report) error {
	config, _, err := readConfig(configFile, c.lookup)
	if err != nil {
		return err
	}
	client, err := newForge(c, config)
	if err != nil {
		return err
	}
	reader, ok := client.(receiptReader)
	if !ok {
		return errors.New("this kind of forge has no comments with receipts")
	}
	id, _, err := journal.ReadInstance(state)
	for range 2 {
		if err != nil || r.Pulls != nil && len(r.Pulls.Faults) == 0 {
			break
		}
		err = compareOnce(ctx, reader, config.Forge.Repos, id, state, r)
	}
	r.OK = r.Pulls == nil || len(r.Pulls.Faults) == 0
	return err
}

func compareOnce(ctx context.Context, reader receiptReader, repos []string, id, state string, r *audit.Report) error {
	j, err := readReceipts(state)
	if err != nil || len(j.Sessions) == 0 {
		return err
	}
	const clocks = 24 * time.Hour // the forge's clock may differ
	comments, err := reader.ReceiptComments(ctx, j.Ended[j.Sessions[0].Run].Add(-clocks))
	if err != nil {
		return err
	}
	found := j.ComparePulls(id, comments, func(repo string) bool { return slices.Contains(repos, repo) })
	if r.Pulls != nil {
		found.Also(r.Pulls.Faults)
	}
	r.Pulls = &found
	return nil
}

// printAudit prints a report. The first mismatch is the error.
func printAudit(c *cli, r *audit.Report, asJSON bool) error {
	if err := c.print(asJSON, r, func(v screen.View) string { return v.Audit(r) }); err != nil {
		return err
	}
	switch {
	case r.OK:
		return nil
	case asJSON:
		return &exitError{exitFailed, ""}
	case r.Break != nil:
		return fmt.Errorf("the receipts are not intact: %s: %s", r.Break.File, r.Break.Why)
	}
	f := r.Pulls.Faults[0]
	return fmt.Errorf("pull requests do not show the receipts: %s: %s: %s", f.Pull, f.Run, f.Why)
}
