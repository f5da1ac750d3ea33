package forgetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

func scanRules() []rule {
	return []rule{
		{Issues, "a scan shows an issue as it was filed", scanIssue},
		{Issues, "a scan shows changes, and an issue that was closed", scanChanges},
		{Issues, "blockers are dependencies and references, with their states", scanBlockers},
		{Pulls, "a scan shows a pull request with its head and issues", scanPull},
		{Code, "a pull request shows who wrote it", scanCoders},
		{Code, "a pull request shows that its base changed, and when", scanBase},
		{Code, "a pull request shows that its base contains all its commits", scanContained},
		{Pulls, "reviews and checks belong to one head", scanVerdicts},
		{Code, "a conflict counts only when the forge reports it again", scanConflict},
		{Rights, "a scan with a missing repository fails, but reads the others", scanMissing},
		{Rights, "a pull request of an account without write access is a stranger's", scanStranger},
		{Pulls, "Look reads the present state", fetchItem},
	}
}

func scanIssue(w *world) {
	labels := []string{"skill/go", "backlog", "priority"}
	before := time.Now()
	ref, err := w.here.File(w.ctx, forge.Draft{Repo: w.repo, Title: "bake bread", Body: "with rye", Labels: labels})
	w.must("File", err)
	other := w.file("another")
	asked := time.Now()
	facts := w.scan(w.here)
	answered := time.Now()
	i := facts.Issue(ref)
	if i == nil || facts.Issue(other) == nil {
		w.Fatalf("the scan returned the issues %v, want %s and %s among them", facts.Issues, ref, other)
	}
	same(w, "title", i.Title, "bake bread")
	same(w, "author", i.Author, w.boss)
	same(w, "closed", i.Closed, false)
	equal(w, "labels, sorted", i.Labels, []string{"backlog", "priority", "skill/go"})
	equal(w, "assignees", i.Assignees, nil)
	same(w, "blockers known", i.BlockersKnown, true)
	same(w, "holder", i.HeldBy, "")
	same(w, "sorted", slices.IsSortedFunc(facts.Issues, func(a, b forge.Issue) int { return a.Ref.Compare(b.Ref) }), true)
	if i.Created.Before(before.Add(-time.Minute)) || i.Created.After(answered.Add(time.Minute)) {
		w.Errorf("the issue was created at %v, want about %v", i.Created, before)
	}
	repo, ok := facts.Repo(w.repo)
	same(w, "the facts have the repository", ok, true)
	same(w, "default branch", repo.DefaultBranch, "main")
	for _, at := range []time.Time{repo.AsOf, i.AsOf} {
		if at.Before(asked) || at.After(answered) {
			w.Errorf("AsOf is %v, want a time between %v and %v", at, asked, answered)
		}
	}
}

func scanChanges(w *world) {
	ref, end := w.file("changes"), w.file("ends")
	w.issue(ref)
	w.tick()
	w.must("Label", w.here.Label(w.ctx, ref, []string{"priority"}, nil))
	w.Assign(ref, w.dev)
	w.must("Close", w.here.Close(w.ctx, end))
	facts := w.scan(w.there)
	same(w, "a first scan leaves out a closed issue", facts.Issue(end) == nil, true)
	facts = w.scan(w.here)
	i, gone := facts.Issue(ref), facts.Issue(end)
	if i == nil || gone == nil {
		w.Fatal("the facts lack an issue that changed or was closed")
	}
	same(w, "label", i.Has("priority"), true)
	equal(w, "assignees", i.Assignees, []string{w.dev})
	same(w, "closed", gone.Closed, true)
	same(w, "Ended is zero", gone.Ended.IsZero(), false)
	w.tick()
	again := w.issue(ref)
	same(w, "AsOf of an unchanged issue grows", again.AsOf.After(i.AsOf), true)
	same(w, "Updated of an unchanged issue stays", again.Updated.Equal(i.Updated), true)
}

func scanBlockers(w *world) {
	closed, cancelled, open, named := w.file("closed"), w.file("cancelled"), w.file("open"), w.file("named")
	body := fmt.Sprintf("## Depends on\n- #%d\n- #%d\n", named.Number, w.missing().Number)
	ref, err := w.here.File(w.ctx, forge.Draft{
		Repo: w.repo, Title: "waits", Body: body,
		Labels: []string{forge.LabelBacklog},
	})
	w.must("File", err)
	for _, on := range []forge.Ref{closed, cancelled, open} {
		w.must("Depend", w.here.Depend(w.ctx, ref, on))
	}
	w.must("Label", w.here.Label(w.ctx, cancelled, []string{forge.LabelCancelled}, nil))
	w.must("Close", w.here.Close(w.ctx, cancelled))
	w.must("Close", w.here.Close(w.ctx, closed))
	w.tick()
	want := []forge.Blocker{
		{Ref: closed, State: forge.BlockerClosed},
		{Ref: cancelled, State: forge.BlockerCancelled},
		{Ref: open, State: forge.BlockerOpen},
		{Ref: named, State: forge.BlockerOpen, InBody: true},
		{Ref: w.missing(), State: forge.BlockerMissing, InBody: true},
	}
	i := w.issue(ref)
	same(w, "blockers known", i.BlockersKnown, true)
	equal(w, "blockers", i.Blockers, want)

	// With Forgejo, closing a blocker does not change the update time of the issue that waits for it.
	w.must("Close", w.here.Close(w.ctx, open))
	want[2].State = forge.BlockerClosed
	equal(w, "blockers after one was closed", w.issue(ref).Blockers, want)
	fresh, err := w.here.Blockers(w.ctx, ref)
	w.must("Blockers", err)
	equal(w, "blockers, read on their own", fresh, want)
}

func scanPull(w *world) {
	issue := w.file("to do")
	ref, head := w.work(fmt.Sprintf("fix/issue-%d", issue.Number), "")
	draft := w.Open(w.dev, w.repo, w.branch("draft"), "WIP: not yet", fmt.Sprintf("fixes #%d", issue.Number))
	p := w.pull(ref)
	same(w, "author", p.Author, w.dev)
	same(w, "branch", p.Head, fmt.Sprintf("fix/issue-%d", issue.Number))
	same(w, "head", p.HeadSHA, head)
	same(w, "base", p.Base, "main")
	same(w, "repository of the head", p.HeadRepo, w.repo)
	same(w, "closed, merged or draft", p.Closed || p.Merged || p.Draft, false)
	equal(w, "closes, by its branch", p.Closes, []forge.Ref{issue})
	d := w.pull(draft)
	same(w, "draft", d.Draft, true)
	equal(w, "closes, by its text", d.Closes, []forge.Ref{issue})
	w.eventually("the pull request merges cleanly", func() bool { return w.pull(ref).Mergeable == forge.MergeClean })

	w.tick()
	next := w.Push(w.dev, w.repo, p.Head, "more.txt", "more\n")
	w.eventually("a push moves the head", func() bool { return w.pull(ref).HeadSHA == next })
}

func scanCoders(w *world) {
	ref, _ := w.work("topic", "")
	same(w, "the author is a coder", slices.Contains(w.pull(ref).Coders, w.dev), true)
	same(w, "another agent is a coder", slices.Contains(w.fetchPull(ref).Coders, w.review), false)
	w.tick()
	head := w.Push(w.review, w.repo, "topic", "more.txt", "more\n")
	w.eventually("the head moves", func() bool { return w.pull(ref).HeadSHA == head })
	w.eventually("the pusher is a coder", func() bool { return slices.Contains(w.fetchPull(ref).Coders, w.review) })
	p := w.pull(ref)
	same(w, "coders are sorted", slices.IsSorted(p.Coders), true)
	same(w, "both accounts are coders", slices.Contains(p.Coders, w.dev) && slices.Contains(p.Coders, w.review), true)
}

// fetchPull returns a pull request as FetchItem shows it.
func (w *world) fetchPull(ref forge.Ref) *forge.Pull {
	w.Helper()
	look, err := w.here.FetchItem(w.ctx, ref, time.Now())
	w.must("FetchItem", err)
	if look.Pull == nil {
		w.Fatalf("FetchItem(%s) returned no pull request", ref)
	}
	return look.Pull
}

func scanBase(w *world) {
	w.branch("other")
	ref, head := w.work("topic", "")
	p := w.fetchPull(ref)
	same(w, "base", p.Base, "main")
	same(w, "the base never changed", p.Retargeted.IsZero(), true)
	same(w, "there is a merge base, and it is not the head", p.MergeBase != "" && p.MergeBase != head, true)
	w.tick()
	w.Retarget(w.dev, ref, "other")
	w.eventually("the base changes", func() bool { return w.pull(ref).Base == "other" })
	first := w.fetchPull(ref).Retargeted
	same(w, "Retargeted is zero or too early", first.IsZero() || first.Before(p.Created), false)
	w.refused("Merge into another base", w.here.Merge(w.ctx, ref, head, "main"), forge.ErrConflict)
	w.tick()
	w.Retarget(w.dev, ref, "main") // back to the first base: only the time shows the change
	back := w.fetchPull(ref)
	same(w, "base", back.Base, "main")
	same(w, "the last change counts", back.Retargeted.After(first), true)
	same(w, "a scan still shows the time of the last change", w.pull(ref).Retargeted.Equal(back.Retargeted), true)
}

func scanContained(w *world) {
	one, head := w.work("one", "")
	w.Branch(w.dev, w.repo, "two", "one")
	two := w.Open(w.dev, w.repo, "two", "the same again", "")
	same(w, "contained before the merge", w.pull(one).Contained || w.pull(two).Contained, false)
	w.merge(one, head)
	w.eventually("the base contains the other pull request's commits", func() bool { return w.fetchPull(two).Contained })
	p := w.pull(two)
	same(w, "contained and still open", p.Contained && !p.Closed && !p.Merged, true)
	w.must("Close", w.here.Close(w.ctx, two))
	p = w.pull(two)
	same(w, "closed and not merged", p.Closed && !p.Merged, true)
}

// branch makes a branch with one commit of the account dev.
func (w *world) branch(name string) string {
	w.Helper()
	w.Push(w.dev, w.repo, name, name+".txt", name+"\n")
	return name
}

func scanVerdicts(w *world) {
	ref, head := w.work("topic", "")
	same(w, "no checks", w.pull(ref).CI, forge.CINone)
	w.tick()
	w.Review(w.review, ref, head, forge.ChangesRequested)
	w.tick()
	w.Review(w.review, ref, head, forge.Approved)
	w.Report(w.repo, head, "ci/test", "pending")
	var p *forge.Pull
	w.eventually("two reviews and a pending check", func() bool {
		p = w.pull(ref)
		return len(p.Reviews) == 2 && p.CI == forge.CIPending
	})
	for n, want := range []forge.Verdict{forge.ChangesRequested, forge.Approved} {
		r := p.Reviews[n]
		same(w, "reviewer", r.Author, w.review)
		same(w, "verdict", r.Verdict, want)
		same(w, "head of the review", r.CommitSHA, head)
		same(w, "official", r.Official || n == 0, true) // the forge can make an earlier verdict unofficial
	}
	w.Report(w.repo, head, "ci/test", "failure")
	w.eventually("the check failed", func() bool { return w.pull(ref).CI == forge.CIFailure })
	w.Report(w.repo, head, "ci/test", "success")
	w.tick()
	next := w.Push(w.dev, w.repo, "topic", "more.txt", "more\n")
	w.eventually("a new head has no checks", func() bool {
		p = w.pull(ref)
		return p.HeadSHA == next && p.CI == forge.CINone
	})
	w.eventually("reviews stay with their head", func() bool {
		p = w.pull(ref)
		return len(p.Reviews) == 2 && p.Reviews[1].CommitSHA == head
	})
}

func scanStranger(w *world) {
	for name, tc := range map[string]struct {
		author string
		want   bool
	}{"agent": {w.dev, false}, "writer": {w.boss, false}, "reader": {w.human, true}} {
		w.branch(name)
		ref := w.Open(tc.author, w.repo, name, name, "")
		w.eventually("the opener's rights are known: "+name, func() bool { return w.pull(ref).Stranger == tc.want })
	}
}

func scanConflict(w *world) {
	one, head := w.work("one", "")
	w.Push(w.dev, w.repo, "two", "work.txt", "two\n")
	two := w.Open(w.dev, w.repo, "two", "two", "")
	w.merge(one, head)
	first := time.Time{}
	w.eventually("the forge reports a conflict", func() bool {
		p := w.pull(two)
		if !p.ConflictSince.IsZero() && first.IsZero() {
			first = p.ConflictSince
			same(w, "mergeable at first", p.Mergeable, forge.MergeUnknown)
		}
		return p.Mergeable == forge.MergeNotClean
	})
	same(w, "the conflict keeps its time", w.pull(two).ConflictSince.Equal(first), true)
	p := w.pull(one)
	same(w, "merged", p.Closed && p.Merged && !p.Ended.IsZero(), true)
}

// merge waits until the forge can merge the pull request, and merges it.
func (w *world) merge(ref forge.Ref, head string) {
	w.Helper()
	w.eventually("the pull request can be merged", func() bool { return w.pull(ref).Mergeable == forge.MergeClean })
	w.must("Merge", w.here.Merge(w.ctx, ref, head, "main"))
}

func scanMissing(w *world) {
	ref := w.file("one")
	gone := w.repo + "-gone"
	f := w.Supervisor(Supervisor{
		Instance: "other", Host: "other", Token: w.bossToken, Repos: []string{w.repo, gone}, Agents: []string{w.dev},
	})
	facts, err := f.Scan(w.ctx)
	w.refused("Scan", err, forge.ErrNotFound)
	same(w, "the facts have the issue of the other repository", facts.Issue(ref) != nil, true)
	for _, r := range facts.Repos {
		same(w, r.Name+" was read", !r.AsOf.IsZero(), r.Name == w.repo)
	}
	w.refused("Prepare", f.Prepare(w.ctx), forge.ErrNotFound)

	ended, cancel := context.WithCancel(w.ctx)
	cancel()
	_, err = w.here.Scan(ended)
	w.refused("Scan with a cancelled context", err, context.Canceled)
	same(w, "the next scan reads the issue", w.issue(ref).Title, "one")
}

func fetchItem(w *world) {
	issue := w.file("to do")
	w.Say(w.human, issue, "early")
	time.Sleep(3 * second) // both clocks count whole seconds: a comment up to two seconds too old can count
	since := time.Now()
	w.scan(w.here)
	w.tick()
	w.Say(w.dev, issue, "begun")
	w.Say(w.dev, issue, "done")
	w.must("Label", w.here.Label(w.ctx, issue, []string{"needs-human"}, nil))
	ref, head := w.work(fmt.Sprintf("fix/issue-%d", issue.Number), "")
	got, err := w.here.FetchItem(w.ctx, issue, since)
	w.must("FetchItem", err)
	if got.Issue == nil || len(got.Pulls) != 1 {
		w.Fatalf("FetchItem returned %+v, want the issue and one pull request", got)
	}
	same(w, "label", got.Issue.Has("needs-human"), true)
	same(w, "recent comments of dev", got.Comments[w.dev], 2)
	same(w, "recent comments of the person", got.Comments[w.human], 0)
	same(w, "pull request", got.Pulls[0].Ref, ref)
	same(w, "head of the pull request", got.Pulls[0].HeadSHA, head)

	w.must("Close", w.here.Close(w.ctx, issue))
	got, err = w.here.FetchItem(w.ctx, issue, time.Time{})
	w.must("FetchItem", err)
	same(w, "closed", got.Issue != nil && got.Issue.Closed, true)
	same(w, "all comments of the person", got.Comments[w.human], 1)
	got, err = w.here.FetchItem(w.ctx, ref, since)
	w.must("FetchItem", err)
	same(w, "only the pull request, with its head", got.Pull != nil && got.Issue == nil && got.Pull.HeadSHA == head, true)
	_, err = w.here.FetchItem(w.ctx, w.missing(), since)
	w.refused("FetchItem of a missing item", err, forge.ErrNotFound)
}
