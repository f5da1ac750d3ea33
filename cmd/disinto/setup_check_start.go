//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/threads"
)

// versionTime bounds the start of an agent CLI. opencode needs 10 s at its first.
const versionTime = 30 * time.Second

// newReaper returns the reaper of a command that needs one. A process may have only one.
var newReaper = sync.OnceValues(process.NewReaper)

// starts runs each agent CLI with --version, in the sandbox of its role and under the account of its agents. A CLI that
// cannot start there would fail in every session.
func (k *checker) starts(ctx context.Context) {
	config := localPart(k.config)
	var executor *process.Executor
	for i := range config.Agents {
		a := &config.Agents[i]
		for _, name := range a.Roles {
			r := config.Role(name)
			if r == nil || r.CLI == "" {
				continue
			}
			user, program := config.UserOf(a, r), r.Program(r.Command)
			if process.CheckUser(user) != nil || k.tried(r, program, user) {
				continue
			}
			if _, err := process.Lookup(program, "", k.c.environ); err != nil {
				continue // programs reports it
			}
			if executor == nil {
				reaper, err := newReaper()
				if err != nil {
					k.addProblem("programs", err)
					return
				}
				executor = &process.Executor{Reaper: reaper}
			}
			version, err := k.start(ctx, executor, a, r, user)
			if err != nil {
				k.addProblem("programs", fmt.Errorf("role %s: %w", r.Name, err))
				continue
			}
			k.addOK("programs", "%s: %s starts%s: %s", r.Name, program, inSandbox(r), version)
		}
	}
}

func inSandbox(r *agents.Role) string {
	if r.Sandbox.On() {
		return " in its sandbox"
	}
	return ""
}

// tried reports whether a CLI was started in the same way before.
func (k *checker) tried(r *agents.Role, program, user string) bool {
	key := fmt.Sprintf("%s %s %v %+v", program, user, r.Root, r.Sandbox)
	if slices.Contains(k.started, key) {
		return true
	}
	k.started = append(k.started, key)
	return false
}

// start runs a CLI with --version as a session of the agent would, in empty folders, and returns what it says.
func (k *checker) start(
	ctx context.Context, executor *process.Executor, a *agents.Agent, r *agents.Role, user string,
) (version string, err error) {
	program := r.Program(r.Command)
	dir, err := os.MkdirTemp("", "disinto-check-")
	if err != nil {
		return "", fmt.Errorf("cannot try to start %s: %w", program, err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // another account passes through
		return "", fmt.Errorf("cannot try to start %s: %w", program, err)
	}
	t := cmp.Or(k.config.Thread(a.Thread), &threads.Thread{})
	env := &agents.Env{
		RunID: "check", Agent: *a, Role: *r, Thread: t.Name, Backend: t.Backend, BaseURL: t.BaseURL, EnvAllow: t.EnvAllow,
		EnvDeny: t.EnvDeny, Vars: t.Vars, Secrets: k.config.Secrets, Home: filepath.Join(dir, "home"),
		Tmp: filepath.Join(dir, "tmp"), Workspace: filepath.Join(dir, "work"), User: user,
	}
	job := agents.Job{
		RunID: filepath.Base(dir), Command: []string{program, "--version"}, Dir: env.Workspace,
		Home: env.Home, Tmp: env.Tmp, User: user, Root: r.Root, Sandbox: r.Sandbox, LogPath: filepath.Join(dir, "log"),
		Timeout: versionTime, Stall: versionTime, Grace: time.Second,
	}
	job.Env, job.Secrets = env.Apart(agents.Environ(k.config.Environ(k.c.environ), env))
	if state := k.place.stateDir(k.c); job.Sandbox.On() {
		job.Sandbox.Hide = append(slices.Clone(job.Sandbox.Hide), state)
	}
	out := executor.Run(ctx, job, func(agents.Started) {})
	if out.Result != agents.Done {
		return "", fmt.Errorf("%s does not start%s: %s: %s", program, inSandbox(r), out.Reason,
			session.LastWords(out.Tail))
	}
	lines := strings.Split(strings.TrimSpace(out.Tail), "\n")
	return lines[len(lines)-1], nil
}
