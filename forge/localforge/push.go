package localforge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
)

// moved is a change of a ref. noCommit stands for a ref that does not exist.
type moved struct{ ref, before, after string }

// move runs change, which moves refs of r with git, and then updates the state to match the refs, even if change failed
// half-way. It holds the lock of r throughout. inside, unless nil, is called under Forge.mu before any effect of the
// new refs.
func (f *Forge) move(ctx context.Context, v view, r *repo, change func() error, inside func()) error {
	r.moving.Lock()
	defer r.moving.Unlock()
	changeErr := change()
	ctx = context.WithoutCancel(ctx) // a client that disconnects must not leave the state outdated
	refs, err := f.readRefs(ctx, r)
	if err != nil {
		return errors.Join(changeErr, err)
	}
	f.mu.Lock()
	moves := diffRefs(r.refs, refs)
	r.refs = refs
	if inside != nil && changeErr == nil {
		inside()
	}
	f.mu.Unlock()
	for _, m := range moves {
		if branch := branchName(m.ref); branch != "" {
			err = errors.Join(err, f.branchMoved(ctx, v, r, branch, m))
		}
	}
	return errors.Join(changeErr, err)
}

func diffRefs(before, after map[string]string) []moved {
	var moves []moved
	for ref, sha := range after {
		if old := before[ref]; old != sha {
			if old == "" {
				old = noCommit
			}
			moves = append(moves, moved{ref, old, sha})
		}
	}
	for ref, sha := range before {
		if after[ref] == "" {
			moves = append(moves, moved{ref, sha, noCommit})
		}
	}
	sort.Slice(moves, func(i, j int) bool { return moves[i].ref < moves[j].ref })
	return moves
}

// branchMoved handles the effects of a moved branch: closing keywords in commits on the default branch, hooks, and the
// pull requests from and to the branch.
func (f *Forge) branchMoved(ctx context.Context, v view, r *repo, branch string, m moved) error {
	if m.after == noCommit {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, i := range r.openPulls() {
			if i.pull.head == branch || i.pull.base == branch {
				_ = v.setClosed(i, true) // as in Forgejo, a pull request with open dependencies stays open
			}
		}
		return nil
	}
	commits, err := f.newCommits(ctx, r, branch, m)
	f.mu.Lock()
	for _, co := range slices.Backward(commits) {
		v.namedByCommit(r, co, branch == r.defaultBranch)
	}
	v.notifyPush(r, branch, m.before, m.after)
	var from, to []*issue
	for _, i := range r.openPulls() {
		switch branch {
		case i.pull.head:
			i.pull.headSHA = m.after
			from = append(from, i)
		case i.pull.base:
			to = append(to, i)
		}
	}
	f.mu.Unlock()
	for _, i := range from {
		err = errors.Join(err, f.setPullRef(ctx, r, i.number, m.after))
	}
	if len(from)+len(to) > 0 {
		// As in Forgejo, the mergeability stays unchanged for a while, then is unknown, then is computed.
		f.afterLag(ctx, func(context.Context) { f.markUnchecked(append(from, to...)) }, func(ctx context.Context) {
			for _, i := range from {
				f.pullPushed(ctx, v, i, m)
			}
			for _, i := range to {
				f.checkPull(ctx, i)
			}
		})
	}
	return err
}

// newCommits returns the new commits of a push, newest first. For a new branch these are the commits that the default
// branch lacks.
func (f *Forge) newCommits(ctx context.Context, r *repo, branch string, m moved) ([]commit, error) {
	before := m.before
	if before == noCommit {
		before = ""
		f.mu.Lock()
		main := r.branch(r.defaultBranch)
		isMain := branch == r.defaultBranch
		f.mu.Unlock()
		if !isMain {
			before = main
		}
	}
	return f.span(ctx, r, before, m.after)
}

// pullPushed handles the late effects of a push to a pull request's branch.
func (f *Forge) pullPushed(ctx context.Context, v view, i *issue, m moved) {
	f.checkPull(ctx, i)
	f.mu.Lock()
	mergeBase, dir := i.pull.mergeBase, i.repo.dir
	f.mu.Unlock()
	changed, err := f.contentChanged(ctx, dir, m.before, m.after, mergeBase)
	changed = changed || err != nil
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range i.pull.reviews {
		r.stale = (r.stale || changed) && r.commit != m.after
	}
	v.record(i, &comment{kind: "pull_push"})
	if len(i.repo.hooks) > 0 {
		v.send(i.repo, "pull_request", "pull_request_sync", wireIssueEvent{
			Action: "synchronized", Number: i.number, PullRequest: v.pull(i), Repository: v.repo(i.repo),
			Sender: v.user(v.doer),
		})
	}
}

// contentChanged reports whether the content of a branch differs between before and after, which makes reviews stale.
// An amended message or a pure rebase does not count: the combined diff lists only files that differ from both before
// and the merge base.
func (f *Forge) contentChanged(ctx context.Context, dir, before, after, mergeBase string) (bool, error) {
	out, err := f.git(ctx, dir, "diff", "--name-only", "-z", after, before, mergeBase)
	return out != "", err
}

// setPullRef points refs/pull/N/head to a commit. Callers hold r.moving.
func (f *Forge) setPullRef(ctx context.Context, r *repo, number int64, sha string) error {
	if _, err := f.git(ctx, r.dir, "update-ref", pullRef(number), sha); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	refs := make(map[string]string, len(r.refs)+1)
	maps.Copy(refs, r.refs)
	refs[pullRef(number)] = sha
	r.refs = refs
	return nil
}
