package main

import (
	"context"
	"fmt"
	"io"

	"codeberg.org/johba/disinto/supervisor"
)

// left shows the log that a supervisor left behind. It needs the configuration to know which secrets to hide.
func (l *logsFlags) left(ctx context.Context, c *cli, state, of string, out io.Writer) error {
	log, err := supervisor.FindLog(state, of)
	if err != nil {
		return err
	}
	config, _, err := readConfig(l.at.configFile(), c.lookup)
	if err != nil {
		return fmt.Errorf("cannot show %s: only a valid configuration says which secrets to hide: %s",
			log.Path, errorLines(err)[0])
	}
	var secrets []string
	for _, s := range config.Secrets {
		secrets = append(secrets, s.Value.Reveal())
	}
	return log.Copy(ctx, out, secrets, nil)
}
