//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/nomad"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

// containment reports how the supervisor ends all processes of a session, and which limits are enforced.
func (k *checker) containment() {
	if len(k.config.Agents) > 0 && len(allBounded(k.config)) == 0 {
		return // all sessions run on other machines
	}
	c := process.FindContainment()
	if c.Cgroup == "" {
		k.addOK("sessions", "ended by their shims: there is no writable cgroup v2 here")
	} else {
		k.addOK("sessions", "ended by their shims and by their own cgroups below %s", c.Cgroup)
	}
	lines := unenforced(k.config, c)
	for _, line := range lines {
		k.addNote("sessions", line)
	}
	limited, byAccount := false, false
	for _, b := range allBounded(k.config) {
		limited = limited || b.Limits != agents.Limits{}
		byAccount = byAccount || b.PIDs > 0 && c.PIDs != nil && b.ownUser
	}
	switch {
	case byAccount:
		k.addOK("sessions", "pids limits are enforced per system account: %v", c.PIDs)
	case limited && len(lines) == 0:
		k.addOK("sessions", "memory and pids limits are enforced by cgroups")
	}
}

// sandbox reports the sandbox of sessions.
func (k *checker) sandbox() {
	if err := checkStrict(k.config); err != nil {
		k.addProblem("sessions", err)
		return
	}
	holds, lacks := sandboxLines(k.config)
	if holds != "" {
		k.addOK("sessions", "%s", holds)
	}
	if lacks != "" {
		k.addNote("sessions", lacks)
	}
}

// cluster checks that Nomad can run the sessions of the threads with executor = "nomad".
func (k *checker) cluster(ctx context.Context) {
	var needs []agents.Job
	for i := range k.config.Agents {
		a := &k.config.Agents[i]
		if t := k.config.Thread(a.Thread); t != nil && t.Executor == threads.ExecutorNomad {
			needs = append(needs, k.config.Placed(a))
			demand(k.config, a, &needs[len(needs)-1].Sandbox)
		}
	}
	if len(needs) == 0 {
		return
	}
	about, problems := nomad.Check(ctx, nomadConfig(k.config), needs)
	for _, err := range problems {
		k.addProblem("nomad", err)
	}
	if about != "" {
		k.addOK("nomad", "%s", about)
	}
}

// demand fills in what the sandboxes of an agent's roles need from the kernel where it runs.
func demand(c *threads.Config, a *agents.Agent, s *agents.Sandbox) {
	repos := slices.ContainsFunc(c.Repos, func(r threads.Repo) bool { return r.Egress != nil })
	for _, name := range a.Roles {
		r := c.Role(name)
		if r == nil || r.Sandbox.Egress == nil && !repos {
			continue
		}
		s.Egress, s.OwnNetwork = []string{}, s.OwnNetwork || r.Sandbox.OwnNetwork
		if s.Mode != agents.SandboxStrict {
			s.Mode = r.Sandbox.Mode
		}
	}
}

// folders checks that each agent's sessions can use their folders, with the function that a start uses: a parent of the
// state folder that belonged to a third account once made every start fail, and check said ok.
func (k *checker) folders() {
	config, state := localPart(k.config), k.place.stateDir(k.c)
	if abs, err := filepath.Abs(state); err == nil {
		state = abs
	}
	var said []string
	for i := range config.Agents {
		a := &config.Agents[i]
		for _, name := range a.Roles {
			r := config.Role(name)
			if r == nil || process.CheckUser(cmp.Or(a.User, config.Factory.User)) != nil {
				continue // agents reports it
			}
			j := agents.Job{RunID: "check", Agent: a.Name, User: cmp.Or(a.User, config.Factory.User)}
			supervisor.SetFolders(&j, r, state, "check")
			for _, line := range errorLines(process.CheckFolders(&j)) {
				if !slices.Contains(said, line) {
					k.addProblem("sessions", fmt.Errorf("%s cannot start: %s; chown or chmod that folder, or use another --state",
						a.Name, line))
				}
				said = append(said, line)
			}
		}
	}
	if len(said) == 0 && len(config.Agents) > 0 {
		k.addOK("sessions", "their folders in %s can be used", state)
	}
}
