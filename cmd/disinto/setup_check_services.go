//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// services checks that services can start, and that agents cannot end them.
func (k *checker) services() {
	for i := range k.config.Services {
		s := &k.config.Services[i]
		well := true
		problem := func(format string, args ...any) {
			well = false
			k.addProblem("services", fmt.Errorf(s.Name+": "+format, args...))
		}
		if err := process.CheckUser(s.User); err != nil {
			problem("cannot run it as %s: %w", s.User, err)
			continue
		}
		if info, err := os.Stat(s.Cwd); s.Cwd != "" && (err != nil || !info.IsDir()) {
			problem("cwd %s is no folder", s.Cwd)
			continue
		}
		for _, command := range append(slices.Clone(s.Before), s.Command, s.ReadyCommand) {
			if len(command) == 0 {
				continue
			}
			j := supervisor.ServiceJob(k.config, s, supervisor.ServiceCommand{
				Command: command, StateDir: k.place.stateDir(k.c), Environ: k.c.environ,
			})
			switch err := process.CheckStart(command[0], j.Dir, j.Env, j.User); {
			case errors.Is(err, fs.ErrNotExist) && !strings.Contains(command[0], "/"):
				problem("cannot find %s: %w; install it, or use its absolute path", command[0], err)
			case err != nil:
				problem("cannot run %s: %w", command[0], err)
			}
		}
		for j := range k.config.Services[:i] {
			if other := &k.config.Services[j]; s.Port() > 0 && other.Port() == s.Port() {
				problem("port %d is also the port of service %s", s.Port(), other.Name)
			}
		}
		if well {
			k.addOK("services", "%s: %s", s.Name, strings.Join(s.Command, " "))
		}
		if line := exposed(k.config, s); line != "" {
			k.addNote("services", line)
		}
		if s.Grace > k.config.Factory.StopGrace {
			k.addNote("services", fmt.Sprintf(
				"%s: its grace of %s is longer than stop_grace: a stop of disinto does not wait so long", s.Name,
				control.Age(s.Grace)))
		}
	}
}

// exposed returns a note if agents outside a complete sandbox share a service's account and so could end it; empty if
// they do not.
func exposed(c *threads.Config, s *threads.Service) string {
	found, err := findSandbox()
	off := rolesWith(localPart(c), agents.SandboxOff)
	for i := range c.Agents {
		inOff := func(role string) bool { return slices.Contains(off, role) }
		if err == nil && found.Complete && !slices.ContainsFunc(c.Agents[i].Roles, inOff) {
			continue // the sandbox restricts signals
		}
		user := c.Agents[i].User
		if user == "" {
			user = c.Factory.User
		}
		if user == s.User {
			return fmt.Sprintf("%s: it shares the account of %s, which could end it: set user to its own account", s.Name,
				c.Agents[i].Name)
		}
	}
	return ""
}
