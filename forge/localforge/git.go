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

// Cmd is one command for Options.Run. Argv is the program and its arguments. Env is added to the environment that the
// runner gives to programs. A nil Stdin is empty; with a nil Stdout the output is discarded.
type Cmd struct {
	Dir    string
	Env    []string
	Argv   []string
	Stdin  io.Reader
	Stdout io.Writer
}

// gitEnv excludes the git settings of the machine and the user: a rebase or a hook configured there would change test
// results.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
}

// noCommit is git's notation for the value of a ref that does not exist.
const noCommit = "0000000000000000000000000000000000000000"

// git runs one git command and returns its output without trailing line ends.
func (f *Forge) git(ctx context.Context, dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := f.gitIO(ctx, Cmd{Dir: dir, Stdout: &out}, args...)
	return strings.TrimRight(out.String(), "\n"), err
}

// gitIO runs one git command with the directory, streams and environment of cmd.
func (f *Forge) gitIO(ctx context.Context, cmd Cmd, args ...string) error {
	cmd.Argv = append([]string{"git"}, args...)
	cmd.Env = append(append([]string{}, gitEnv...), cmd.Env...)
	if err := f.opt.Run(ctx, cmd); err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	return nil
}

// commitOf returns the full name of the commit that a name stands for.
func (f *Forge) commitOf(ctx context.Context, r *repo, name string) (string, error) {
	return f.git(ctx, r.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
}

// blobOf returns the hash of the object at a path of a commit.
func (f *Forge) blobOf(ctx context.Context, r *repo, commit, path string) (string, error) {
	return f.git(ctx, r.dir, "rev-parse", "--verify", "--quiet", commit+":"+path)
}

// exitCode returns the exit status of a command; -1 if it succeeded, did not run, or was killed.
func exitCode(err error) int {
	var ended interface{ ExitCode() int }
	if errors.As(err, &ended) {
		return ended.ExitCode()
	}
	return -1
}

// signed returns the environment that makes u author and committer.
func signed(u *user) []string {
	name, mail := u.signature()
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail,
	}
}

// preReceive rejects a push if the forge put a reason into the environment. Only a hook can reject a push so that git
// shows the reason to the client.
const preReceive = `#!/bin/sh
[ -z "$LOCALFORGE_DECLINE" ] && exit 0
echo "Forgejo: $LOCALFORGE_DECLINE" >&2
exit 1
`

// writeHook writes the hook that rejects a push, which few repositories need.
func (r *repo) writeHook() error {
	dir := filepath.Join(r.dir, "hooks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pre-receive"), []byte(preReceive), 0o755)
}

// initRepo creates a bare repository. It first removes an older folder at the same path, because the state of that
// repository ended with its process.
func (f *Forge) initRepo(ctx context.Context, r *repo) error {
	if err := errors.Join(os.RemoveAll(r.dir), os.MkdirAll(r.dir, 0o755)); err != nil {
		return err
	}
	_, err := f.git(ctx, r.dir, "init", "--quiet", "--bare", "--template=", "--initial-branch="+r.defaultBranch)
	return err
}

// readRefs returns the object of each ref of a repository, by full name. Callers hold the repository's lock, so that no
// git process changes the refs.
func (f *Forge) readRefs(ctx context.Context, r *repo) (map[string]string, error) {
	out, err := f.git(ctx, r.dir, "for-each-ref", "--format=%(objectname) %(refname)")
	refs := map[string]string{}
	for line := range strings.Lines(out) {
		sha, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		refs[name] = sha
	}
	return refs, err
}
