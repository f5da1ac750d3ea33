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

// executors are the ways to run sessions. The first runs those of threads that name no executor, unless
// $DISINTO_EXECUTOR names another one for them. Only a carrier can be upgraded in place, and only a hurrier can cut the
// grace of sessions short.
var executors = registry[func(*factory) supervisor.Executor]{
	{"process", newProcesses},
	{"nomad", newNomad},
}

// forges are the kinds of forges. The first is used unless $DISINTO_FORGE names another. disinto check looks at the
// labels only of an inspector, and at the web hooks only of a hooker.
var forges = registry[forgeKind]{
	{"forgejo", forgeKind{newForgejo, newForgejoDesk, forgejo.APIAddress}},
}

// registry has what there is of one sort, by name.
type registry[T any] []struct {
	name string
	made T
}

// choose returns the one that a variable of the environment names, and the first where it is not set.
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

// hurrier is an executor that can end its sessions without their grace. Hurry may be called more than once.
type hurrier interface{ Hurry() }

// confiner is an executor that keeps sessions in sandboxes, and tells their processes from others.
type confiner interface{ Confined(pid int) bool }

// carrier is an executor whose sessions an upgrade in place leaves running.
type carrier interface {
	// Detach stops following sessions, and says what the next image needs to follow them. resume takes that back.
	Detach() (h *process.Handover, resume func(), err error)
	// Peek says the same of some runs, and detaches nothing.
	Peek(runs []string) *process.Handover
	// Inherit is called before the first Run: sessions of the last image go on.
	Inherit(h *process.Handover)
}

func newProcesses(f *factory) supervisor.Executor { return newLocal(f) }

// newLocal runs programs on this machine: sessions, and services whatever runs the sessions.
func newLocal(f *factory) *process.Executor {
	return &process.Executor{
		Reaper: f.reaper, Secrets: f.secrets, Progress: progress,
		Ended: func(n int) {
			f.Log.Warn(fmt.Sprintf("ended %d processes that an earlier supervisor left behind", n))
		},
	}
}

// progress says how far the requests of a local server are.
func progress(ctx context.Context, url string) string { return llama.New(url).Progress(ctx) }

// saver is a llama-server that saves conversations.
func saver(url string) saved.Server { return llama.New(url) }

// llamas asks llama-servers.
type llamas struct{}

func (llamas) Look(ctx context.Context, url string, work bool) (agents.Server, error) {
	return llama.New(url).Look(ctx, work)
}

// elsewhere makes the executors that threads may name.
func elsewhere(f *factory) map[string]supervisor.Executor {
	all := make(map[string]supervisor.Executor)
	for _, row := range executors[1:] {
		all[row.name] = row.made(f)
	}
	return all
}

// forgeKind is a kind of forge. None of its functions makes a request.
type forgeKind struct {
	client func(forgeOptions) (supervisor.Forge, error)
	// desk makes the access of the built-in agent's sessions, as the account of a token.
	desk func(address, token string) session.Desk
	// api is where a repository's part of the API begins: $FORGE_API of an agent's program.
	api func(address, repo string) string
}

// forgeOptions are for a client of any kind.
type forgeOptions struct {
	config   *threads.Config        // whose [forge] the client is for
	current  func() *threads.Config // in force, so that a reload counts; never nil
	instance func() string          // in whose name claims are made
	// observe is called with each request.
	observe func(route string, status int, took time.Duration)
}

func newForgejoDesk(address, token string) session.Desk { return forgejo.NewDesk(address, token) }

func newForgejo(o forgeOptions) (supervisor.Forge, error) {
	var claims *forgejo.Claims
	if !o.config.Forge.ClaimSingle {
		claims = &forgejo.Claims{
			Instance: o.instance, Host: cmp.Or(hostName(), "a host without a name"),
			Longest: func() time.Duration { return longestSession(o.current()) },
		}
	}
	return forgejo.New(forgejo.Options{
		URL: o.config.Forge.URL, Token: o.config.Forge.Token.Reveal(), Repos: o.config.Forge.Repos,
		Ours:          func(login string) bool { return hasAgent(o.current(), login) },
		Bots:          func(login string) bool { return hasBot(o.current(), login) },
		Moves:         func() bool { return o.current().Fleet.Hub },
		RequireMerged: o.config.Forge.RequireMerged, Claims: claims, Observe: o.observe,
	})
}

// hasAgent and hasBot compare as the forge does, for which a login has no case: an agent that the configuration spells
// in another one is no person, whose comments would command.
func hasAgent(c *threads.Config, login string) bool {
	return slices.ContainsFunc(c.Agents, func(a agents.Agent) bool { return strings.EqualFold(a.Login, login) })
}

func hasBot(c *threads.Config, login string) bool {
	return slices.ContainsFunc(c.Forge.Bots, func(bot string) bool { return strings.EqualFold(bot, login) })
}

// hostName is the name of this machine; empty where it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// longestSession is the longest time that a session of any role may take.
func longestSession(config *threads.Config) time.Duration {
	var most time.Duration
	for i := range config.Roles {
		most = max(most, config.Roles[i].Timeout)
	}
	return most + config.Factory.StopGrace
}
