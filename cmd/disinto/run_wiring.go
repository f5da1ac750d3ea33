//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
)

// executors are the ways to run sessions. Threads that name no executor use $DISINTO_EXECUTOR or, if that is not set,
// the first. Only a graceSkipper can cut the grace of sessions short.
var executors = registry[func(*factory) supervisor.Executor]{
	{"process", newProcesses},
	{"nomad", newNomad},
}

// forges are the kinds of forges. $DISINTO_FORGE selects one; the default is the first. disinto check inspects labels
// only on an inspector, and web hooks only on a hooker.
var forges = registry[forgeKind]{
	{"forgejo", forgeKind{newForgejo, newForgejoDesk, forgejo.APIAddress}},
}

// registry lists implementations by name.
type registry[T any] []struct {
	name string
	made T
}

// choose returns the implementation that an environment variable names; the first if it is not set.
func (r registry[T]) choose(variable string, lookupEnv func(string) (string, bool)) (T, error) {
	name, _ := lookupEnv(variable)
	names := make([]string, len(r))
	for i, row := range r {
		if name == "" || row.name == name {
			return row.made, nil
		}
		names[i] = row.name
	}
	var none T
	return none, usagef("$%s: there is no %q, want %s", variable, name, strings.Join(names, ", "))
}

// graceSkipper is an executor that can end its sessions without their grace. SkipGrace may be called more than once.
type graceSkipper interface{ SkipGrace() }

// confiner is an executor that runs sessions in sandboxes and recognises their processes.
type confiner interface{ Confined(pid int) bool }

func newProcesses(f *factory) supervisor.Executor { return newLocal(f) }

// newLocal returns the executor for this machine. It runs services even if another executor runs the sessions.
func newLocal(f *factory) *process.Executor {
	return &process.Executor{
		Reaper: f.reaper, Secrets: f.secrets, Progress: progress,
		Ended: func(n int) {
			f.Log.Info(fmt.Sprintf("ended %d processes of an earlier supervisor", n))
		},
	}
}

// progress describes the progress of a local server's requests.
func progress(ctx context.Context, url string) string { return llama.New(url).Progress(ctx) }

// saver returns the client of a llama-server that saves conversations.
func saver(url string) saved.Server { return llama.New(url) }

// llamas queries llama-servers.
type llamas struct{}

func (llamas) Fetch(ctx context.Context, url string, work bool) (agents.Server, error) {
	return llama.New(url).Fetch(ctx, work)
}

// otherExecutors creates the executors that threads may name beside the default; package threads/file lists the names.
func otherExecutors(f *factory) map[string]supervisor.Executor {
	all := make(map[string]supervisor.Executor)
	for _, row := range executors[1:] {
		all[row.name] = row.made(f)
	}
	return all
}

// forgeKind is a kind of forge. None of its functions makes a request.
type forgeKind struct {
	client func(forgeOptions) (supervisor.Forge, error)
	// desk returns the access for the built-in agent's sessions, with the rights of a token.
	desk func(address, token string) session.Desk
	// api returns the base URL of a repository in the API, $FORGE_API of an agent's program.
	api func(address, repo string) string
}

// forgeOptions are the options for a client of any kind.
type forgeOptions struct {
	config   *threads.Config        // has the [forge] of the client
	current  func() *threads.Config // returns the current configuration, after reloads; never nil
	instance func() string          // returns the instance id for claims
	// boot identifies this process in claims, which it makes after since.
	boot  string
	since time.Time
	// observe is called after each request.
	observe func(route string, status int, took time.Duration)
}

func newForgejoDesk(address, token string) session.Desk { return forgejo.NewDesk(address, token) }

func newForgejo(o forgeOptions) (supervisor.Forge, error) {
	var claims *forgejo.Claims
	if !o.config.Forge.ClaimSingle {
		claims = &forgejo.Claims{
			Instance: o.instance, Boot: o.boot, Since: o.since, Host: cmp.Or(hostName(), "a host without a name"),
			Longest: func() time.Duration { return longestSession(o.current()) },
		}
	}
	return forgejo.New(forgejo.Options{
		URL: o.config.Forge.URL, Token: o.config.Forge.Token.Reveal(), Repos: o.config.Forge.Repos,
		Ours:          func(login string) bool { return hasAgent(o.current(), login) },
		Bots:          func(login string) bool { return hasBot(o.current(), login) },
		Labels:        func() []string { return roleLabels(o.current()) },
		Moves:         func() bool { return o.current().Fleet.Hub },
		LacksLFS:      func() bool { return lacksLFS(o.current(), os.Environ()) },
		RequireMerged: o.config.Forge.RequireMerged, Claims: claims, Observe: o.observe,
	})
}

// roleLabels returns the labels that roles ask for.
func roleLabels(c *threads.Config) (names []string) {
	for i := range c.Roles {
		if l := c.Roles[i].Label; l != "" {
			names = append(names, l)
		}
	}
	return names
}

// hasAgent and hasBot ignore the case of logins, as the forge does. Otherwise an agent whose login has another case in
// the configuration would count as a person, whose comments are commands.
func hasAgent(c *threads.Config, login string) bool {
	return slices.ContainsFunc(c.Agents, func(a agents.Agent) bool { return strings.EqualFold(a.Login, login) })
}

func hasBot(c *threads.Config, login string) bool {
	return slices.ContainsFunc(c.Forge.Bots, func(bot string) bool { return strings.EqualFold(bot, login) })
}

// hostName returns the name of this machine; empty if it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// longestSession returns the longest time that a session of any role can take.
func longestSession(config *threads.Config) time.Duration {
	var most time.Duration
	for i := range config.Roles {
		most = max(most, config.Roles[i].Timeout)
	}
	return most + config.Factory.StopGrace
}

// newForge returns a client that makes no claims.
func newForge(c *cli, config *threads.Config) (supervisor.Forge, error) {
	kind, err := forges.choose("DISINTO_FORGE", c.lookup)
	if err != nil {
		return nil, err
	}
	return kind.client(forgeOptions{
		config: config, current: func() *threads.Config { return config }, instance: func() string { return "" },
	})
}
