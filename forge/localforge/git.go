package localforge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Cmd is one command for Options.Run. Argv holds the program and its arguments,
// Env what is added to the environment the runner starts programs with. A nil
// Stdin is empty, a nil Stdout is thrown away.
type Cmd struct {
	Dir    string
	Env    []string
	Argv   []string
	Stdin  io.Reader
	Stdout io.Writer
}

// gitEnv keeps the machine's and the user's git settings away from the forge:
// a rebase or a hook configured there would change what is tested.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
}

// noCommit is how git names a ref that does not exist.
const noCommit = "0000000000000000000000000000000000000000"

// git runs one git command and returns what it printed, without the last line end.
func (f *Forge) git(ctx context.Context, dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := f.gitIO(ctx, Cmd{Dir: dir, Stdout: &out}, args...)
	return strings.TrimRight(out.String(), "\n"), err
}

// gitIO runs one git command with the streams and environment of cmd.
func (f *Forge) gitIO(ctx context.Context, cmd Cmd, args ...string) error {
	cmd.Argv = append([]string{"git"}, args...)
	cmd.Env = append(append([]string{}, gitEnv...), cmd.Env...)
	if err := f.opt.Run(ctx, cmd); err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	return nil
}

// exitCode is the status a command ended with, -1 if it did not run or was killed.
func exitCode(err error) int {
	var ended interface{ ExitCode() int }
	if errors.As(err, &ended) {
		return ended.ExitCode()
	}
	return -1
}

// signed is the environment that makes u author and committer.
func signed(u *user) []string {
	name, mail := u.signature()
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail,
	}
}

// preReceive declines a push whose reason to be declined the forge has found
// before. The hook is the only place where git lets a server say no so that
// the client shows it as such.
const preReceive = `#!/bin/sh
[ -z "$LOCALFORGE_DECLINE" ] && exit 0
echo "Forgejo: $LOCALFORGE_DECLINE" >&2
exit 1
`

// initRepo makes the bare repository. An old one in its place is removed: the
// state that belonged to it is gone with the process that made it.
func (f *Forge) initRepo(ctx context.Context, r *repo) error {
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if _, err := f.git(ctx, r.dir, "init", "--quiet", "--bare", "--template=", "--initial-branch="+r.defaultBranch, "."); err != nil {
		return err
	}
	hook := filepath.Join(r.dir, "hooks", "pre-receive")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		return err
	}
	return os.WriteFile(hook, []byte(preReceive), 0o755)
}

// readRefs reads all refs of a repository, by full name.
func (f *Forge) readRefs(ctx context.Context, dir string) (map[string]string, error) {
	out, err := f.git(ctx, dir, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(out) {
		if sha, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			refs[name] = sha
		}
	}
	return refs, nil
}
