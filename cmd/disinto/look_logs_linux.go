package main

import (
	"context"
	"fmt"
	"io"

	"codeberg.org/johba/disinto/supervisor"
)

// printOffline prints the logs in the state directory. It reads the configuration for the secrets to redact.
func (l *logsFlags) printOffline(ctx context.Context, c *cli, state string, out io.Writer) error {
	l.Follow = false // nothing runs
	found, err := supervisor.FindLogs(state, l.LogQuery)
	if err != nil {
		return err
	}
	config, _, err := readConfig(l.at.configFile(), c.lookup)
	if err != nil {
		return fmt.Errorf("cannot show %s: without a valid configuration its secrets cannot be redacted: %s",
			found.Shown[0].Path, errorLines(err)[0])
	}
	for _, s := range config.Secrets {
		found.Secrets = append(found.Secrets, s.Value.Reveal())
	}
	return found.Copy(ctx, out, l.LogQuery, nil)
}
