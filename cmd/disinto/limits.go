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
	ownUser bool // which no other one has
}

func allBounded(config *threads.Config) (all []bounded) {
	for i := range config.Agents {
		a := &config.Agents[i]
		if runsElsewhere(config, a) {
			continue // Nomad holds its sessions to their memory
		}
		all = append(all, bounded{a.Name, a.Limits, config.OwnUser(a)})
	}
	for i := range config.Services {
		x := &config.Services[i]
		all = append(all, bounded{"service " + x.Name, x.Limits, config.OnlyUser(x.User)})
	}
	return all
}

// unenforced says which limits of the file are not enforced on this machine, and why: a line for each kind.
func unenforced(config *threads.Config, c process.Containment) (lines []string) {
	say := func(what string, why error, without func(b *bounded) bool) {
		var names []string
		for _, b := range allBounded(config) {
			if why != nil && without(&b) {
				names = append(names, b.name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, "the limit of "+what+" of "+strings.Join(names, ", ")+" is not enforced: "+why.Error())
		}
	}
	say("memory", c.Memory, func(b *bounded) bool { return b.Memory > 0 })
	say("pids", c.PIDs, func(b *bounded) bool { return b.PIDs > 0 && !b.ownUser })
	return lines
}

// containment says how sessions are ended whole, and which of their limits are enforced.
func (k *checker) containment() {
	if len(k.config.Agents) > 0 && len(allBounded(k.config)) == 0 {
		return // all of them run elsewhere
	}
	c := process.FindContainment()
	if c.Cgroup == "" {
		k.well("sessions", "ended by their shims: there is no writable cgroup of version 2 here")
	} else {
		k.well("sessions", "ended by their shims, and by cgroups of their own below %s", c.Cgroup)
	}
	lines := unenforced(k.config, c)
	for _, line := range lines {
		k.note("sessions", line)
	}
	limited, byAccount := false, false
	for _, b := range allBounded(k.config) {
		limited = limited || b.Limits != agents.Limits{}
		byAccount = byAccount || b.PIDs > 0 && c.PIDs != nil && b.ownUser
	}
	switch {
	case byAccount:
		k.well("sessions", "limits of pids are those of system accounts of their own: %v", c.PIDs)
	case limited && len(lines) == 0:
		k.well("sessions", "limits of memory and pids are enforced by cgroups")
	}
}
