package session

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// git runs git as the agent. It passes the token in the environment, for the forge's address only: any account on the
// machine can read arguments, and a configuration file outlives the session.
type git struct {
	run     func(context.Context, agents.Cmd) error
	environ []string
	forge   string                      // the address of which a failure is the forge's
	answers func(context.Context) error // why the forge does not answer; nil where nobody can ask it
}

func newGit(run func(context.Context, agents.Cmd) error, w work, environ []string) git {
	settings := [][2]string{
		{"http." + w.ForgeURL + "/.extraHeader", authorization(w.Token)},
		// A repository's hooks are meant for the CLI's own commits. Our commits must not wait for a test suite.
		{"core.hooksPath", os.DevNull},
		{"core.fsmonitor", "false"},
		{"gc.auto", "0"}, // git would run it in the background and be killed with the session
		{"maintenance.auto", "false"},
		{"advice.detachedHead", "false"},
		{"diff.ignoreSubmodules", "dirty"},      // what an agent leaves within a submodule is in no commit of ours
		{"status.showUntrackedFiles", "normal"}, // an agent may have hidden them from itself
	}
	settings = append(settings, lfsSettings(w.repoURL())...)
	env := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		rest, found := strings.CutPrefix(entry, "GIT_")
		ours := func(prefix string) bool { return strings.HasPrefix(rest, prefix) }
		return found && !slices.ContainsFunc([]string{"AUTHOR_", "COMMITTER_", "HTTP_LOW_SPEED_"}, ours)
	})
	env = append(env, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "GIT_CEILING_DIRECTORIES="+w.Workspace,
		"GIT_NO_REPLACE_OBJECTS=1", // an agent's git replace changes what it sees, not what it pushes
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return git{run: run, environ: env, forge: w.ForgeURL}
}

// authorization returns the header with which git and git-lfs sign in. It has the token as a password: the git servers
// of Forgejo and Gitea also take "Authorization: token", but their Git LFS then knows no account, and Forgejo 10
// answered every upload with 500.
func authorization(token string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("token:"+token))
}

// do runs git in a directory and returns its output without the last newline.
func (g *git) do(ctx context.Context, dir string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	argv := append([]string{"git"}, args...)
	err := g.run(ctx, agents.Cmd{Argv: argv, Dir: dir, Env: g.environ, Stdout: &out, Stderr: &complaint})
	if err != nil {
		said := complaint.String()
		err = gitError(args[0], err, said)
		if unreachable(said, g.forge) {
			err = fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
		}
		return "", &gitFailure{err, said}
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// gitFailure is the error of a git command, with everything that it said.
type gitFailure struct {
	error
	said string
}

// Unwrap returns the error without what git said.
func (e *gitFailure) Unwrap() error { return e.error }

// gitError returns git's own message, which says more than its exit code.
func gitError(command string, err error, words string) error {
	lines := strings.Split(strings.TrimSpace(words), "\n")
	for _, line := range lines { // git prints hints after the cause
		if strings.HasPrefix(line, "fatal:") || strings.HasPrefix(line, "error:") || strings.Contains(line, "rejected]") {
			return fmt.Errorf("git %s: %s", command, strings.TrimSpace(line))
		}
	}
	return fmt.Errorf("git %s: %w%s", command, err, prefixed(": ", lines[len(lines)-1]))
}
