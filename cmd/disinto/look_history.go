package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func historyCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "history", Args: cobra.NoArgs,
		Short: "list ended sessions: agent, item, outcome, cost",
		Long: `
The supervisor remembers sessions for 30 days, at most 4,000 of them. Without a
supervisor it reads them from the journal.`,
		Example: `
  disinto history --agent dev-qwen --since 7d`,
	}
	flags := cmd.Flags()
	var h historyFlags
	flags.StringVar(&h.agent, "agent", "", "list only the sessions of this `AGENT`")
	flags.StringVar(&h.since, "since", "24h", "look back this `TIME`, such as 90m or 7d")
	h.flags(flags, "the sessions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return h.run(cmd.Context(), c, args) }
	return cmd
}

type historyFlags struct {
	query
	agent, since string
}

func (h *historyFlags) run(ctx context.Context, c *cli, _ []string) error {
	since, err := control.Span(h.since)
	if err != nil {
		return usagef("%v", err)
	}
	ask := url.Values{"since": {c.now().Add(-since).UTC().Format(time.RFC3339)}}
	if h.agent != "" {
		ask.Set("agent", h.agent)
	}
	err = get(ctx, c, &h.query, "/v1/history?"+ask.Encode(), screen.View.History)
	if !errors.Is(err, control.ErrNoSupervisor) {
		return err
	}
	left, readErr := offlineHistory(h.at.stateDir(c), ask)
	if readErr != nil {
		return withoutJournal(err, readErr)
	}
	return c.print(h.json, left, func(v screen.View) string { return v.History(left) })
}

// withoutJournal returns the error of a command that found no supervisor and then could not read its journal. A state
// directory without a journal had no supervisor.
func withoutJournal(noSupervisor, unread error) error {
	if errors.Is(unread, fs.ErrNotExist) || errors.Is(unread, control.ErrNoSupervisor) {
		return noSupervisor
	}
	return fmt.Errorf("no supervisor runs, and the journal cannot be read: %w", unread)
}
