package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// save pushes what is in the worktree and not on the forge to a branch of its own, and returns the branch; empty when
// there is nothing. The worktree stays as it is. A push that the forge refuses leaves the commit in the mirror, under
// refs/disinto/kept.
func (t *tree) save(ctx context.Context, why string) (branch string, err error) {
	if !t.there(ctx) {
		return "", nil
	}
	commit, err := t.snapshot(ctx, why)
	if err != nil {
		return "", fmt.Errorf("cannot save what is in the workspace: %w", err)
	}
	on, err := t.in(ctx, "rev-list", "--max-count=1", commit, "--not", "--remotes=origin", "--glob=refs/disinto/pushed")
	if err != nil || on == "" {
		return "", err
	}
	name, err := t.in(ctx, "rev-parse", "--abbrev-ref", "HEAD")
	if err != nil || name == "HEAD" {
		name = "detached"
	}
	branch = fmt.Sprintf("wip/%s/%s-%s", t.agent, strings.TrimPrefix(name, "fix/"), commit[:8])
	if _, err = t.in(ctx, "push", "--quiet", t.url, commit+":refs/heads/"+branch); err != nil {
		_, kept := t.in(ctx, "update-ref", "refs/disinto/kept/"+commit[:16], commit)
		if kept != nil {
			return "", fmt.Errorf("cannot save what is in the workspace: %w", kept)
		}
		return "refs/disinto/kept/" + commit[:16] + " of " + t.mirror, nil
	}
	return branch, t.pushed(ctx, commit)
}

// snapshot is a commit of the worktree as it is, with an index of its own: neither the branch nor what is staged changes.
// It is HEAD when there is nothing to commit.
func (t *tree) snapshot(ctx context.Context, why string) (string, error) {
	gitDir, err := t.in(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", err
	}
	index := filepath.Join(gitDir, "disinto-index")
	defer os.Remove(index)
	env := []string{"GIT_INDEX_FILE=" + index}
	var out string
	for _, args := range [][]string{
		{"read-tree", "HEAD"},
		{"add", "--all"},
		{"write-tree"},
	} {
		if out, err = t.do(ctx, t.dir, env, args...); err != nil {
			return "", err
		}
	}
	written, head := out, ""
	if head, err = t.in(ctx, "rev-parse", "HEAD"); err != nil {
		return "", err
	}
	before, err := t.in(ctx, "rev-parse", "HEAD^{tree}")
	if err != nil || before == written {
		return head, err
	}
	return t.in(ctx, "commit-tree", written, "-p", head, "-m", fmt.Sprintf("WIP of %s: %s\n\nRun %s.", t.agent, why, t.run))
}

// keepTrees is how many worktrees of a repository an agent keeps beside the one it is in, the youngest. One is
// about as large as the repository's files.
const keepTrees = 8

// tidy removes the worktrees of chains that are done, and the oldest beyond the limit: never one that has anything which
// is not on the forge. git itself refuses to remove one with files that it does not know.
func (t *tree) tidy(ctx context.Context, logf func(string, ...any)) {
	out, err := t.do(ctx, t.mirror, nil, "worktree", "list", "--porcelain")
	if err != nil {
		return
	}
	type other struct {
		dir string
		age int64
	}
	var others []other
	for line := range strings.Lines(out) {
		dir, ok := strings.CutPrefix(strings.TrimSpace(line), "worktree ")
		info, err := os.Stat(filepath.Join(filepath.Dir(dir), "session.json"))
		if ok && err == nil && dir != t.dir && dir != t.mirror {
			others = append(others, other{dir, info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(others, func(a, b other) int { return int(min(1, max(-1, b.age-a.age))) })
	for i, o := range others {
		if i < keepTrees && !t.merged(ctx, o.dir) || t.unsaved(ctx, o.dir) {
			continue
		}
		if _, err := t.do(ctx, t.mirror, nil, "worktree", "remove", o.dir); err == nil {
			logf("removed the worktree %s: it is on the forge", o.dir)
			for _, name := range []string{"session.json", "verdict.json", "answer.json", "lessons.md", ""} {
				_ = os.Remove(filepath.Join(filepath.Dir(o.dir), name)) // the folder itself only when it is empty then
			}
		}
	}
}

// merged reports whether the branch of a worktree is gone from the forge, where a merge takes it away.
func (t *tree) merged(ctx context.Context, dir string) bool {
	branch, err := t.do(ctx, dir, nil, "symbolic-ref", "--quiet", "--short", "HEAD")
	return err == nil && !t.has(ctx, "refs/remotes/origin/"+branch)
}

// unsaved reports whether a worktree has something that is not on the forge, or cannot be asked.
func (t *tree) unsaved(ctx context.Context, dir string) bool {
	dirty, err := t.do(ctx, dir, nil, "status", "--porcelain")
	if err != nil || dirty != "" {
		return true
	}
	on, err := t.do(ctx, dir, nil, "rev-list", "--max-count=1", "HEAD", "--not", "--remotes=origin", "--glob=refs/disinto/pushed")
	return err != nil || on != ""
}
