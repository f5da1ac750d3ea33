package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// save pushes the work in the worktree that is not on the forge to a separate branch, and returns the branch; "" if
// there is no such work. The worktree stays unchanged. If the forge refuses the push, the commit stays in the mirror,
// at refs/disinto/kept.
func (t *tree) save(ctx context.Context, why string) (branch string, err error) {
	if !t.exists(ctx) {
		return "", nil
	}
	commit, branch, err := t.unpushed(ctx, why)
	if err != nil || branch == "" {
		return "", err
	}
	if _, err = t.runGit(ctx, "push", "--quiet", t.url, commit+":refs/heads/"+branch); err != nil {
		ref := "refs/disinto/kept/" + commit[:16]
		if _, err := t.runGit(ctx, "update-ref", ref, commit); err != nil {
			return "", fmt.Errorf("cannot save the workspace's changes: %w", err)
		}
		return ref + " of " + t.mirror, nil
	}
	return branch, t.recordPushed(ctx, commit)
}

// unpushed commits the worktree, and returns the commit with the branch to push it to; "" if all of it is on the forge.
func (t *tree) unpushed(ctx context.Context, why string) (commit, branch string, err error) {
	if commit, err = t.snapshot(ctx, why); err != nil {
		return "", "", fmt.Errorf("cannot save the workspace's changes: %w", err)
	}
	if missing, err := t.notOnForge(ctx, t.dir, commit); err != nil || !missing {
		return "", "", err
	}
	name, err := t.runGit(ctx, "rev-parse", "--abbrev-ref", "HEAD")
	if err != nil || name == "HEAD" {
		name = "detached"
	}
	return commit, fmt.Sprintf("wip/%s/%s-%s", t.agent, strings.TrimPrefix(name, "fix/"), commit[:8]), nil
}

// notOnForge reports whether a commit was never pushed.
func (t *tree) notOnForge(ctx context.Context, dir, commit string) (bool, error) {
	on, err := t.do(ctx, dir,
		"rev-list", "--max-count=1", commit, "--not", "--remotes", "--glob=refs/disinto/pushed")
	return on != "", err
}

// snapshot commits the worktree with a separate index, so that neither the branch nor the index changes. It returns
// HEAD if there is nothing to commit.
func (t *tree) snapshot(ctx context.Context, why string) (string, error) {
	gitDir, err := t.runGit(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", err
	}
	index := filepath.Join(gitDir, "disinto-index")
	defer os.Remove(index)
	indexed := git{t.run, append(slices.Clone(t.environ), "GIT_INDEX_FILE="+index)}
	written := "" // output of the last command
	for _, args := range [][]string{{"read-tree", "HEAD"}, {"add", "--all"}, {"write-tree"}} {
		if written, err = indexed.do(ctx, t.dir, args...); err != nil {
			return "", err
		}
	}
	head, err := t.runGit(ctx, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	before, err := t.runGit(ctx, "rev-parse", "HEAD^{tree}")
	if err != nil || before == written {
		return head, err
	}
	message := fmt.Sprintf("WIP of %s: %s", t.agent, why)
	if t.session != "" {
		message += fmt.Sprintf("\n\nRun %s.", t.session)
	}
	return t.runGit(ctx, "commit-tree", written, "-p", head, "-m", message)
}

// keepTrees is how many unused worktrees of a repository an agent keeps. The newest are kept, and each occupies as
// much space as the repository's files.
const keepTrees = 8

// leftFiles are the files beside a chain's worktree. The last entry is the folder itself, which is removed if empty.
var leftFiles = []string{"session.json", "prompt.md", "verdict.json", "answer.json", "lessons.md", ""}

// tidy removes the worktrees of finished chains, and the oldest beyond keepTrees, but none with work that is not on the
// forge. git itself refuses to remove a worktree with untracked files.
func (t *tree) tidy(ctx context.Context, logf func(string, ...any)) {
	out, err := t.do(ctx, t.mirror, "worktree", "list", "--porcelain")
	if err != nil {
		return
	}
	type other struct {
		dir     string
		written int64
	}
	var others []other
	for line := range strings.Lines(out) {
		dir, ok := strings.CutPrefix(strings.TrimSpace(line), "worktree ")
		info, err := os.Stat(filepath.Join(filepath.Dir(dir), "session.json"))
		if ok && err == nil && dir != t.dir && dir != t.mirror {
			others = append(others, other{dir, info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(others, func(a, b other) int { return cmp.Compare(b.written, a.written) })
	for i, o := range others {
		if i < keepTrees && !t.merged(ctx, o.dir) || t.unsaved(ctx, o.dir) {
			continue
		}
		if _, err := t.do(ctx, t.mirror, "worktree", "remove", o.dir); err == nil {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(o.dir), "aside"))
			logf("removed the worktree %s: it is on the forge", o.dir)
			for _, name := range leftFiles {
				_ = os.Remove(filepath.Join(filepath.Dir(o.dir), name))
			}
		}
	}
}

// merged reports whether the branch of a worktree has disappeared from the forge, as after a merge.
func (t *tree) merged(ctx context.Context, dir string) bool {
	branch, err := t.do(ctx, dir, "symbolic-ref", "--quiet", "--short", "HEAD")
	return err == nil && !t.has(ctx, remotes+branch)
}

// unsaved reports whether a worktree may contain work that is not on the forge.
func (t *tree) unsaved(ctx context.Context, dir string) bool {
	dirty, err := t.do(ctx, dir, "status", "--porcelain")
	if err != nil || dirty != "" {
		return true
	}
	missing, err := t.notOnForge(ctx, dir, "HEAD")
	return err != nil || missing
}
