package session

import (
	"context"
	"fmt"

	"codeberg.org/johba/disinto/agents"
)

// catchUp brings the checked-out branch up to date where git alone can do it. finished means that nothing is left for
// the CLI. A branch whose base was rewritten is moved to the new base, without the commits that the base has dropped:
// a merge would bring them back. A conflict that the forge reports may be one of an older head or base: the agent would
// find it "already resolved", again and again.
func (r *run) catchUp(ctx context.Context, d *promptData) (said answer, finished bool, err error) {
	t, base := r.tree, remotes+d.Base
	if d.Branch == "" || d.Continues {
		return said, false, nil
	}
	// The newest commit of the branch that the base has ever had, as the clone's log of the base knows.
	fork, _ := t.runGit(ctx, "merge-base", "--fork-point", base, "HEAD")
	if fork != "" && !t.contains(ctx, base, fork) {
		if _, err := t.runGit(ctx, "rebase", "--quiet", "--onto", base, fork); err != nil {
			_, _ = t.runGit(ctx, "rebase", "--abort")
			d.Fork = fork
			return said, false, nil
		}
		r.logf("%s was rewritten: moved %s from %.12s to its head", d.Base, d.Branch, fork)
		said.Summary = fmt.Sprintf("The history of `%s` was rewritten: the branch is rebased on it.", d.Base)
		return said, r.Conflict, nil
	}
	switch {
	case !r.Conflict:
		return said, false, nil
	case t.contains(ctx, "HEAD", base):
		words := fmt.Sprintf("the forge reports a conflict, but the branch has all of %s", d.Base)
		if r.Attempt > 1 { // it had minutes to look again, and only a person can make it
			return said, false, end(agents.Refused, words+": closing and reopening the pull request makes the forge look again")
		}
		return said, false, end(agents.NoProgress, words)
	}
	if _, err := t.runGit(ctx, "merge", "--quiet", "--no-edit", base); err != nil {
		_, _ = t.runGit(ctx, "merge", "--abort")
		return said, false, nil
	}
	r.logf("git merges %s without a conflict", d.Base)
	said.Summary = fmt.Sprintf("Merged `%s`: git finds no conflict.", d.Base)
	return said, true, nil
}
