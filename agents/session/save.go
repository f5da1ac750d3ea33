package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Save pushes the work in a workspace that is not on the forge to branches of their own, because the workspace is about
// to be deleted. Its result names them. The workspace is that of any program: a clone of the repository, a folder with
// clones in it, or neither.
func (p *Program) Save(ctx context.Context) error {
	w, err := readWork(p.Environ)
	if err != nil {
		return err
	}
	out := agents.Outcome{Result: agents.Done}
	branches, err := p.saveAll(ctx, w)
	if len(branches) > 0 {
		out.Reason = "its work is on " + strings.Join(branches, " ")
	}
	if err != nil {
		out = agents.Outcome{Result: agents.Failed, Reason: err.Error()}
	}
	p.logf("%s%s", out.Result, prefixed(": ", out.Reason))
	text, err := agents.FormatResult(&out)
	if err == nil {
		err = writeFile(w.ResultPath, text)
	}
	if err != nil {
		return fmt.Errorf("cannot leave a result: %w", err)
	}
	return nil
}

func (p *Program) saveAll(ctx context.Context, w work) (branches []string, err error) {
	dirs, err := worktrees(w.Workspace)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		t := newTree(p.Run, w, p.Environ)
		t.dir, t.session = dir, "" // it is not the work of this run
		if !t.ours(ctx, w.Repo) {
			continue
		}
		branch, err := t.saveForGood(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if branch != "" {
			branches = append(branches, branch)
		}
	}
	return branches, nil
}

// saveForGood pushes what save would, and fails where the forge refuses. Tried again, it makes the same commit, which
// is then on the forge.
func (t *tree) saveForGood(ctx context.Context) (branch string, err error) {
	date, err := t.in(ctx, "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return "", err
	}
	t.environ = append(t.environ, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	commit, branch, err := t.unpushed(ctx, "its item is closed")
	if err != nil || branch == "" {
		return "", err
	}
	if _, err := t.in(ctx, "push", "--quiet", t.url, commit+":refs/heads/"+branch); err != nil {
		return "", err
	}
	return branch, t.pushed(ctx, commit)
}

// worktrees lists the workspace itself and the folders in it, those that git made.
func worktrees(workspace string) (dirs []string, err error) {
	entries, err := os.ReadDir(workspace)
	for _, name := range append([]string{"."}, names(entries)...) {
		dir := filepath.Join(workspace, name)
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs, err
}

func names(entries []os.DirEntry) (list []string) {
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// ours reports whether a worktree may have work for the repository: a clone of another one has not, such as that of a
// library. A worktree that has no commit has none either.
func (t *tree) ours(ctx context.Context, repo string) bool {
	if _, err := t.in(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return false
	}
	urls, err := t.in(ctx, "config", "--get-regexp", `^remote\..*\.url$`)
	if err != nil { // none: a worktree of a mirror, or a repository of the agent's own
		return true
	}
	for url := range strings.Lines(urls) {
		url = strings.TrimSuffix(strings.TrimSpace(url), ".git")
		if strings.HasSuffix(url, "/"+repo) || strings.HasSuffix(url, ":"+repo) {
			return true
		}
	}
	return false
}
