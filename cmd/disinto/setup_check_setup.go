//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
)

// cloneTime is added to the time of a setup that is tried: its repository is cloned first.
const cloneTime = 10 * time.Minute

// runSetup runs the setup of a repository once, as a session of the first agent that can would, in empty folders.
func (k *checker) runSetup(ctx context.Context) {
	repo, err := k.config.Repo(k.setup)
	if err == nil && len(k.config.Room(repo).Setup.Argv) == 0 {
		err = fmt.Errorf("%s has no setup: set it in [repos.%q]", repo, repo)
	}
	if err != nil {
		k.addProblem("setup", err)
		return
	}
	config := localPart(k.config)
	for i := range config.Agents {
		a := &config.Agents[i]
		for _, name := range a.Roles {
			if r := config.Role(name); r != nil && r.BuiltIn() && r.On.Does(agents.KindIssue) && a.Token != "" {
				k.addProblem("setup", k.setUp(ctx, repo, a, r))
				return
			}
		}
	}
	k.addProblem("setup", errors.New("no agent with a token takes issues on this machine with the built-in program"))
}

func (k *checker) setUp(ctx context.Context, repo string, a *agents.Agent, r *agents.Role) error {
	reaper, err := newReaper()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "disinto-check-")
	if err != nil {
		return fmt.Errorf("cannot try the setup of %s: %w", repo, err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // another account passes through
		return fmt.Errorf("cannot try the setup of %s: %w", repo, err)
	}
	job := k.setupJob(repo, dir, a, r)
	out := (&process.Executor{Reaper: reaper}).Run(ctx, job, func(agents.Started) {})
	for i := range out.Steps {
		if s := &out.Steps[i]; !s.Failed() {
			k.addOK("setup", "%s as %s: %s, %.1f s", repo, a.Name, s.Command, s.Seconds)
		}
	}
	if out.Result != agents.Done {
		return fmt.Errorf("setup of %s fails as %s: %s\n%s", repo, a.Name, out.Reason, strings.TrimSpace(out.Tail))
	}
	return nil
}

func (k *checker) setupJob(repo, dir string, a *agents.Agent, r *agents.Role) agents.Job {
	at := func(name string) string { return filepath.Join(dir, name) }
	t, user := k.config.Thread(a.Thread), k.config.UserOf(a, r)
	env := &agents.Env{
		RunID: filepath.Base(dir), Agent: *a, Role: *r, Kind: agents.KindIssue, Repo: repo, Number: 1, Thread: t.Name,
		Backend: t.Backend, BaseURL: t.BaseURL, EnvAllow: t.EnvAllow, EnvDeny: t.EnvDeny, Secrets: k.config.Secrets,
		ForgeURL: strings.TrimSuffix(k.config.Forge.URL, "/"), Room: k.config.Room(repo), User: user,
		Home: at("home"), Tmp: at("tmp"), Workspace: at("work"), ResultPath: at("results/result.json"),
	}
	limit := env.Room.Setup.Timeout + cloneTime
	job := agents.Job{
		RunID: env.RunID, Agent: a.Name, Command: []string{r.Command[0], "agent", "--setup"}, Dir: env.Workspace,
		Home: env.Home, Tmp: env.Tmp, User: user, Root: r.Root, Limits: a.Limits, Sandbox: r.Sandbox, LogPath: at("log"),
		ResultPath: env.ResultPath, Timeout: limit, Stall: limit, Grace: time.Second,
	}
	job.Env, job.Secrets = env.Apart(agents.Environ(k.config.Environ(k.c.environ), env))
	if job.Sandbox.On() {
		job.Sandbox.Hide = append(slices.Clone(job.Sandbox.Hide), k.place.stateDir(k.c))
		job.Sandbox.Open(k.config.Forge.URL)
		job.Sandbox.Egress, job.Sandbox.SetupEgress = k.config.Egress(r, a, t, repo)
		job.Sandbox.Taken = k.config.TakenPorts()
	}
	return job
}
