//go:build linux

package main

import (
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/threads"
)

// bounded is an agent or a service with its limits on this machine.
type bounded struct {
	name string
	agents.Limits
	ownUser bool // its system account is not shared
}

func allBounded(config *threads.Config) (all []bounded) {
	for i := range config.Agents {
		a := &config.Agents[i]
		if runsElsewhere(config, a) {
			continue // Nomad limits the memory of its sessions
		}
		all = append(all, bounded{a.Name, a.Limits, config.OwnUser(a)})
	}
	for i := range config.Services {
		x := &config.Services[i]
		all = append(all, bounded{"service " + x.Name, x.Limits, config.OnlyUser(x.User)})
	}
	return all
}

// unenforced returns a line for each kind of limit in the file that is not enforced on this machine, with the reason.
func unenforced(config *threads.Config, c process.Containment) (lines []string) {
	say := func(what string, why error, without func(b *bounded) bool) {
		var names []string
		for _, b := range allBounded(config) {
			if why != nil && without(&b) {
				names = append(names, b.name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, "the "+what+" limit of "+strings.Join(names, ", ")+" is not enforced: "+why.Error())
		}
	}
	say("memory", c.Memory, func(b *bounded) bool { return b.Memory > 0 })
	say("pids", c.PIDs, func(b *bounded) bool { return b.PIDs > 0 && !b.ownUser })
	return lines
}
