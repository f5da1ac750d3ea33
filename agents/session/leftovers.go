package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// The refs of a mirror that are ours. None of them is ever pushed under its name.
const (
	// keptRefs has a commit for all work that was about to be overwritten or left behind, named after the commit.
	keptRefs = "refs/disinto/kept/"
	// stoppedRefs has, for each branch, the work of a session that ended before its work was handed in.
	stoppedRefs = "refs/disinto/stopped/"
	// unpushedRefs has, for each branch, the work that the forge did not accept yet.
	unpushedRefs = "refs/disinto/unpushed/"
	// pushedRefs has the commits that are on the forge.
	pushedRefs = "refs/disinto/pushed/"
)

// snapshot is the content of a worktree as commits.
type snapshot struct {
	head    string
	tracked string // head and the changes of tracked files; equals head if there are none
	all     string // tracked and the untracked files, without ignored ones; equals tracked if there are none
}

// keep saves everything in the worktree that is not on the forge in the mirror, under refs/disinto/kept, and changes
// neither the worktree nor a branch. It returns nil if there is nothing to keep.
func (t *tree) keep(ctx context.Context, why string) (*snapshot, error) {
	if !t.exists(ctx) {
		return nil, nil
	}
	t.keepStrays(ctx)
	s, err := t.snapshot(ctx, why)
	if err != nil {
		return nil, fmt.Errorf("cannot save the workspace's changes: %w", err)
	}
	if missing, err := t.notOnForge(ctx, t.dir, s.all); err != nil || !missing {
		return nil, err
	}
	return s, t.keepCommit(ctx, s.all)
}

// keepCommit makes a commit reachable for good.
func (t *tree) keepCommit(ctx context.Context, commit string) error {
	if _, err := t.runGit(ctx, "update-ref", keptRef(commit), commit); err != nil {
		return fmt.Errorf("cannot save the workspace's changes: %w", err)
	}
	return nil
}

func keptRef(commit string) string { return keptRefs + commit[:16] }

// wipBranch returns the branch for work that cannot be pushed to its own.
func (t *tree) wipBranch(ctx context.Context, commit string) string {
	name, err := t.runGit(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		name = "detached"
	}
	return fmt.Sprintf("wip/%s/%s-%s", t.agent, strings.TrimPrefix(name, "fix/"), commit[:8])
}

// notOnForge reports whether a commit was never pushed.
func (t *tree) notOnForge(ctx context.Context, dir, commit string) (bool, error) {
	on, err := t.do(ctx, dir,
		"rev-list", "--max-count=1", commit, "--not", "--remotes", "--glob="+strings.TrimSuffix(pushedRefs, "/"))
	return on != "", err
}

// snapshot commits the worktree with a separate index, so that neither the branch nor the index changes. Files that git
// cannot read are left out.
func (t *tree) snapshot(ctx context.Context, why string) (*snapshot, error) {
	gitDir, err := t.runGit(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, err
	}
	index := filepath.Join(gitDir, "disinto-index")
	defer os.Remove(index)
	indexed := git{run: t.run, environ: append(slices.Clone(t.environ), "GIT_INDEX_FILE="+index), forge: t.forge}
	// The copy knows which files are unchanged. Without it git would read all of them, in the seconds after a signal.
	if text, err := plainfile.Read(filepath.Join(gitDir, "index"), maxIndex); err != nil || writeFile(index, text) != nil {
		if _, err := indexed.do(ctx, t.dir, "read-tree", "HEAD"); err != nil {
			return nil, err
		}
	}
	s := &snapshot{}
	if s.head, err = t.runGit(ctx, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	message := fmt.Sprintf("%s%s: %s", wipSubject, t.agent, firstWords(why))
	if t.session != "" {
		message += fmt.Sprintf("\n\nRun %s.", t.session)
	}
	s.tracked, err = indexed.commitIndex(ctx, t.dir, s.head, message, "--update")
	if err == nil {
		s.all, err = indexed.commitIndex(ctx, t.dir, s.tracked, message, "--all")
	}
	return s, err
}

// maxIndex is the largest index that is copied, in bytes: that of about 5 million files.
const maxIndex = 512 << 20

// wipSubject begins the subject of every commit that a snapshot makes.
const wipSubject = "WIP of "

// commitIndex adds files to the index and commits it. It returns the parent if that has the same files.
func (g *git) commitIndex(ctx context.Context, dir, parent, message, which string) (string, error) {
	_, added := g.do(ctx, dir, "add", which, "--ignore-errors", ".") // fails for a file that it cannot read
	written, err := g.do(ctx, dir, "write-tree")
	if err != nil {
		return "", cmp.Or(added, err)
	}
	before, err := g.do(ctx, dir, "rev-parse", parent+"^{tree}")
	if err != nil || before == written {
		return parent, err
	}
	return g.do(ctx, dir, "commit-tree", written, "-p", parent, "-m", message)
}

// keepTrees is how many unused worktrees of a repository an agent keeps. The newest are kept, and each occupies as
// much space as the repository's files.
const keepTrees = 8

// keptMost is how many commits of refs/disinto/kept a mirror has, the newest. Only a person looks for them.
const keptMost = 1000

// pruneKept deletes the oldest refs beyond keptMost, a hundred at most.
func (t *tree) pruneKept(ctx context.Context) {
	out, _ := t.do(ctx, t.mirror, "for-each-ref", "--sort=-committerdate", "--format=%(refname)", keptRefs)
	refs := strings.Fields(out)
	old := refs[min(len(refs), keptMost):]
	for _, ref := range old[:min(len(old), 100)] {
		_, _ = t.do(ctx, t.mirror, "update-ref", "-d", ref) // the next session tries again
	}
}

// leftFiles are the files beside a chain's worktree. The last entry is the folder itself, which is removed if empty.
var leftFiles = []string{"session.json", "prompt.md", "verdict.json", "answer.json", "lessons.md", "result.json", ""}

// tidy removes the worktrees of finished chains, and the oldest beyond keepTrees, but none with work that is not on the
// forge. git itself refuses to remove a worktree with untracked files. It also bounds the kept commits.
func (t *tree) tidy(ctx context.Context, logf func(string, ...any)) {
	t.pruneKept(ctx)
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
		args := []string{"worktree", "remove", o.dir}
		if _, err := os.Stat(filepath.Join(o.dir, ".gitmodules")); err == nil { // git never removes one with submodules
			args = append(args, "--force")
		}
		if _, err := t.do(ctx, t.mirror, args...); err == nil {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(o.dir), "aside"))
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
	dirty, err := t.do(ctx, dir, "status", "--porcelain", "--ignore-submodules=none")
	if err != nil || dirty != "" {
		return true
	}
	missing, err := t.notOnForge(ctx, dir, "HEAD")
	return err != nil || missing
}
