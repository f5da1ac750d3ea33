package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Save pushes the work in a workspace that is not on the forge to separate branches, because the workspace is about to
// be deleted. The result names the branches. The workspace can be any program's: a clone of the repository, a folder
// that contains clones, or neither.
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
	return p.leave(&w, &out)
}

func (p *Program) saveAll(ctx context.Context, w work) (branches []string, err error) {
	if err := newTree(p.Run, w, p.Environ).mend(ctx); err != nil {
		p.logf("cannot mend the worktree: %v", err)
	}
	dirs, err := worktrees(w.Workspace)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		t := newTree(p.Run, w, p.Environ)
		t.dir, t.session = dir, "" // the work is not of this run
		if !t.mayHoldWork(ctx, w.Repo) {
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

// saveForGood keeps the work in the mirror and pushes it, but no untracked files. It fails if the forge refuses. A
// retry creates the same commit, which is then on the forge.
func (t *tree) saveForGood(ctx context.Context) (where string, err error) {
	date, err := t.runGit(ctx, "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return "", err
	}
	t.environ = append(t.environ, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	t.made = t.lastSetup(ctx).Made
	s, err := t.snapshot(ctx, "its workspace is deleted")
	if err != nil {
		return "", fmt.Errorf("cannot save the workspace's changes: %w", err)
	}
	if err := t.restore(ctx); err != nil {
		return "", err
	}
	here := "" // files that are not tracked are on no branch
	if missing, err := t.notOnForge(ctx, t.dir, s.all); err == nil && missing && !t.has(ctx, keptRef(s.all)) {
		here = keptRef(s.all) + " of " + t.mirror
	}
	tips, err := t.runGit(ctx, "for-each-ref", "--format=%(objectname)", "refs/heads", "refs/stash")
	if err != nil {
		return "", err
	}
	for _, commit := range append(uniqueLines(tips), s.tracked, s.all) { // the folder may be a clone of its own
		if missing, err := t.notOnForge(ctx, t.dir, commit); err != nil || !missing {
			continue
		}
		if _, err := t.runGit(ctx, "push", "--quiet", t.mirror, "+"+commit+":"+keptRef(commit)); err != nil {
			return "", err
		}
	}
	if missing, err := t.notOnForge(ctx, t.dir, s.tracked); err != nil || !missing {
		return here, err
	}
	branch := t.wipBranch(ctx, s.tracked)
	err = t.pushCommit(ctx, s.tracked, branch, t.commit(ctx, remotes+branch))
	if found, ok := errors.AsType[*notForForge](err); ok {
		return here + " (" + found.Error() + ")", nil
	}
	if err != nil {
		return "", err
	}
	_, err = t.runGit(ctx, "update-ref", pushedRefs+s.tracked[:16], s.tracked)
	return branch, err
}

// worktrees returns the workspace and the folders in it that git created.
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

// mayHoldWork reports whether a worktree may contain work for the repository. A clone of another repository, such as a
// library, does not, nor does a worktree without a commit.
func (t *tree) mayHoldWork(ctx context.Context, repo string) bool {
	if _, err := t.runGit(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return false
	}
	if t.isOfMirror(ctx) { // the repository may have had another name
		return true
	}
	urls, err := t.runGit(ctx, "config", "--get-regexp", `^remote\..*\.url$`)
	if err != nil { // no remote: a repository that the agent created
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
