package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree is the worktree of one chain, on a mirror that all worktrees of the agent on the repository share.
//
// Everything in a mirror that is not on the forge yet is reachable from a local branch or from refs/disinto/, and every
// commit that was pushed is under refs/disinto/pushed: after a squash merge nothing else would say so.
type tree struct {
	git
	mirror, dir string
	url         string // of the repository, without credentials
	agent, run  string
	begun       string // the commit that the CLI started from
}

func newTree(run func(context.Context, Cmd) error, w work, environ []string) *tree {
	return &tree{
		git: newGit(run, w, environ), mirror: w.mirrorPath(), dir: w.treePath(), url: w.ForgeURL + "/" + w.Repo + ".git",
		agent: w.Agent, run: w.RunID,
	}
}

// in runs git in the worktree.
func (t *tree) in(ctx context.Context, args ...string) (string, error) {
	return t.do(ctx, t.dir, nil, args...)
}

// fetch brings the mirror up to date, and makes it first if need be.
func (t *tree) fetch(ctx context.Context, more ...string) error {
	if _, err := os.Stat(filepath.Join(t.mirror, "config")); err != nil {
		if err := os.MkdirAll(t.mirror, 0o700); err != nil {
			return err
		}
		if _, err := t.do(ctx, t.mirror, nil, "init", "--quiet", "--bare", "."); err != nil {
			return err
		}
	}
	t.unlock()
	args := append([]string{"fetch", "--quiet", "--prune", "--no-tags", t.url, "+refs/heads/*:refs/remotes/origin/*"}, more...)
	_, err := t.do(ctx, t.mirror, nil, args...)
	return err
}

// unlock removes the locks of a git that was killed. Nobody else is at work in the mirror: an agent has one session at
// a time, and every process of the one before is gone.
func (t *tree) unlock() {
	_ = filepath.WalkDir(t.mirror, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case entry.IsDir() && entry.Name() == "objects":
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, ".lock"):
			_ = os.Remove(path)
		}
		return nil
	})
}

// has reports whether the mirror has a ref or a commit.
func (t *tree) has(ctx context.Context, rev string) bool {
	_, err := t.do(ctx, t.mirror, nil, "rev-parse", "--quiet", "--verify", rev+"^{commit}")
	return err == nil
}

// checkout puts the worktree on a branch at a commit; without a branch, on the commit alone. What an earlier session
// left there has to be saved before.
func (t *tree) checkout(ctx context.Context, branch, at string) error {
	if _, err := t.do(ctx, t.mirror, nil, "worktree", "prune"); err != nil {
		return err
	}
	place := []string{"--detach", at}
	if branch != "" {
		place = []string{"-B", branch, at}
	}
	if !t.there(ctx) {
		if err := t.setAside(); err != nil {
			return err
		}
		args := append([]string{"worktree", "add", "--quiet", "--force"}, place[:len(place)-1]...)
		if _, err := t.do(ctx, t.mirror, nil, append(args, t.dir, at)...); err != nil {
			return err
		}
	} else {
		_, _ = t.in(ctx, "rebase", "--quit") // usually there is none
		for _, args := range [][]string{
			{"reset", "--quiet", "--hard"},
			append([]string{"checkout", "--quiet", "--force", "--ignore-other-worktrees"}, place...),
			{"clean", "--quiet", "-ffd"}, // but not what is ignored: caches and dependencies are worth keeping
		} {
			if _, err := t.in(ctx, args...); err != nil {
				return err
			}
		}
	}
	return t.begin(ctx)
}

// begin notes where the CLI starts from.
func (t *tree) begin(ctx context.Context) (err error) {
	t.begun, err = t.in(ctx, "rev-parse", "HEAD")
	return err
}

// there reports whether the worktree can be used: it is there, and it is this mirror's.
func (t *tree) there(ctx context.Context) bool {
	if _, err := os.Stat(filepath.Join(t.dir, ".git")); err != nil {
		return false
	}
	common, err := t.in(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return false
	}
	mirror, err := filepath.EvalSymlinks(t.mirror)
	return err == nil && (common == mirror || common == t.mirror)
}

// setAside moves away what stands where the worktree will be and is none. It may hold somebody's work.
func (t *tree) setAside() error {
	err := os.Remove(t.dir) // empty is nothing
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := 1; ; i++ {
		aside := fmt.Sprintf("%s.set-aside-%d", t.dir, i)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(t.dir, aside)
		}
	}
}

// commits counts what is on the branch beyond a revision.
func (t *tree) commits(ctx context.Context, since string) (int, error) {
	out, err := t.in(ctx, "rev-list", "--count", since+"..HEAD")
	if err != nil {
		return 0, err
	}
	var n int
	_, err = fmt.Sscan(out, &n)
	return n, err
}

// dirty reports whether there is anything uncommitted that is not ignored.
func (t *tree) dirty(ctx context.Context) (bool, error) {
	out, err := t.in(ctx, "status", "--porcelain")
	return out != "", err
}

// commitAll commits what the CLI has left uncommitted. Small models forget to commit.
func (t *tree) commitAll(ctx context.Context, message string) error {
	dirty, err := t.dirty(ctx)
	if err != nil || !dirty {
		return err
	}
	if _, err := t.in(ctx, "add", "--all"); err != nil {
		return err
	}
	_, err = t.in(ctx, "commit", "--quiet", "--no-verify", "-m", message)
	return err
}

// push brings HEAD to a branch of the forge. The branch must still be at expected, which is empty for one that is new: a
// CLI may have rewritten its own commits, but nobody else's are ever lost.
func (t *tree) push(ctx context.Context, branch, expected string) error {
	_, err := t.in(ctx, "push", "--quiet", "--force-with-lease=refs/heads/"+branch+":"+expected, t.url, "HEAD:refs/heads/"+branch)
	if err != nil {
		return err
	}
	return t.pushed(ctx, "HEAD")
}

// pushed notes that a commit is on the forge.
func (t *tree) pushed(ctx context.Context, rev string) error {
	sha, err := t.in(ctx, "rev-parse", rev)
	if err == nil {
		_, err = t.in(ctx, "update-ref", "refs/disinto/pushed/"+sha[:16], sha)
	}
	return err
}

// stands reports whether the worktree is on a branch, and has everything that is at a commit.
func (t *tree) stands(ctx context.Context, branch, at string) bool {
	if branch == "" || !t.there(ctx) {
		return false
	}
	on, err := t.in(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil || on != branch {
		return false
	}
	_, err = t.in(ctx, "merge-base", "--is-ancestor", at, "HEAD")
	return err == nil
}
