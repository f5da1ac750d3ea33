package localforge

import (
	"testing"

	"code.gitea.io/sdk/gitea"
)

// TestSDK takes an issue through its whole life with the Gitea SDK: it is filed, claimed, worked on, reviewed, merged
// and closed.
func TestSDK(t *testing.T) {
	w := newWorld(t)
	johba, dev, review := w.sdk("johba"), w.sdk("dev"), w.sdk("review")

	label, _, err := johba.CreateLabel("johba", "harb", gitea.CreateLabelOption{Name: "backlog", Color: "#00aabb"})
	w.must(err)
	issue, _, err := johba.CreateIssue("johba", "harb",
		gitea.CreateIssueOption{Title: "say four", Body: "please", Labels: []int64{label.ID}})
	w.must(err)
	if issue.Index != 1 || issue.State != gitea.StateOpen || len(issue.Labels) != 1 || issue.Poster.UserName != "johba" {
		t.Fatalf("the created issue is %+v", issue)
	}
	claimed, _, err := dev.EditIssue("johba", "harb", 1, gitea.EditIssueOption{Assignees: []string{"dev"}})
	w.must(err)
	if len(claimed.Assignees) != 1 || claimed.Assignees[0].UserName != "dev" {
		t.Fatalf("assignees after the claim: %+v", claimed.Assignees)
	}

	dir := w.clone("dev")
	head := w.push(dir, "fix/issue-1", "src/main.txt", "one\ntwo\nthree\nfour\n")
	pull, _, err := dev.CreatePullRequest("johba", "harb", gitea.CreatePullRequestOption{
		Head: "fix/issue-1", Base: "main", Title: "Say four", Body: "Fixes #1",
	})
	w.must(err)
	if pull.Head.Sha != head || !pull.Mergeable {
		t.Fatalf("pull request as opened: head %s (want %s) mergeable %v", pull.Head.Sha, head, pull.Mergeable)
	}
	files, _, err := review.ListPullRequestFiles("johba", "harb", pull.Index, gitea.ListPullRequestFilesOptions{})
	w.must(err)
	if len(files) != 1 || files[0].Filename != "src/main.txt" {
		t.Fatalf("the pull request changes %+v", files)
	}
	verdict, _, err := review.CreatePullReview("johba", "harb", pull.Index, gitea.CreatePullReviewOptions{
		State: gitea.ReviewStateApproved, Body: "good", CommitID: head,
	})
	w.must(err)
	if !verdict.Official || verdict.Stale || verdict.CommitID != head {
		t.Fatalf("the submitted review is %+v", verdict)
	}
	_, _, err = review.CreateStatus("johba", "harb", head,
		gitea.CreateStatusOption{State: gitea.StatusSuccess, Context: "ci"})
	w.must(err)
	combined, _, err := dev.GetCombinedStatus("johba", "harb", head)
	w.must(err)
	if combined.State != gitea.StatusSuccess {
		t.Fatalf("the combined status is %+v", combined)
	}

	merged, _, err := dev.MergePullRequest("johba", "harb", pull.Index, gitea.MergePullRequestOption{
		Style: gitea.MergeStyleMerge, HeadCommitId: head, DeleteBranchAfterMerge: new(true),
	})
	w.must(err)
	if !merged {
		t.Fatal("the SDK reports that the merge failed")
	}
	pull, _, err = dev.GetPullRequest("johba", "harb", pull.Index)
	w.must(err)
	if !pull.HasMerged || pull.MergedBy.UserName != "dev" || pull.State != gitea.StateClosed || pull.Head.Sha != head {
		t.Fatalf("pull request after the merge: %+v", pull)
	}
	issue, _, err = dev.GetIssue("johba", "harb", 1)
	w.must(err)
	if issue.State != gitea.StateClosed {
		t.Fatal("the merge did not close the issue")
	}
	main, _, err := dev.GetRepoBranch("johba", "harb", "main")
	w.must(err)
	if main.Commit.ID != *pull.MergedCommitID {
		t.Fatalf("main is at %s, but the merge made %s", main.Commit.ID, *pull.MergedCommitID)
	}
	if _, resp, err := dev.GetRepoBranch("johba", "harb", "fix/issue-1"); err == nil || resp.StatusCode != 404 {
		t.Fatalf("the merged branch is still there: %v", err)
	}
}
