package forgejo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// into opens a pull request into a new base branch that protect then protects. The base has a commit that the head
// lacks: the forge would see a later one late, and until then merge what is outdated.
func (w *world) into(base, head string, protect gitea.CreateBranchProtectionOption) (n int64, sha string) {
	w.Helper()
	owner, name := owner(w.repo)
	sha = w.commit(head, "main", head+".txt", head+"\n")
	_, _, err := w.as(w.owner).CreateBranch(owner, name,
		gitea.CreateBranchOption{BranchName: base, OldBranchName: "main"})
	w.must(err)
	w.commit(base, "", "b.txt", "more\n")
	in, _, err := w.as(w.dev).CreatePullRequest(owner, name,
		gitea.CreatePullRequestOption{Head: head, Base: base, Title: "Work"})
	w.must(err)
	w.merges(in.Index)
	protect.RuleName, protect.EnablePush = base, true
	_, _, err = w.as(w.owner).CreateBranchProtection(owner, name, protect)
	w.must(err)
	return in.Index, sha
}

// refusesMerge waits until Merge is refused with words that contain says; a forge that has something to compute first
// refuses with others.
func (w *world) refusesMerge(c *Client, n int64, head, base string, cause forge.RefusalCause, says string) {
	w.Helper()
	var err error
	for range 40 {
		err = c.Merge(w.Context(), w.ref(n), head, base)
		no, ok := errors.AsType[*forge.Refusal](err)
		if ok && no.Cause == cause && strings.Contains(no.Words, says) {
			return
		}
		if err == nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	w.Errorf("a merge into %s: got %#v, %v, want cause %s and %q", base, err, err, cause, says)
}

// What a branch's protection requires is a reason of its own, in the forge's words.
func TestRefusedByProtection(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		for _, tt := range []struct {
			base  string
			rule  gitea.CreateBranchProtectionOption
			cause forge.RefusalCause
			says  string
			after func(n int64, head string)
		}{
			{
				"checks",
				gitea.CreateBranchProtectionOption{EnableStatusCheck: true, StatusCheckContexts: []string{"ci"}},
				forge.RefusedLate, "status checks", nil,
			},
			{
				"approvals",
				gitea.CreateBranchProtectionOption{RequiredApprovals: 1},
				forge.RefusedRule, "Does not have enough approvals", nil,
			},
			{
				"objections",
				gitea.CreateBranchProtectionOption{BlockOnRejectedReviews: true},
				forge.RefusedRule, "There are requested changes",
				func(n int64, head string) { w.verdict(w.review, n, head, gitea.ReviewStateRequestChanges) },
			},
			{
				"requests",
				gitea.CreateBranchProtectionOption{BlockOnOfficialReviewRequests: true},
				forge.RefusedRule, "There are official review requests",
				func(n int64, _ string) {
					owner, name := owner(w.repo)
					_, err := w.as(w.owner).CreateReviewRequests(owner, name, n,
						gitea.PullReviewRequestOptions{Reviewers: []string{w.review}})
					w.must(err)
				},
			},
			{
				"whitelist",
				gitea.CreateBranchProtectionOption{
					EnableMergeWhitelist: true, MergeWhitelistUsernames: []string{w.owner},
				},
				forge.RefusedRule, "User not allowed to merge PR", nil,
			},
			{
				"files",
				gitea.CreateBranchProtectionOption{ProtectedFilePatterns: "*.txt"},
				forge.RefusedRule, "Changed protected files", nil,
			},
			{
				"signed",
				gitea.CreateBranchProtectionOption{RequireSignedCommits: true},
				forge.RefusedRule, "t sign: nokey", nil,
			},
			{
				"newest",
				gitea.CreateBranchProtectionOption{BlockOnOutdatedBranch: true},
				forge.RefusedOutdated, "The head branch is behind the base branch", nil,
			},
		} {
			n, head := w.into(tt.base, "topic-"+tt.base, tt.rule)
			if tt.after != nil {
				tt.after(n, head)
			}
			w.refusesMerge(c, n, head, tt.base, tt.cause, tt.says)
		}
	})
}

// A repository that only fast-forwards refuses a pull request without its base's newest commit with a 500 without
// words. Brought up to date, it merges.
func TestRefusedFastForward(t *testing.T) {
	onEach(t, func(w *world) {
		w.mergesBy(gitea.MergeStyleFastForwardOnly)
		c := w.client()
		n, head := w.pull("topic", "Work", "")
		w.merges(n)
		w.commit("main", "", "b.txt", "more\n")
		w.refusesMerge(c, n, head, "main", forge.RefusedOutdated, "behind the base branch")
		now, err := c.Update(w.Context(), w.ref(n), head)
		w.must(err)
		w.merges(n)
		for range 40 {
			if err = c.Merge(w.Context(), w.ref(n), now.Head, "main"); err == nil {
				return
			}
			time.Sleep(250 * time.Millisecond)
		}
		w.Error(err)
	})
}

// What merges cleanly but does not rebase, and a merge style that is turned off, are for a person.
func TestRefusedStyles(t *testing.T) {
	onEach(t, func(w *world) {
		owner, name := owner(w.repo)
		w.mergesBy(gitea.MergeStyleRebase)
		c := w.client()
		w.commit("topic", "main", "a.txt", "one\n")
		n, _ := w.pull("other", "Other", "")
		w.commit("other", "", "main.txt", "theirs\n")
		head := w.commit("other", "", "main.txt", "ours\n")
		w.commit("main", "", "main.txt", "ours\n")
		w.merges(n)
		w.refusesMerge(c, n, head, "main", forge.RefusedRule, "rebase conflict at commit")
		_, _, err := w.as(w.owner).EditRepo(owner, name, gitea.EditRepoOption{
			HasPullRequests: new(true), AllowRebase: new(false), // Gitea reads the second only with the first
		})
		w.must(err)
		w.refusesMerge(c, n, head, "main", forge.RefusedRule, "merge style")
	})
}

// mergesBy sets the merge style of the repository.
func (w *world) mergesBy(style gitea.MergeStyle) {
	w.Helper()
	owner, name := owner(w.repo)
	_, _, err := w.as(w.owner).EditRepo(owner, name, gitea.EditRepoOption{
		HasPullRequests: new(true), AllowFastForwardOnlyMerge: new(true), AllowRebase: new(true), AllowMerge: new(true),
		DefaultMergeStyle: &style,
	})
	w.must(err)
}
