//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/notify"
)

// notifyTime is how long a recipient may take for the message of check --notify.
const notifyTime = 15 * time.Second

// notified sends a message to each url of [notify], if that was asked for.
func (k *checker) notified(ctx context.Context) {
	to := k.config.Notify.To
	switch {
	case !k.notify:
		return
	case len(to) == 0:
		k.problem("notify", errors.New("there are no urls in [notify]"))
		return
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	now := time.Now().UTC()
	letter := notify.Letter{
		ID: fmt.Sprintf("check-%d", now.UnixNano()), Title: "disinto: a try", Link: k.config.Forge.URL,
		Text: fmt.Sprintf("disinto check --notify on %s, %s", host, now.Format(time.RFC3339)),
	}
	var secrets []string
	for _, s := range k.config.Secrets {
		secrets = append(secrets, s.Value.Reveal())
	}
	for i := range to {
		ctx, cancel := context.WithTimeout(ctx, notifyTime)
		err := notify.Send(ctx, to[i], letter)
		cancel()
		if err == nil {
			k.well("notify", "%s took a message", &to[i])
		} else {
			k.problem("notify", fmt.Errorf("%s: %s", &to[i], agents.Redact(err.Error(), secrets)))
		}
	}
}
