package main

import "codeberg.org/johba/disinto/supervisor/control"

var restartCommand = command{
	name: "restart", args: "SERVICE", minArgs: 1, maxArgs: 1,
	short: "restart a service with its current configuration",
	long: `
A service in back-off after a failure starts at once. Sessions that use its
model continue, but lose their open requests; to avoid that, run disinto pause
THREAD first and wait until they end.`,
	setup: telling("/v1/restart", func(args []string) (any, error) {
		return control.RestartRequest{Service: args[0]}, nil
	}),
}
