package main

import "codeberg.org/johba/disinto/supervisor/control"

var restartCommand = command{
	name: "restart", args: "SERVICE", minArgs: 1, maxArgs: 1,
	short: "end a service, and start it anew as the file says now",
	long: `
A service that rests after a failure starts at once. Sessions whose model it
serves go on, and lose what they had asked of it; to have none, say disinto
pause THREAD before.`,
	setup: telling("/v1/restart", func(args []string) (any, error) {
		return control.RestartRequest{Service: args[0]}, nil
	}),
}
