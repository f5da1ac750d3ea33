package rules

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
)

var mergeRules = []rule{
	{
		"a merge ends the pull request",
		"forge/forgejo, which reads whether, when and by which account it was merged",
		mergeEnds,
	},
	{
		"a merge can name the head that it expects",
		"forge/forgejo Merge, which merges only the reviewed head",
		staleHead,
	},
	{
		"a merge that cannot be done is refused with 405",
		"forge/forgejo Merge, which returns forge.ErrConflict: a permanent refusal looks like a temporary one",
		refusedMerges,
	},
	{
		"an account with read access cannot merge",
		"forge/forgejo Prepare, which checks the right before: the refusal looks like that of a conflict",
		mergeRights,
	},
	{
		"required checks and approvals prevent a merge",
		"threads, which waits for what the base branch requires",
		requiredToMerge,
	},
	{
		"a refused merge says why",
		"forge/forgejo, whose table of refusals tells what passes by itself from what a person has to change",
		refusalWords,
	},
	{
		"an outdated branch is brought up to date by a merge of its base",
		"forge/forgejo Update, for a base that merges only branches with its newest commit",
		outdatedBranch,
	},
	{
		"squash and rebase are merges too",
		"forge/forgejo Merge, which uses the repository's own style",
		mergeStyles,
	},
	{
		"the merged branch is deleted on request",
		"forge/forgejo Merge, so that the next try of an issue finds its branch name free",
		branchAfterMerge,
	},
	{
		"closing keywords close issues at the merge",
		"forge.Closes, which must agree with the forge on the issues of a pull request",
		closingKeywords,
	},
	{
		"keywords in comments and commits close issues too",
		"threads, which treats a closed issue as closed, whichever account closed it",
		otherKeywords,
	},
	{
		"a keyword closes an issue in another repository only if the author can write there",
		"forge.Closes, whose references can cross repositories",
		crossRepositoryKeyword,
	},
	{
		"an issue with open blockers silently stays open at a merge",
		"threads, which closes the issues of a merged pull request itself, and retries when a blocker changes",
		blockedKeyword,
	},
	{
		"a merged pull request cannot be merged again or reopened",
		"forge/forgejo Merge, which treats a repeated merge as success, and threads, which treats a merge as final",
		mergedForGood,
	},
}

// tryMerge requests a merge once.
func (r *repo) tryMerge(n int64, more fields) answer {
	r.w.Helper()
	return r.tryMergeAs(r.owner, n, more)
}

func (r *repo) tryMergeAs(a *account, n int64, more fields) answer {
	r.w.Helper()
	form := fields{"Do": "merge"}
	maps.Copy(form, more)
	return a.post(r.at("/pulls/%d/merge", n), form)
}

// merge merges. For a second or so after a push Forgejo answers 405 "Please try again later", while it checks for
// conflicts, even if it has just reported the pull request as mergeable. So merge repeats the request.
func (r *repo) merge(n int64, more ...fields) {
	r.w.Helper()
	var form fields
	for _, m := range more {
		form = m
	}
	var last answer
	r.w.eventually(fmt.Sprintf("#%d is merged", n), func() bool {
		last = r.tryMerge(n, form).want(http.StatusOK, http.StatusMethodNotAllowed)
		return last.status == http.StatusOK
	})
}

func mergeEnds(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	p := r.ready("one")
	r.eventuallyMergeable(p, true)
	w.eventually("merged", func() bool {
		return r.tryMergeAs(reviewer, p, nil).want(http.StatusOK, http.StatusMethodNotAllowed).status == http.StatusOK
	})
	got := r.pull(p)
	if got.State != "closed" || !got.Merged || got.MergedAt == nil || got.MergedBy == nil ||
		got.MergedBy.Login != reviewer.name {
		w.Errorf("got %+v, want it closed and merged by %s", got, reviewer.name)
	}
	same(w, "main", r.branch("main").Commit.ID, got.Commit)
	same(w, "branches", r.branches(), "main one")
	if i := r.issue(p); i.State != "closed" || i.PullRequest == nil || !i.PullRequest.Merged {
		w.Errorf("the pull request, read as an issue, is not shown as merged: %+v", i)
	}
	same(w, "timeline", story(r.timeline(p), "merge_pull", "close"), list([]string{"merge_pull by " + reviewer.name}))
}

func staleHead(w *world) {
	r := w.code("one")
	p := r.ready("one")
	first := r.pull(p).Head.SHA
	second := r.commit("one", "b.txt", "two")
	w.eventually("the head has moved", func() bool { return r.pull(p).Head.SHA == second })
	r.eventuallyMergeable(p, true)
	w.eventually("the forge reports that the head is outdated", func() bool {
		return r.tryMerge(p, fields{"head_commit_id": first}).want(http.StatusConflict, http.StatusMethodNotAllowed).
			status == http.StatusConflict
	})
	same(w, "merged", r.pull(p).Merged, false)
	r.merge(p, fields{"head_commit_id": second})
}

func refusedMerges(w *world) {
	r := w.code("draft", "conflict")
	draft := r.openPull("draft", "WIP: draft", "").Number
	r.tryMerge(draft, nil).want(http.StatusMethodNotAllowed)

	conflict := r.ready("conflict")
	r.commit("main", fileOf("conflict"), "theirs")
	r.eventuallyMergeable(conflict, false)
	r.tryMerge(conflict, nil).want(http.StatusMethodNotAllowed, http.StatusConflict)
	r.edit(conflict, fields{"state": "closed"})
	r.tryMerge(conflict, nil).want(http.StatusNotFound)
	for _, n := range []int64{draft, conflict} {
		same(w, fmt.Sprintf("#%d merged", n), r.pull(n).Merged, false)
	}
}

func mergeRights(w *world) {
	r := w.code("one")
	p := r.ready("one")
	r.eventuallyMergeable(p, true)
	r.tryMergeAs(w.anonymous(), p, nil).want(http.StatusUnauthorized)
	for _, a := range []*account{r.collaborator("reader", "read"), w.account("stranger")} {
		r.tryMergeAs(a, p, nil).want(http.StatusMethodNotAllowed, http.StatusForbidden)
	}
	same(w, "merged", r.pull(p).Merged, false)
}

func requiredToMerge(w *world) {
	r := w.code("one")
	dev, reviewer := r.writer("dev"), r.writer("review")
	r.owner.post(r.at("/branch_protections"), fields{
		"rule_name": "main", "enable_status_check": true, "status_check_contexts": []string{"ci/test"},
		"required_approvals": 1,
	}).want(http.StatusCreated)
	head := r.branch("one").Commit.ID
	p := r.openPullAs(dev, "one", "one", "").Number
	r.eventuallyMergeable(p, true)
	refused := func() { w.Helper(); r.tryMergeAs(dev, p, nil).want(http.StatusMethodNotAllowed) }
	refused()
	r.status(head, "ci/test", "success")
	refused()
	r.review(r.collaborator("reader", "read"), p, "APPROVED", head)
	refused()
	r.review(reviewer, p, "APPROVED", head)
	r.status(head, "ci/test", "failure")
	refused()
	r.status(head, "ci/test", "success")
	r.merge(p)
}

func mergeStyles(w *world) {
	r := w.code("one", "two")
	squash, rebase := r.ready("one"), r.ready("two")
	r.tryMerge(squash, fields{"Do": "nonesuch"}).want(http.StatusUnprocessableEntity)
	r.merge(squash, fields{"Do": "squash"})
	r.eventuallyMergeable(rebase, true)
	r.merge(rebase, fields{"Do": "rebase"})
	got := r.pull(rebase)
	same(w, "main", r.branch("main").Commit.ID, got.Commit)
	if got.Commit == got.Head.SHA {
		w.Error("the merge did not rebase the head onto the new base")
	}
}

func branchAfterMerge(w *world) {
	r := w.code("fix/issue-1")
	p := r.ready("fix/issue-1")
	r.merge(p, fields{"delete_branch_after_merge": true})
	r.owner.get(r.at("/branches/fix%%2Fissue-1")).want(http.StatusNotFound)
	same(w, "label of the head", r.pull(p).Head.Label, "fix/issue-1")
}

// closingKeywords merges into a branch that is not the default branch; the merge closes issues even so. The text
// mentions ten issues and closes five.
func closingKeywords(w *world) {
	r := w.code("release", "one")
	for n := range 10 {
		r.open(fmt.Sprintf("issue %d", n+1))
	}
	p := decode[pull](r.owner.post(r.at("/pulls"), fields{
		"head": "one", "base": "release", "title": "Fixes #1",
		"body": "Closes #2, resolved: #3 and fixes #4, #5\n\nfixes  #6, prefixes #7, see #8\n\n" +
			"`fixes #9`\n\n```\nfixes #10\n```\n\nFIXES #10.",
	}).want(http.StatusCreated)).Number
	same(w, "closed before the merge", len(r.list("state=closed&type=issues")), 0)
	r.merge(p)
	same(w, "closed", list(numbers(r.list("state=closed&type=issues"))), "[10 4 3 2 1]")
	same(w, "timeline", story(r.timeline(1), "close"), list([]string{"close by " + r.owner.name}))
}

// otherKeywords: keywords in a commit message count once the commit is on the default branch, which Forgejo notices
// late.
func otherKeywords(w *world) {
	r := w.code("one")
	byWriter, byStranger, byCommit := r.open("by a writer"), r.open("by a stranger"), r.open("by a commit")
	r.owner.post(r.at("/contents/b.txt"), fields{
		"content": encode("b"), "message": fmt.Sprintf("a change\n\nfixes #%d", byCommit), "branch": "one",
	}).want(http.StatusCreated)
	p := r.ready("one")
	for a, n := range map[*account]int64{r.writer("dev"): byWriter, w.account("stranger"): byStranger} {
		a.post(r.at("/issues/%d/comments", p), fields{"body": fmt.Sprintf("fixes #%d", n)}).want(http.StatusCreated)
	}
	r.merge(p)
	w.eventually("the commit has closed its issue", func() bool { return r.issue(byCommit).State == "closed" })
	same(w, "closed", list(numbers(r.list("state=closed&type=issues"))), list([]int64{byCommit, byWriter}))
}

func crossRepositoryKeyword(w *world) {
	r := w.code("one")
	dev := r.writer("dev")
	ours, theirs := r.owner.repo("ours", nil), r.owner.repo("theirs", nil)
	ours.owner.put(ours.at("/collaborators/%s", dev.name), fields{"permission": "write"}).want(http.StatusNoContent)
	ours.open("first")
	theirs.open("first")
	p := r.openPullAs(dev, "one", "one", fmt.Sprintf("fixes %s#1, fixes %s#1", ours.fullName(), theirs.fullName())).Number
	r.merge(p)
	same(w, "where the author may write", ours.issue(1).State, "closed")
	same(w, "where the author may not write", theirs.issue(1).State, "open")
}

func blockedKeyword(w *world) {
	r := w.code("one")
	blocker, blocked := r.open("blocker"), r.open("blocked")
	r.dependsOn(blocked, blocker)
	p := r.openPull("one", "one", fmt.Sprintf("fixes #%d", blocked)).Number
	r.merge(p)
	same(w, "merged", r.pull(p).Merged, true)
	same(w, "the issue", r.issue(blocked).State, "open")
	r.edit(blocker, fields{"state": "closed"})
	same(w, "the issue once its blocker is closed", r.issue(blocked).State, "open")
	same(w, "the issue when we close it", r.edit(blocked, fields{"state": "closed"}).State, "closed")
}

func mergedForGood(w *world) {
	r := w.code("one")
	p := r.ready("one")
	r.merge(p)
	r.tryMerge(p, nil).want(http.StatusMethodNotAllowed)
	r.owner.patch(r.at("/pulls/%d", p), fields{"state": "open"}).want(http.StatusPreconditionFailed)
	r.owner.patch(r.at("/issues/%d", p), fields{"state": "open"}).want(http.StatusPreconditionFailed)
	same(w, "state", r.pull(p).State, "closed")
}

// refusalWords has a base branch for each refusal of a branch's protection.
func refusalWords(w *world) {
	r := w.code("one", "a", "b", "c", "d", "e")
	for i, tt := range []struct {
		rule fields
		says string
	}{
		{fields{"enable_status_check": true, "status_check_contexts": []string{"ci/test"}}, "status checks"},
		{fields{"required_approvals": 1}, "does not have enough approvals"},
		{fields{"enable_merge_whitelist": true}, "user not allowed to merge"},
		{fields{"protected_file_patterns": "*.txt"}, "changed protected files"},
		{fields{"require_signed_commits": true}, "t sign: nokey"},
	} {
		tt.rule["rule_name"] = string(rune('a' + i))
		r.owner.post(r.at("/branch_protections"), tt.rule).want(http.StatusCreated)
		p := decode[pull](r.owner.post(r.at("/pulls"), fields{"head": "one", "base": tt.rule["rule_name"], "title": tt.says}).
			want(http.StatusCreated)).Number
		r.eventuallyMergeable(p, true)
		var last answer
		w.eventually("the refusal contains "+tt.says, func() bool {
			last = r.tryMerge(p, nil).want(http.StatusMethodNotAllowed)
			return strings.Contains(strings.ToLower(decode[struct{ Message string }](last).Message), tt.says)
		})
	}
}

func outdatedBranch(w *world) {
	r := w.code("one")
	base := r.commit("main", "b.txt", "two") // a later one is noticed late: Gitea 1.25 merged meanwhile
	p := r.ready("one")
	r.owner.post(r.at("/branch_protections"), fields{
		"rule_name": "main", "enable_push": true, "block_on_outdated_branch": true,
	}).want(http.StatusCreated)
	before := r.branch("one").Commit.ID
	r.eventuallyMergeable(p, true)
	w.eventually("the refusal says that the head is behind", func() bool {
		says := decode[struct{ Message string }](r.tryMerge(p, nil).want(http.StatusMethodNotAllowed)).Message
		return strings.Contains(says, "head branch is behind the base branch")
	})
	r.owner.post(r.at("/pulls/%d/update?style=merge", p), nil).want(http.StatusOK)
	w.eventually("the merge base is the newest commit of the base", func() bool { return r.pull(p).MergeBase == base })
	head := r.pull(p).Head.SHA
	var parents []string
	for _, parent := range decode[struct{ Parents []struct{ SHA string } }](
		r.owner.get(r.at("/git/commits/%s", head)).want(http.StatusOK)).Parents {
		parents = append(parents, parent.SHA)
	}
	same(w, "parents of the new head", list(parents), list([]string{before, base}))
	r.owner.post(r.at("/pulls/%d/update?style=merge", p), nil).want(http.StatusInternalServerError, http.StatusConflict)
	r.merge(p)
}
