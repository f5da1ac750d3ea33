//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge/localforge"
)

// forgeGit returns the function that runs localforge's git commands as children of the reaper.
func forgeGit(r *process.Reaper, environ []string) func(context.Context, localforge.Cmd) error {
	return func(ctx context.Context, cmd localforge.Cmd) error {
		var complaint bytes.Buffer
		err := r.Run(ctx, process.Cmd{
			Argv: cmd.Argv, Dir: cmd.Dir, Env: withEnv(environ, cmd.Env),
			Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: &complaint,
		})
		return withStderr(err, complaint.String())
	}
}

// agentGit returns the function that runs a demo agent's git commands and returns their output.
func agentGit(r *process.Reaper, environ []string) func(context.Context, string, []string, ...string) (string, error) {
	return func(ctx context.Context, dir string, env []string, args ...string) (string, error) {
		var out, complaint bytes.Buffer
		err := r.Run(ctx, process.Cmd{
			Argv: append([]string{"git"}, args...), Dir: dir, Env: withEnv(environ, env), Stdout: &out, Stderr: &complaint,
		})
		return out.String(), withStderr(err, complaint.String())
	}
}

// sessionRun returns the function that runs a session's programs, git and the CLI.
func sessionRun(r *process.Reaper) func(context.Context, agents.Cmd) error {
	return func(ctx context.Context, cmd agents.Cmd) error { return r.Run(ctx, process.Cmd(cmd)) }
}

// withEnv adds variables to an environment and replaces those with the same names.
func withEnv(environ, more []string) []string { return agents.Setenv(environ, more) }

// withStderr adds a failed command's stderr to its error.
func withStderr(err error, words string) error {
	if err == nil || strings.TrimSpace(words) == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, screen.Clean(words))
}
