package localforge

import (
	"context"
	"fmt"
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

type diffStat struct{ files, additions, deletions int }

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
	found, mergeBase, stat, err := f.tryMerge(ctx, r.dir, base, head)
	files := ""
	if err == nil {
		files, err = f.git(ctx, r.dir, "diff", "--name-only", mergeBase, head)
	}
	if err != nil {
		found = broken
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := i.pull; !p.merged && r.branch(p.base) == base && p.headSHA == head {
		p.check, p.mergeBase, p.stat, p.files = found, mergeBase, stat, strings.Fields(files)
	}
}

// tryMerge merges head into base without moving either branch.
func (f *Forge) tryMerge(ctx context.Context, dir, base, head string) (check, string, diffStat, error) {
	mergeBase, err := f.git(ctx, dir, "merge-base", base, head)
	if exitCode(err) == 1 { // no common history: Forgejo uses the base itself
		mergeBase, err = base, nil
	}
	if err != nil {
		return broken, "", diffStat{}, err
	}
	if mergeBase == head {
		return ancestor, mergeBase, diffStat{}, nil
	}
	short, err := f.git(ctx, dir, "diff", "--shortstat", mergeBase, head)
	if err != nil {
		return broken, mergeBase, diffStat{}, err
	}
	stat := parseStat(short)
	if stat == (diffStat{}) && short == "" {
		return nothing, mergeBase, stat, nil
	}
	_, clean, err := f.mergeTree(ctx, dir, base, head)
	if err != nil {
		return broken, mergeBase, stat, err
	}
	if !clean {
		return conflict, mergeBase, stat, nil
	}
	return mergeable, mergeBase, stat, nil
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

// parseStat parses a line such as " 1 file changed, 2 insertions(+), 3 deletions(-)".
func parseStat(line string) (s diffStat) {
	for part := range strings.SplitSeq(line, ",") {
		var n int
		var what string
		if _, err := fmt.Sscanf(part, "%d %s", &n, &what); err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(what, "file"):
			s.files = n
		case strings.HasPrefix(what, "insertion"):
			s.additions = n
		case strings.HasPrefix(what, "deletion"):
			s.deletions = n
		}
	}
	return s
}
