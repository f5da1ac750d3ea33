package main

import (
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
)

var pauseCommand = command{
	name: "pause", args: "[THREAD|AGENT]", maxArgs: 1,
	short: "start no new sessions; running sessions continue",
	long: `
Pauses the named thread or agent, or the whole factory. The pause lasts until
disinto resume, even across restarts of the supervisor. Merges continue.`,
	setup: telling("/v1/pause", pauseOf),
}

var resumeCommand = command{
	name: "resume", args: "[THREAD|AGENT]", maxArgs: 1,
	short: "end a pause; without a name, end all pauses",
	setup: telling("/v1/resume", pauseOf),
}

func pauseOf(args []string) (any, error) {
	return control.PauseRequest{Name: strings.Join(args, "")}, nil // args has at most one
}
