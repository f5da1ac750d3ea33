package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// leftFile is a file or folder that is not ignored, and in no commit.
type leftFile struct {
	name  string // a folder's ends in /
	files int    // in a folder
}

// nothingToPublish reports whether there is nothing to publish.
func (r *run) nothingToPublish(ctx context.Context, since string) (bool, error) {
	if err := r.settle(ctx, since); err != nil {
		return false, err
	}
	n, err := r.tree.commits(ctx, since, "HEAD")
	if err != nil || n > 0 && !r.changesNothing(ctx, since) {
		return false, err
	}
	changed, err := r.tree.runGit(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil || changed != "" {
		return false, err
	}
	files, _, err := r.tree.untracked(ctx)
	return len(files) == 0, err
}

// changesNothing reports whether the commits of a new branch have the files of its base: an empty pull request would be
// merged, and close the issue. A rework may push an empty commit, which starts its checks again.
func (r *run) changesNothing(ctx context.Context, since string) bool {
	if r.Kind == agents.KindRework {
		return false
	}
	_, err := r.tree.runGit(ctx, "diff", "--quiet", since+"...HEAD")
	return err == nil
}

// settle brings the worktree back to the session's branch, whatever the CLI did.
func (r *run) settle(ctx context.Context, since string) error {
	if err := r.tree.mend(ctx); err != nil {
		return err
	}
	if !r.tree.exists(ctx) { // the folder is gone, the commits are not
		if err := r.tree.checkout(ctx, r.state.Branch, "refs/heads/"+r.state.Branch); err != nil {
			return err
		}
	}
	return r.tree.standOn(ctx, r.state.Branch, since)
}

// offerUntracked names the CLI the files that it did not commit, once, if it made commits: they stay out of the pull
// request. An agent without commits has forgotten them, so that everything that is not ignored is committed for it.
func (r *run) offerUntracked(ctx context.Context, since string) error {
	n, err := r.tree.commits(ctx, since, "HEAD")
	if err != nil || n == 0 {
		return err
	}
	files, nested, err := r.tree.untracked(ctx)
	if err != nil || len(files) == 0 {
		return err
	}
	_, err = r.followUp(ctx, "These files are in the repository, in no commit, and not ignored: "+
		leftWords(collapse(files, nested))+". Commit those that belong to the change, with git. The others stay out of the "+
		"pull request.")
	if e, ok := errors.AsType[*ended](err); ok && ctx.Err() == nil { // the work is done without them
		r.logf("no answer about uncommitted files: %v", e)
		err = nil
	}
	if err != nil {
		return err
	}
	return r.settle(ctx, since)
}

// publish commits what the CLI left uncommitted and pushes the branch, unless another account has moved it since the
// fetch. It returns what stays out of the pull request, which is kept in the mirror.
func (r *run) publish(ctx context.Context, branch, since, message string) (left []leftFile, err error) {
	t := r.tree
	if t.rebasing(ctx) {
		return nil, end(agents.Failed, "the agent left a rebase unfinished")
	}
	t.keepStrays(ctx)
	message = forge.DefuseMessage(r.post.hide(message), r.Repo, r.post.own)
	if left, err = r.commitAll(ctx, since, message); err != nil {
		return nil, err
	}
	if left, err = r.verify(ctx, since, message, left); err != nil {
		return nil, err
	}
	r.logf("pushing %s, %d ahead of %s", branch, r.ahead, strings.TrimPrefix(since, "refs/remotes/"))
	if err := r.pushBranch(ctx, branch, since, message); err != nil {
		return left, err
	}
	if len(left) == 0 {
		return nil, nil
	}
	if _, err := t.keep(ctx, "left out of "+branch); err != nil {
		return nil, err
	}
	if _, err := t.runGit(ctx, "clean", "--quiet", "-ffd"); err != nil { // or they would count as interrupted work
		makeWritable(t.dir)
		_, err = t.runGit(ctx, "clean", "--quiet", "-ffd")
		return left, err
	}
	return left, nil
}

// commitAll makes everything that is to be published commits without secrets. It returns what stays out.
func (r *run) commitAll(ctx context.Context, since, message string) (left []leftFile, err error) {
	if left, err = r.tree.commitRest(ctx, since, message); err != nil {
		return nil, err
	}
	cleaned, err := r.cleanCommits(ctx, since)
	if err == nil && cleaned {
		left, err = r.tree.commitRest(ctx, since, message)
	}
	if err != nil {
		return nil, err
	}
	r.ahead, err = r.tree.commits(ctx, since, "HEAD")
	if err == nil && (r.ahead == 0 || r.changesNothing(ctx, since)) {
		err = end(agents.NoProgress, "no commits that change anything")
	}
	return left, err
}

// commitRest commits changes that the CLI left uncommitted: small models forget to commit. Beside its own commits only
// those of tracked files count, and what stays out is returned. Repositories within the worktree always stay out.
func (t *tree) commitRest(ctx context.Context, since, message string) (left []leftFile, err error) {
	own, err := t.commits(ctx, since, "HEAD")
	if err != nil {
		return nil, err
	}
	files, nested, err := t.untracked(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"add", "--update"} // of the whole worktree, even if a sparse checkout hides all of it
	if own == 0 {
		args, left = []string{"add", "--all", "--", "."}, collapse(nil, nested)
		for _, name := range slices.Concat(nested, t.made) {
			args = append(args, ":(top,exclude,literal)"+strings.TrimSuffix(name, "/"))
		}
	} else {
		left = collapse(files, nested)
	}
	if _, err := t.runGit(ctx, args...); err != nil {
		return nil, err
	}
	staged, err := t.runGit(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return nil, err
	}
	_, merge := t.runGit(ctx, "rev-parse", "--quiet", "--verify", "MERGE_HEAD")
	if staged == "" && merge != nil {
		return left, nil
	}
	commit := []string{"commit", "--quiet", "--no-verify", "-m", message}
	if _, err = t.runGit(ctx, commit...); err != nil { // signing may need a key that only the agent's settings name
		_, err = t.runGit(ctx, append(commit, "--no-gpg-sign")...)
	}
	return left, err
}

// untracked returns the files that are neither tracked nor ignored, and the repositories among them, whose names end
// in /. It leaves out what the repository's setup made.
func (t *tree) untracked(ctx context.Context) (files, nested []string, err error) {
	out, err := t.runGit(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	for name := range strings.SplitSeq(out, "\x00") {
		switch {
		case name == "":
		case t.isMade(name):
		case strings.HasSuffix(name, "/"):
			nested = append(nested, name)
		default:
			files = append(files, name)
		}
	}
	return files, nested, err
}

// collapse returns files by their top folder, in order.
func collapse(files, nested []string) (left []leftFile) {
	count := map[string]int{}
	for _, name := range files {
		if dir, _, inside := strings.Cut(name, "/"); inside {
			name = dir + "/"
		}
		count[name]++
	}
	for _, name := range nested {
		count[path.Clean(name)+"/"] += 0
	}
	for name, n := range count {
		left = append(left, leftFile{name, n})
	}
	slices.SortFunc(left, func(a, b leftFile) int { return strings.Compare(a.name, b.name) })
	return left
}

// leftOut returns a sentence for the pull request about what stays out of it.
func (r *run) leftOut(left []leftFile) string {
	if len(left) == 0 {
		return ""
	}
	return "Left out, because " + r.Agent + " did not commit it: " + leftWords(left) + "."
}

// leftWords names files, as Markdown.
func leftWords(left []leftFile) string {
	const most = 20
	var words []string
	for i, f := range left {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(left)-most))
			break
		}
		word := "`" + strings.ReplaceAll(firstWords(f.name), "`", "'") + "`"
		if strings.HasSuffix(f.name, "/") && f.files > 0 {
			word += " (" + counted(f.files, "file", "files") + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
