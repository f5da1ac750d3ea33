package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// tree is the worktree of one chain. All worktrees of an agent share a mirror of the repository.
//
// Every commit in a mirror that is not on the forge is reachable from a local branch or from refs/disinto/kept. Every
// pushed commit has a ref in refs/disinto/pushed, which alone proves the push after a squash merge.
type tree struct {
	git
	mirror, dir    string
	url            string // of the repository, without credentials
	agent, session string
	secrets        []agents.SecretVar // no push contains one
	made           []string           // files and folders that the repository's setup made; no push contains one
	// missingFiles returns those of some large files that the forge lacks; nil where nobody can ask it.
	missingFiles func(context.Context, []forge.LargeFile) ([]forge.LargeFile, error)
}

func newTree(run func(context.Context, agents.Cmd) error, w work, environ []string) *tree {
	return &tree{
		git: newGit(run, w, environ), mirror: w.mirrorPath(), dir: w.treePath(), url: w.repoURL(),
		agent: w.Agent, session: w.RunID, secrets: agents.Credentials(environ),
	}
}

// runGit runs git in the worktree.
func (t *tree) runGit(ctx context.Context, args ...string) (string, error) {
	return t.do(ctx, t.dir, args...)
}

// fetch updates the mirror, and creates it first if it is missing.
func (t *tree) fetch(ctx context.Context, more ...string) error {
	if err := t.restore(ctx); err != nil {
		return err
	}
	_ = os.RemoveAll(filepath.Join(t.mirror, "info", "exclude")) // of another session, which may have hidden everything
	args := []string{"fetch", "--quiet", "--prune", "--no-tags", t.url, "+refs/heads/*:" + remotes + "*"}
	_, err := t.ask(ctx, t.mirror, append(args, more...)...)
	return err
}

// commit returns the commit of a revision in the mirror, and "" if it does not exist.
func (t *tree) commit(ctx context.Context, rev string) string {
	sha, _ := t.do(ctx, t.mirror, "rev-parse", "--quiet", "--verify", rev+"^{commit}")
	return sha
}

// has reports whether the mirror contains a ref or a commit.
func (t *tree) has(ctx context.Context, rev string) bool { return t.commit(ctx, rev) != "" }

// checkout checks out a branch at a commit, or without a branch the commit alone. It overwrites the worktree, so save
// the worktree first.
func (t *tree) checkout(ctx context.Context, branch, at string) error {
	if _, err := t.do(ctx, t.mirror, "worktree", "prune"); err != nil {
		return err
	}
	place := []string{"--detach", at}
	if branch != "" {
		place = []string{"-B", branch, at}
	}
	if !t.exists(ctx) {
		if err := t.setAside(); err != nil {
			return err
		}
		// Without the branch, because git refuses one that another worktree has: the folder may have been moved.
		args := []string{"worktree", "add", "--quiet", "--force", "--no-checkout", "--detach", t.dir, at}
		if _, err := t.do(ctx, t.mirror, args...); err != nil {
			return err
		}
	}
	err := t.scrub(ctx, place)
	if err != nil {
		makeWritable(t.dir)
		err = t.scrub(ctx, place)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	// What nobody can clean must not stop every session to come.
	if moved := os.Rename(t.dir, t.asideName()); moved != nil {
		return err
	}
	return t.checkout(ctx, branch, at)
}

// scrub checks a place out in an existing worktree, without any change of an earlier session.
func (t *tree) scrub(ctx context.Context, place []string) error {
	_, _ = t.runGit(ctx, "rebase", "--quit") // fails if no rebase is in progress
	t.showHidden(ctx)
	for _, args := range [][]string{
		{"reset", "--quiet", "--hard"},
		append([]string{"checkout", "--quiet", "--force", "--ignore-other-worktrees"}, place...),
		{"clean", "--quiet", "-ffd"}, // keeps ignored files: caches and dependencies
	} {
		if _, err := t.runGit(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// showHidden forgets which files the index hides from git, such as those outside a sparse checkout of an earlier
// session. A checkout would not write them.
func (t *tree) showHidden(ctx context.Context) {
	files, err := t.runGit(ctx, "ls-files", "-v")
	if err != nil || !hidden.MatchString(files) {
		return
	}
	if dir, err := t.runGit(ctx, "rev-parse", "--absolute-git-dir"); err == nil {
		_ = os.Remove(filepath.Join(dir, "index"))
	}
}

// hidden matches a file that skip-worktree (S) or assume-unchanged (in lower case) hides, as ls-files -v lists it.
var hidden = regexp.MustCompile(`(?m)^[Sa-z] `)

// exists reports whether the worktree exists and belongs to this mirror.
func (t *tree) exists(ctx context.Context) bool {
	if _, err := os.Stat(filepath.Join(t.dir, ".git")); err != nil {
		return false
	}
	common, err := t.runGit(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return false
	}
	mirror, err := filepath.EvalSymlinks(t.mirror)
	return err == nil && (common == mirror || common == t.mirror)
}

// setAside renames a folder that is in the worktree's place but is not a worktree, because it may contain work.
func (t *tree) setAside() error {
	err := os.Remove(t.dir) // fails unless the folder is empty
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.Rename(t.dir, t.asideName())
}

// commits counts the commits of a revision that another one does not contain.
func (t *tree) commits(ctx context.Context, since, rev string) (int, error) {
	out, err := t.runGit(ctx, "rev-list", "--count", since+".."+rev)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// push pushes HEAD to a branch, which must be at the commit expected, or must not exist if expected is empty. A CLI may
// rewrite its own commits, but the push never removes those of others.
func (t *tree) push(ctx context.Context, branch, expected string) error {
	head, err := t.runGit(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	return t.pushCommit(ctx, head, branch, expected)
}

// pushCommit pushes a commit as push does.
func (t *tree) pushCommit(ctx context.Context, commit, branch, expected string) error {
	if err := t.checkCommits(ctx, commit); err != nil {
		return err
	}
	if err := t.uploadLargeFiles(ctx, commit); err != nil {
		return err
	}
	ref := "refs/heads/" + branch
	_, err := t.ask(ctx, t.mirror, "push", "--quiet", "--force-with-lease="+ref+":"+expected, t.url, commit+":"+ref)
	if e, ok := errors.AsType[*gitFailure](err); ok {
		if no := refusalIn(e.said); no != nil {
			return no
		}
	}
	if err != nil {
		return err
	}
	if _, err := t.do(ctx, t.mirror, "update-ref", pushedRefs+commit[:16], commit); err != nil {
		return err
	}
	_, err = t.do(ctx, t.mirror, "update-ref", remotes+branch, commit) // as a fetch would
	return err
}

// forget deletes a ref of ours.
func (t *tree) forget(ctx context.Context, ref string) {
	_, _ = t.do(ctx, t.mirror, "update-ref", "-d", ref) // a missing one is forgotten
}
