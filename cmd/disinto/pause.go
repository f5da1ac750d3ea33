package main

import (
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
)

var pauseCommand = command{
	name: "pause", args: "[THREAD|AGENT]", maxArgs: 1,
	short: "start no new session, here or anywhere; what runs goes on",
	long: `
Of the thread or the agent that is named, else of the whole factory. It holds
until disinto resume, also when the supervisor is restarted. Merges go on.`,
	setup: telling("/v1/pause", pauseOf),
}

var resumeCommand = command{
	name: "resume", args: "[THREAD|AGENT]", maxArgs: 1,
	short: "take a pause back; without a name, all of them",
	setup: telling("/v1/resume", pauseOf),
}

func pauseOf(args []string) (any, error) {
	return control.PauseRequest{Name: strings.Join(args, "")}, nil // at most one
}
