package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A session that ends before its work was handed in was interrupted, whatever ended it: a signal, a limit, an outage, a
// crash. Its work is saved in the mirror, which takes no forge, and then pushed. The next session on the chain starts
// from it.

const (
	// wipTime is how long a session that was asked to end may take to save its work. The supervisor's grace period is
	// 7 s by default, of which the CLI needs up to 2 s to end.
	wipTime = 4 * time.Second
	// saveTime bounds it otherwise, for large worktrees.
	saveTime = 2 * time.Minute
	// pushTime bounds the push of interrupted work. The slot waits for it, and the work is safe without it.
	pushTime = 20 * time.Second
)

// saveInterrupted saves the work of a session that ends before its work was handed in, and says where it is.
func (r *run) saveInterrupted(ctx context.Context, why string) (where string) {
	if !r.onBranch { // it changed nothing, or it is a review
		return ""
	}
	limit := saveTime
	if ctx.Err() != nil {
		limit = wipTime
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	t, s := r.tree, (*snapshot)(nil)
	err := r.settle(ctx, r.since)
	if err == nil {
		s, err = t.keep(ctx, why)
	}
	switch {
	case err != nil:
		return "; the work in progress is in the workspace only: " + err.Error()
	case s == nil:
		return ", nothing was unsaved"
	}
	here := fmt.Sprintf("; the work in progress is in the clone %s, at %s", t.mirror, keptRef(s.all))
	if _, err := t.runGit(ctx, "update-ref", stoppedRefs+r.state.Branch, s.all); err != nil {
		r.logf("cannot record where the session stopped: %v", err)
	}
	branch, err := r.pushInterrupted(ctx, s)
	switch {
	case err != nil:
		r.logf("cannot push the work in progress yet: %v", err)
		return here
	case branch == "":
		return here
	}
	return "; the work in progress is on " + branch
}

// pushInterrupted pushes commits, and changes of tracked files, to the branch. Until a pull request exists,
// nobody else uses that branch; a review of half the work would follow the push of a pull request's branch. Untracked
// files stay in the mirror: a project's secrets are often among them.
func (r *run) pushInterrupted(ctx context.Context, s *snapshot) (branch string, err error) {
	t := r.tree
	missing, err := t.notOnForge(ctx, t.dir, s.tracked)
	if err != nil || !missing {
		return "", err
	}
	branch = t.wipBranch(ctx, s.tracked)
	if r.ownBranch {
		branch = r.state.Branch
	}
	if _, err := t.runGit(ctx, "update-ref", unpushedRefs+branch, s.tracked); err != nil {
		return "", err
	}
	pushing, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	err = t.pushCommit(pushing, s.tracked, branch, t.commit(ctx, remotes+branch))
	if _, ok := errors.AsType[*notForForge](err); err != nil && !ok {
		return "", err
	}
	t.forget(ctx, unpushedRefs+branch)
	return branch, err
}

// pushLater pushes interrupted work that an earlier session could not push, of any chain. If its branch has moved
// since, the work goes to a branch of its own.
func (r *run) pushLater(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	t := r.tree
	refs, err := t.do(ctx, t.mirror, "for-each-ref", "--format=%(objectname) %(refname)", unpushedRefs)
	if err != nil {
		return
	}
	for line := range strings.Lines(refs) {
		commit, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		branch := strings.TrimPrefix(ref, unpushedRefs)
		if t.movedOn(ctx, branch, commit) {
			branch = fmt.Sprintf("wip/%s/%s-%s", t.agent, strings.TrimPrefix(branch, "fix/"), commit[:8])
		}
		if err := t.pushCommit(ctx, commit, branch, t.commit(ctx, remotes+branch)); err != nil {
			r.logf("cannot push the work in progress of an earlier session yet: %v", err)
			return
		}
		r.logf("pushed the work in progress of an earlier session to %s", branch)
		t.forget(ctx, ref)
	}
}

// handedIn forgets where an earlier session on the branch stopped.
func (r *run) handedIn(ctx context.Context) {
	if r.onBranch {
		r.tree.forget(ctx, stoppedRefs+r.state.Branch)
		r.tree.forget(ctx, unpushedRefs+r.state.Branch)
	}
}

// dropTaken deletes on the forge the branches wip/... with the work with which this session began, once its own work is
// handed in: each interruption makes one. The clone keeps the commits.
func (r *run) dropTaken(ctx context.Context) {
	if !r.onBranch || r.took == "" {
		return
	}
	t := r.tree
	prefix := fmt.Sprintf("wip/%s/%s-", t.agent, strings.TrimPrefix(r.state.Branch, "fix/"))
	refs, err := t.do(ctx, t.mirror, "for-each-ref", "--format=%(objectname) %(refname)", remotes+"wip/"+t.agent+"/")
	for line := range strings.Lines(refs) {
		commit, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		branch := strings.TrimPrefix(ref, remotes)
		if err != nil || !strings.HasPrefix(branch, prefix) || !t.contains(ctx, r.took, commit) {
			continue
		}
		to := "refs/heads/" + branch
		if _, err := t.ask(ctx, t.mirror, "push", "--quiet", "--force-with-lease="+to+":"+commit, t.url, ":"+to); err != nil {
			r.logf("cannot delete %s: %v", branch, err)
			continue
		}
		t.forget(ctx, ref)
	}
}

// checkOut checks a branch out into the worktree, at a commit. What an earlier session left in the worktree is saved
// first. If that session was interrupted and the branch has not moved on since, its work stays, or comes back.
func (r *run) checkOut(ctx context.Context, d *promptData, at string) error {
	err := r.checkOutBranch(ctx, d, at)
	if err == nil {
		r.fillSubmodules(ctx, d)
	}
	return err
}

func (r *run) checkOutBranch(ctx context.Context, d *promptData, at string) (err error) {
	t, last := r.tree, r.state.Branch
	r.state.Branch, r.since = d.Branch, at
	defer func() { r.onBranch = err == nil && d.Branch != "" }()
	missing, err := t.fetchLargeFiles(ctx, at, remotes+d.Base)
	if err != nil {
		return err
	}
	if missing != nil {
		r.logf("cannot download all large files: %v", missing)
		d.Absent = quoted("some large files, which are pointers of Git LFS: " + missing.Error())
	}
	if err := t.mend(ctx); err != nil {
		return err
	}
	if !r.Room.Empty() {
		t.made = t.lastSetup(ctx).Made
	}
	why := "it left no word, as a killed session does"
	if !r.state.Interrupted {
		why = "left by an earlier session"
	}
	s, err := t.keep(ctx, why)
	if err != nil {
		return err
	}
	r.pushLater(ctx)
	if d.Branch == "" {
		return t.checkout(ctx, "", at)
	}
	local, err := t.keepBranch(ctx, d.Branch)
	if err != nil {
		return err
	}
	stopped := t.commit(ctx, stoppedRefs+d.Branch)
	if stopped != "" && t.movedOn(ctx, d.Branch, stopped) {
		stopped = ""
	}
	if s != nil && t.follows(ctx, d.Branch, last, stopped) {
		d.Continues, d.Stopped, r.took = true, quoted(t.whyStopped(ctx, stopped, why)), stopped
		r.logf("continuing where the last session stopped")
		return t.standOn(ctx, d.Branch, at)
	}
	if s != nil {
		d.Kept = s.all
		r.state.Session = "" // that conversation is about another tree
		r.logf("kept the work of an earlier session as %s of %s", keptRef(s.all), t.mirror)
	}
	tip := stopped
	if head := t.commit(ctx, at); tip == "" && t.isWIP(ctx, head) {
		tip = head
	}
	if tip = cmp.Or(tip, local); tip == "" || s != nil {
		return t.checkout(ctx, d.Branch, at)
	}
	d.Continues, d.Stopped, r.took = true, quoted(t.whyStopped(ctx, tip, why)), tip
	r.logf("continuing where an earlier session stopped, from %s", tip[:12])
	return t.unpack(ctx, d.Branch, tip)
}

// keepBranch keeps the commits of a local branch that are not on the forge, before the branch is moved. It returns the
// branch's commit if work can go on from there.
func (t *tree) keepBranch(ctx context.Context, branch string) (commit string, err error) {
	commit = t.commit(ctx, "refs/heads/"+branch)
	if commit == "" {
		return "", nil
	}
	missing, err := t.notOnForge(ctx, t.mirror, commit)
	if err != nil || !missing {
		return "", err
	}
	if _, err := t.do(ctx, t.mirror, "update-ref", keptRef(commit), commit); err != nil {
		return "", err
	}
	if t.movedOn(ctx, branch, commit) {
		return "", nil
	}
	return commit, nil
}

// follows reports whether the worktree's work continues a branch: the last session worked on it, and it has not moved
// on since.
func (t *tree) follows(ctx context.Context, branch, last, stopped string) bool {
	if last == "" { // no state is left of that session
		last, _ = t.runGit(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	}
	return last == branch && (stopped != "" || !t.movedOn(ctx, branch, "HEAD"))
}

// movedOn reports whether the forge's branch has commits that a commit lacks, apart from a snapshot that this clone
// pushed: a newer snapshot replaces it.
func (t *tree) movedOn(ctx context.Context, branch, commit string) bool {
	on := t.commit(ctx, remotes+branch)
	return on != "" && !t.contains(ctx, commit, on) && !(t.isWIP(ctx, on) && t.has(ctx, pushedRefs+on[:16]))
}

// contains reports whether a commit of the worktree's repository has another one among its ancestors, or is it.
func (t *tree) contains(ctx context.Context, commit, ancestor string) bool {
	if _, err := t.runGit(ctx, "merge-base", "--is-ancestor", ancestor, commit); err == nil {
		return true
	}
	_, err := t.do(ctx, t.mirror, "merge-base", "--is-ancestor", ancestor, commit)
	return err == nil && commit != "HEAD"
}

// isWIP reports whether a commit is a snapshot.
func (t *tree) isWIP(ctx context.Context, commit string) bool {
	return commit != "" && strings.HasPrefix(t.subject(ctx, commit), wipSubject) && t.has(ctx, commit+"^")
}

func (t *tree) subject(ctx context.Context, commit string) string {
	subject, _ := t.do(ctx, t.mirror, "show", "--no-patch", "--format=%s", commit)
	return subject
}

// whyStopped returns why a session stopped, as its snapshot says.
func (t *tree) whyStopped(ctx context.Context, commit, otherwise string) string {
	if !t.isWIP(ctx, commit) {
		return otherwise
	}
	_, why, _ := strings.Cut(t.subject(ctx, commit), ": ")
	return why
}

// unpack checks a branch out at the commit below a snapshot, with the snapshot's files as uncommitted changes. So no
// snapshot becomes part of a pull request.
func (t *tree) unpack(ctx context.Context, branch, tip string) error {
	base := tip
	for t.isWIP(ctx, base) {
		base = t.commit(ctx, base+"^")
	}
	if err := t.checkout(ctx, branch, base); err != nil {
		return err
	}
	if _, err := t.runGit(ctx, "read-tree", "--reset", "-u", tip); err != nil {
		return err
	}
	_, err := t.runGit(ctx, "reset", "--quiet", base)
	return err
}

// interrupted reports whether a session with this outcome was interrupted, so that its work has to be saved.
func interrupted(result agents.Result) bool {
	switch result {
	case agents.Done, agents.NoProgress, agents.Refused, agents.Planned, agents.TooBig, agents.SetupFailed:
		return false
	}
	return true
}
