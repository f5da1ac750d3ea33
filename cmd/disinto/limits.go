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

// containment reports how the supervisor ends all processes of a session, and which limits are enforced.
func (k *checker) containment() {
	if len(k.config.Agents) > 0 && len(allBounded(k.config)) == 0 {
		return // all sessions run on other machines
	}
	c := process.FindContainment()
	if c.Cgroup == "" {
		k.well("sessions", "ended by their shims: there is no writable cgroup v2 here")
	} else {
		k.well("sessions", "ended by their shims and by their own cgroups below %s", c.Cgroup)
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
		k.well("sessions", "pids limits are enforced per system account: %v", c.PIDs)
	case limited && len(lines) == 0:
		k.well("sessions", "memory and pids limits are enforced by cgroups")
	}
}
