package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An agent can do anything to its worktree: switch the branch, detach the head, delete .git or the whole folder, leave
// folders that nobody may write to. The functions here bring the worktree back, and lose no commit.

// mend restores the mirror, and makes the folder its worktree again if something in it deleted or replaced .git.
func (t *tree) mend(ctx context.Context) error {
	if _, err := os.Lstat(t.mirror); err != nil {
		return nil
	}
	if err := t.restore(ctx); err != nil {
		return err
	}
	if info, err := os.Stat(t.dir); err != nil || !info.IsDir() || t.exists(ctx) {
		return nil // checkout creates a missing one
	}
	if known, _ := t.do(ctx, t.mirror, "worktree", "list", "--porcelain"); !strings.Contains(known+"\n",
		"worktree "+t.dir+"\n") {
		return nil // checkout sets the folder aside
	}
	if _, err := os.Lstat(filepath.Join(t.dir, ".git")); err == nil { // somebody else's, perhaps with commits
		aside := t.asideName()
		if err := errors.Join(os.Mkdir(aside, 0o700),
			os.Rename(filepath.Join(t.dir, ".git"), filepath.Join(aside, ".git"))); err != nil {
			return fmt.Errorf("cannot set a repository aside: %w", err)
		}
	}
	_, err := t.do(ctx, t.mirror, "worktree", "repair")
	return err
}

// standOn brings HEAD back to the session's branch, if the CLI left it elsewhere. If both have commits that since does
// not contain, HEAD counts, and those of the branch are kept.
func (t *tree) standOn(ctx context.Context, branch, since string) error {
	ref := "refs/heads/" + branch
	if on, _ := t.runGit(ctx, "symbolic-ref", "--quiet", "HEAD"); on == ref || t.rebasing(ctx) {
		return nil
	}
	if mine := t.commit(ctx, ref); mine != "" && !t.contains(ctx, "HEAD", mine) {
		if err := t.keepCommit(ctx, mine); err != nil {
			return err
		}
		elsewhere, err := t.commits(ctx, since, "HEAD")
		if err != nil {
			return err
		}
		if here, err := t.commits(ctx, since, mine); err == nil && here > 0 && elsewhere == 0 {
			if _, err := t.runGit(ctx, "checkout", "--quiet", "--ignore-other-worktrees", branch); err == nil {
				return nil // with the uncommitted changes
			}
			return t.checkout(ctx, branch, mine) // without them: keep has kept them
		}
	}
	if _, err := t.runGit(ctx, "update-ref", ref, "HEAD"); err != nil {
		return err
	}
	_, err := t.runGit(ctx, "symbolic-ref", "HEAD", ref) // a checkout would end a merge
	return err
}

// rebasing reports whether a rebase is under way, during which HEAD is detached.
func (t *tree) rebasing(ctx context.Context) bool {
	dir, err := t.runGit(ctx, "rev-parse", "--absolute-git-dir")
	return err == nil && slices.ContainsFunc([]string{"rebase-merge", "rebase-apply"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// keepStrays keeps commits that were once checked out in the worktree, and that are on no branch any more.
func (t *tree) keepStrays(ctx context.Context) {
	const newest = "1000" // entries; a session makes tens of them
	once, err := t.runGit(ctx, "log", "--walk-reflogs", "--format=%H", "--max-count="+newest, "HEAD")
	if err != nil {
		return
	}
	args := []string{"rev-list", "--parents"}
	args = append(args, uniqueLines(once)...)
	args = append(args, "--not", "HEAD", "--branches", "--remotes", "--glob="+strings.TrimSuffix(pushedRefs, "/"),
		"--glob="+strings.TrimSuffix(keptRefs, "/"))
	out, err := t.runGit(ctx, args...)
	if err != nil {
		return
	}
	var list []string
	parents := map[string]bool{}
	for line := range strings.Lines(out) {
		commits := strings.Fields(line)
		list = append(list, commits[0])
		for _, parent := range commits[1:] {
			parents[parent] = true
		}
	}
	for _, commit := range list {
		if !parents[commit] {
			_ = t.keepCommit(ctx, commit)
		}
	}
}

func uniqueLines(text string) (list []string) {
	for line := range strings.Lines(text) {
		list = append(list, strings.TrimSpace(line))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// asideName returns a free name beside the worktree.
func (t *tree) asideName() string {
	for i := 1; ; i++ {
		aside := fmt.Sprintf("%s.set-aside-%d", t.dir, i)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside
		}
	}
}

// makeWritable lets the owner read and write everything in a folder. Go's module cache, for example, consists of
// folders in which nobody may delete a file.
func makeWritable(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := entry.Info()
		switch {
		case err != nil:
		case entry.IsDir() && info.Mode().Perm()&0o700 != 0o700:
			_ = os.Chmod(path, info.Mode().Perm()|0o700)
		case entry.Type().IsRegular() && info.Mode().Perm()&0o600 != 0o600:
			_ = os.Chmod(path, info.Mode().Perm()|0o600)
		}
		return nil
	})
}
