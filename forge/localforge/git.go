package localforge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Cmd is one command for Options.Run. Argv holds the program and its arguments, Env what is added to the environment
// the runner starts programs with. A nil Stdin is empty, a nil Stdout is thrown away.
type Cmd struct {
	Dir    string
	Env    []string
	Argv   []string
	Stdin  io.Reader
	Stdout io.Writer
}

// gitEnv excludes the git settings of the machine and the user: a rebase or a hook configured there would change the
// tests.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
}

// noCommit is git's name for the value of a ref that does not exist.
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

// exitCode is the exit status of a command, -1 if it did not run or was killed.
func exitCode(err error) int {
	var ended interface{ ExitCode() int }
	if errors.As(err, &ended) {
		return ended.ExitCode()
	}
	return -1
}

// signed is the environment with u as author and committer.
func signed(u *user) []string {
	name, mail := u.signature()
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail,
	}
}

// preReceive declines a push for the reason that the forge has put into the environment. Only a hook can refuse a push
// so that git shows the reason to the client.
const preReceive = `#!/bin/sh
[ -z "$LOCALFORGE_DECLINE" ] && exit 0
echo "Forgejo: $LOCALFORGE_DECLINE" >&2
exit 1
`

// initRepo makes the bare repository with the files that git init writes, which takes no process. An old one in its
// place is removed: its state ended with the process that made it.
func initRepo(r *repo) error {
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "hooks"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(r.dir, "HEAD"), []byte("ref: refs/heads/"+r.defaultBranch+"\n"), 0o644),
		os.WriteFile(filepath.Join(r.dir, "config"),
			[]byte("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"), 0o644),
		os.WriteFile(filepath.Join(r.dir, "hooks", "pre-receive"), []byte(preReceive), 0o755),
	)
}

// readRefs reads all refs of a repository, by full name, from git's files: a process for each push was a fifth of all
// processes. Callers hold the lock of the repository, so that no git changes them.
func readRefs(dir string) (map[string]string, error) {
	refs := map[string]string{}
	packed, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(packed)) {
		sha, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && len(sha) == len(noCommit) { // not a comment, or the object of a tag
			refs[name] = sha
		}
	}
	err = filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".lock") { // left by a git that was killed
			return err
		}
		sha, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		refs[filepath.ToSlash(name)] = strings.TrimSpace(string(sha))
		return err
	})
	return refs, err
}
