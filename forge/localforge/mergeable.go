package localforge

import (
	"context"
	"strings"
)

// check is the state of a pull request's conflict check.
type check int

const (
	checking  check = iota // not yet done since head or base moved
	mergeable              // merges without a conflict
	conflict
	nothing  // the merge would change no file
	ancestor // the base already contains the head
	broken   // git failed
)

// mergeable returns the value of the field mergeable. As on Forgejo, it is also true for a pull request without
// changes, although a merge of an ancestor is refused.
func (ch check) mergeable() bool { return ch == mergeable || ch == nothing || ch == ancestor }

// markUnchecked marks pull requests for a new conflict check.
func (f *Forge) markUnchecked(issues []*issue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range issues {
		if !i.pull.merged {
			i.pull.check = checking
		}
	}
}

// checkPull checks whether a pull request merges, and what it changes. If a branch moves meanwhile, the result is
// dropped, because the move starts a check of its own.
func (f *Forge) checkPull(ctx context.Context, i *issue) {
	f.mu.Lock()
	r := i.repo
	base, head := r.branch(i.pull.base), i.pull.headSHA
	skip := i.pull.merged || base == "" || head == ""
	f.mu.Unlock()
	if skip {
		return
	}
	found, mergeBase, names, err := f.tryMerge(ctx, r.dir, base, head)
	if err != nil {
		found = broken
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := i.pull; !p.merged && r.branch(p.base) == base && p.headSHA == head {
		p.check, p.mergeBase, p.files = found, mergeBase, changedNames(names)
	}
}

// tryMerge merges head into base without moving either branch. names are the files that head changes, for changedNames.
func (f *Forge) tryMerge(ctx context.Context, dir, base, head string) (ch check, mergeBase, names string, err error) {
	mergeBase, err = f.git(ctx, dir, "merge-base", base, head)
	if exitCode(err) == 1 { // no common history: Forgejo uses the base itself
		mergeBase, err = base, nil
	}
	if err != nil {
		return broken, "", "", err
	}
	if mergeBase == head {
		return ancestor, mergeBase, "", nil
	}
	names, err = f.git(ctx, dir, "diff", "--name-only", "-z", mergeBase, head)
	if err != nil {
		return broken, mergeBase, "", err
	}
	if names == "" {
		return nothing, mergeBase, "", nil
	}
	_, clean, err := f.mergeTree(ctx, dir, base, head)
	if err != nil {
		return broken, mergeBase, names, err
	}
	if !clean {
		return conflict, mergeBase, names, nil
	}
	return mergeable, mergeBase, names, nil
}

// mergeTree merges two commits into a tree; clean is false if they conflict.
func (f *Forge) mergeTree(ctx context.Context, dir, base, head string) (tree string, clean bool, err error) {
	out, err := f.git(ctx, dir, "merge-tree", "--write-tree", "--allow-unrelated-histories", base, head)
	tree, _, _ = strings.Cut(out, "\n")
	switch exitCode(err) {
	case 1:
		return tree, false, nil
	case -1:
		if err == nil {
			return tree, true, nil
		}
	}
	return tree, err == nil, err
}
