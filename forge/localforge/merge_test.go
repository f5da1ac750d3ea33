package localforge

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestMergeStyles checks the result of each style on main. An additional commit on main makes a fast-forward
// impossible.
func TestMergeStyles(t *testing.T) {
	for _, row := range []struct {
		style   string
		status  int
		parents int
		subject string
	}{
		{"merge", 200, 2, "Merge pull request 't' (#1) from b into main"},
		{"squash", 200, 1, "t (#1)"},
		{"rebase", 200, 1, "change c.txt"},
		{"rebase-merge", 200, 2, "Merge pull request 't' (#1) from b into main"},
		{"fast-forward-only", 500, 1, "change main.txt"},
		{"by-hand", 422, 1, "change main.txt"},
		{"", 422, 1, "change main.txt"},
	} {
		t.Run(row.style, func(t *testing.T) {
			w := newQuietWorld(t)
			dir := w.f.repoLocked("johba", "harb").dir
			for _, change := range []object{
				{"path": "b.txt", "branch": "main", "new_branch": "b"},
				{"path": "c.txt", "branch": "b"},
				{"path": "main.txt", "branch": "main"},
			} {
				change["message"], change["content"] = fmt.Sprint("change ", change["path"]), "eA=="
				w.want(201, "dev", "POST", fmt.Sprint(harb, "/contents/", change["path"]), change)
			}
			w.open("b", "t", "")
			w.want(row.status, "dev", "POST", harb+"/pulls/1/merge", object{"Do": row.style})
			about := w.git(dir, "log", "-1", "--format=%s|%P|%cn", "main")
			subject, rest, _ := strings.Cut(about, "|")
			parents, by, _ := strings.Cut(rest, "|")
			if subject != row.subject || len(strings.Fields(parents)) != row.parents {
				t.Errorf("the last commit on main is %q", about)
			}
			if row.status != 200 {
				return
			}
			if by != "dev" {
				t.Errorf("the merge commit is by %q, want dev", by)
			}
			for _, file := range []string{"b.txt", "c.txt", "main.txt"} {
				w.want(200, "", "GET", harb+"/raw/"+file, nil)
			}
			if p := w.pull(1); p["merged"] != true || p["state"] != "closed" ||
				p["merge_commit_sha"] != w.git(dir, "rev-parse", "main") {
				t.Errorf("the pull request has merged %v, state %v, commit %v", p["merged"], p["state"], p["merge_commit_sha"])
			}
		})
	}
}

func TestMergeIsRefused(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("dev")
	old := w.push(dir, "b", "b.txt", "b\n")
	w.open("b", "t", "")
	head := w.push(dir, "b", "b.txt", "c\n")
	merge := func(who string, form object) int { return w.ask(who, "POST", harb+"/pulls/1/merge", form).status }
	for _, row := range []struct {
		why  string
		who  string
		form object
		want int
	}{
		{"not signed in", "", object{"Do": "merge"}, 401},
		{"a reader", "reader", object{"Do": "merge"}, 405},
		{"another head", "dev", object{"Do": "merge", "head_commit_id": old}, 409},
		{"nothing", "dev", object{"Do": "merge", "head_commit_id": head}, 200},
		{"merged", "dev", object{"Do": "merge"}, 405},
	} {
		if got := merge(row.who, row.form); got != row.want {
			t.Errorf("%s: got %d, want %d", row.why, got, row.want)
		}
	}
	w.want(412, "dev", "PATCH", harb+"/pulls/1", object{"state": "open"})
	w.push(dir, "d", "d.txt", "d\n")
	w.open("d", "t", "")
	w.want(201, "dev", "PATCH", harb+"/pulls/2", object{"state": "closed"})
	w.want(404, "dev", "POST", harb+"/pulls/2/merge", object{"Do": "merge"})
}

// Only one of many concurrent merges of a pull request succeeds, and main moves once.
func TestMergeRace(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("dev")
	w.push(dir, "b", "b.txt", "b\n")
	w.open("b", "t", "")
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if w.ask("dev", "POST", harb+"/pulls/1/merge", object{"Do": "merge"}).status == 200 {
				won.Add(1)
			}
		})
	}
	all.Wait()
	w.git(dir, "fetch", "-q")
	if n := w.git(dir, "rev-list", "--count", "--merges", "origin/main"); won.Load() != 1 || n != "1" {
		t.Errorf("%d merges got status 200, main has %s merge commits; want 1 and 1", won.Load(), n)
	}
}

// After a merge, a pull request that went to the merged branch goes to that branch's base.
func TestDeleteBranchAfterMerge(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("dev")
	w.push(dir, "b", "b.txt", "b\n")
	w.git(dir, "checkout", "-q", "-b", "on-b")
	w.push(dir, "on-b", "c.txt", "c\n")
	w.open("b", "t", "")
	w.want(201, "dev", "POST", harb+"/pulls", object{"head": "on-b", "base": "b", "title": "stacked"})
	w.want(200, "dev", "POST", harb+"/pulls/1/merge", object{"Do": "merge", "delete_branch_after_merge": true})
	w.want(404, "dev", "GET", harb+"/branches/b", nil)
	if p := w.pull(2); p["base"].(object)["ref"] != "main" || p["state"] != "open" || p["mergeable"] != true {
		t.Errorf("the stacked pull request goes to %v and is %v", p["base"].(object)["ref"], p["state"])
	}
}

func TestCommitMessageClosesOnDefaultBranchOnly(t *testing.T) {
	w := newWorld(t)
	w.file("one", "two")
	dir := w.clone("dev")
	commit := func(branch string, n int) {
		w.git(dir, "checkout", "-q", "-B", branch, "origin/main")
		w.git(dir, "commit", "-q", "--allow-empty", "-m", fmt.Sprintf("empty\n\nfixes #%d", n))
		w.git(dir, "push", "-q", "origin", branch)
	}
	commit("main", 1)
	commit("other", 2)
	if w.issue(1)["state"] != "closed" || w.issue(2)["state"] != "open" {
		t.Errorf("commits on main and on another branch left their issues %v and %v; want closed, open",
			w.issue(1)["state"], w.issue(2)["state"])
	}
}

func TestProtection(t *testing.T) {
	w := newWorld(t)
	w.want(201, "johba", "POST", harb+"/branch_protections", object{
		"rule_name": "main", "enable_push": false, "enable_status_check": true, "status_check_contexts": []string{"ci/*"},
		"required_approvals": 1, "block_on_rejected_reviews": true,
	})
	// A writer sees what a branch requires, but not the rule itself.
	branch := w.want(200, "dev", "GET", harb+"/branches/main", nil).object
	if branch["enable_status_check"] != true || fmt.Sprint(branch["status_check_contexts"]) != "[ci/*]" ||
		branch["user_can_push"] != false {
		t.Errorf("a writer sees the branch as %v", branch)
	}
	dir := w.clone("dev")
	head := w.push(dir, "b", "b.txt", "b\n")
	w.open("b", "t", "")
	for _, step := range []struct {
		do     func()
		reason string
	}{
		{func() {}, "status checks"},
		{func() {
			w.want(201, "dev", "POST", harb+"/statuses/"+head, object{"context": "lint", "state": "success"})
		}, "status checks"},
		{func() {
			w.want(201, "dev", "POST", harb+"/statuses/"+head, object{"context": "ci/a", "state": "failure"})
		}, "status checks"},
		{func() {
			w.want(201, "dev", "POST", harb+"/statuses/"+head, object{"context": "ci/a", "state": "success"})
		}, "approvals"},
		{func() { w.want(200, "reader", "POST", harb+"/pulls/1/reviews", object{"event": "APPROVED"}) }, "approvals"},
		{func() { w.want(200, "review", "POST", harb+"/pulls/1/reviews", object{"event": "APPROVED"}) }, ""},
		{func() {
			w.want(200, "johba", "POST", harb+"/pulls/1/reviews", object{"event": "REQUEST_CHANGES", "body": "no"})
		}, "requested changes"},
	} {
		step.do()
		if step.reason == "" {
			continue
		}
		got := w.want(405, "dev", "POST", harb+"/pulls/1/merge", object{"Do": "merge"}).object["message"].(string)
		if !strings.Contains(got, step.reason) {
			t.Errorf("the merge was refused with %q, want %q", got, step.reason)
		}
	}
	w.want(200, "johba", "POST", harb+"/pulls/1/merge", object{"Do": "merge", "force_merge": true})
}
