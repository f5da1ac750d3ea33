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
	if co, err := r.store.commit(name); err == nil {
		return co.sha, nil
	}
	return f.git(ctx, r.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
}

// entryAt returns the object at a path of a commit, and its kind.
func (f *Forge) entryAt(ctx context.Context, r *repo, commit, path string) (sha, kind string, err error) {
	switch e, err := r.store.find(commit, path); {
	case err != nil || e.kind() == "commit":
	case e == entry{}:
		return "", "", fs.ErrNotExist
	default:
		return e.sha, e.kind(), nil
	}
	if sha, err = f.git(ctx, r.dir, "rev-parse", "--verify", "--quiet", commit+":"+path); err == nil {
		kind, err = f.git(ctx, r.dir, "cat-file", "-t", sha)
	}
	return sha, kind, err
}

// setRef moves a ref from old to sha. old is noCommit for a ref that must not exist, and "" for any state. Callers hold
// r.moving.
func (f *Forge) setRef(ctx context.Context, dir, ref, sha, old string) error {
	if writeRef(filepath.Join(dir, ref), sha, old, filepath.Join(dir, "packed-refs")) {
		return nil
	}
	args := []string{"update-ref", ref, sha}
	if old != "" {
		args = append(args, old)
	}
	_, err := f.git(ctx, dir, args...)
	return err
}

// writeRef is setRef without a process. It reports whether it moved the ref. If anything is unusual, it changes
// nothing.
func writeRef(file, sha, old, packed string) bool {
	if os.MkdirAll(filepath.Dir(file), 0o755) != nil {
		return false
	}
	lock, err := os.OpenFile(file+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false
	}
	was, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Lstat(packed); errors.Is(err, fs.ErrNotExist) {
			was, err = []byte(noCommit), nil
		} else {
			err = errAskGit
		}
	}
	if err == nil && old != "" && strings.TrimSpace(string(was)) != old {
		err = errAskGit
	}
	if err == nil {
		_, err = lock.WriteString(sha + "\n")
	}
	if err = errors.Join(err, lock.Close()); err == nil {
		err = os.Rename(lock.Name(), file)
	}
	if err != nil {
		_ = os.Remove(lock.Name())
	}
	return err == nil
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

// initRepo creates a bare repository with those files of git init that git needs, without a process. It first removes
// an older folder at the same path, because the state of that repository ended with its process. Without autogc, a push
// starts one git process less, which would only look for garbage.
func initRepo(r *repo) error {
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	for _, dir := range []string{"objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(r.dir, "HEAD"), []byte("ref: refs/heads/"+r.defaultBranch+"\n"), 0o644),
		os.WriteFile(filepath.Join(r.dir, "config"),
			[]byte("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"+
				"[receive]\n\tautogc = false\n"), 0o644),
	)
}

// readRefs reads all refs of a repository, by full name, from git's files. A git process for each push would be a fifth
// of all processes. Callers hold the repository's lock, so that no git process changes the refs.
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
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".lock") { // a lock file is left when git is killed
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
