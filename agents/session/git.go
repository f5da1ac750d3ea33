package session

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// git runs git as the agent. The token goes by way of the environment, for the forge's address only: arguments can be
// read by everybody on the machine, and a configuration file outlives the session.
type git struct {
	run     func(context.Context, Cmd) error
	environ []string
}

func newGit(run func(context.Context, Cmd) error, w work, environ []string) git {
	settings := [][2]string{
		{"http." + w.ForgeURL + "/.extraHeader", "Authorization: token " + w.Token},
		// What a repository's hooks are for is the CLI's own commits. Ours must not wait for a test suite.
		{"core.hooksPath", os.DevNull},
		{"gc.auto", "0"}, // would go on in the background, and be killed with the session
		{"maintenance.auto", "false"},
		{"advice.detachedHead", "false"},
	}
	env := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		return strings.HasPrefix(kv, "GIT_") && !strings.HasPrefix(kv, "GIT_AUTHOR_") && !strings.HasPrefix(kv, "GIT_COMMITTER_")
	})
	env = append(env, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "GIT_CEILING_DIRECTORIES="+w.Workspace, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return git{run, env}
}

// do runs git in a directory and returns what it printed, without the last newline. more are variables for this run.
func (g *git) do(ctx context.Context, dir string, more []string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	err := g.run(ctx, Cmd{
		Argv: append([]string{"git"}, args...), Dir: dir, Env: append(slices.Clone(g.environ), more...),
		Stdout: &out, Stderr: &complaint,
	})
	if err != nil {
		return "", gitError(args[0], err, complaint.String())
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// gitError is what git itself says, which is worth more than its exit code.
func gitError(command string, err error, words string) error {
	lines := strings.Split(strings.TrimSpace(words), "\n")
	for _, line := range lines { // hints come after the cause
		if strings.HasPrefix(line, "fatal:") || strings.HasPrefix(line, "error:") || strings.Contains(line, "rejected]") {
			return fmt.Errorf("git %s: %s", command, strings.TrimSpace(line))
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("git %s: %w: %s", command, err, last)
	}
	return fmt.Errorf("git %s: %w", command, err)
}
