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

// notifyTime is the timeout for each message of check --notify.
const notifyTime = 15 * time.Second

// notified sends a message to each url of [notify], if --notify is set.
func (k *checker) notified(ctx context.Context) {
	to := k.config.Notify.To
	switch {
	case !k.notify:
		return
	case len(to) == 0:
		k.addProblem("notify", errors.New("no message was sent, because [notify] in factory.toml names no urls"))
		return
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	now := time.Now().UTC()
	letter := notify.Letter{
		ID: fmt.Sprintf("check-%d", now.UnixNano()), Title: "disinto: test message", Link: k.config.Forge.URL,
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
			k.addOK("notify", "%s accepted a message", &to[i])
		} else {
			k.addProblem("notify", fmt.Errorf("%s: %s", &to[i], agents.Redact(err.Error(), secrets)))
		}
	}
}
