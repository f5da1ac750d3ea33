//go:build linux

package main

import (
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/threads"
)

// unenforced says which limits of the file are not enforced on this machine, and why: a line for each kind.
func unenforced(config *threads.Config, c process.Containment) (lines []string) {
	say := func(what string, why error, without func(a *agents.Agent) bool) {
		var names []string
		for i := range config.Agents {
			if a := &config.Agents[i]; why != nil && without(a) {
				names = append(names, a.Name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, "the limit of "+what+" of "+strings.Join(names, ", ")+" is not enforced: "+why.Error())
		}
	}
	say("memory", c.Memory, func(a *agents.Agent) bool { return a.Limits.Memory > 0 })
	say("pids", c.PIDs, func(a *agents.Agent) bool { return a.Limits.PIDs > 0 && !config.OwnUser(a) })
	return lines
}

// containment says how sessions are ended whole, and which of their limits are enforced.
func (k *checker) containment() {
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
	for i := range k.config.Agents {
		a := &k.config.Agents[i]
		limited = limited || a.Limits != agents.Limits{}
		byAccount = byAccount || a.Limits.PIDs > 0 && c.PIDs != nil && k.config.OwnUser(a)
	}
	switch {
	case byAccount:
		k.well("sessions", "limits of pids are those of the agents' own system accounts: %v", c.PIDs)
	case limited && len(lines) == 0:
		k.well("sessions", "limits of memory and pids are enforced by cgroups")
	}
}
