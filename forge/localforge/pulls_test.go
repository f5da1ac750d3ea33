package localforge

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOpenPull(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	dir := w.clone("dev")
	head := w.push(dir, "fix/issue-1", "src/main.txt", "one\n2\nthree\n")
	form := func(head, base string) object { return object{"head": head, "base": base, "title": "t"} }
	w.want(422, "dev", "POST", harb+"/pulls", form("main", "main"))
	w.want(404, "dev", "POST", harb+"/pulls", form("none", "main"))
	w.want(404, "dev", "POST", harb+"/pulls", form("fix/issue-1", "none"))
	w.want(404, "dev", "POST", harb+"/pulls", form("stranger:fix/issue-1", "main"))
	w.want(201, "dev", "POST", harb+"/pulls", form("johba:fix/issue-1", "main"))
	w.want(409, "dev", "POST", harb+"/pulls", form("fix/issue-1", "main"))

	p := w.pull(2)
	base := w.git(dir, "rev-parse", "origin/main")
	if at := p["head"].(object); at["sha"] != head || at["ref"] != "fix/issue-1" {
		t.Errorf("the head is %v, want %s", at["sha"], head)
	}
	if p["base"].(object)["sha"] != base || p["merge_base"] != base {
		t.Errorf("the base is %v and the merge base %v, want %s", p["base"].(object)["sha"], p["merge_base"], base)
	}
	if p["mergeable"] != true {
		t.Error("the new pull request is not mergeable")
	}
	if diff := w.want(200, "", "GET", harb+"/pulls/2.diff", nil).text; !strings.Contains(diff, "-two\n+2\n") {
		t.Errorf("the diff does not replace two by 2:\n%s", diff)
	}
	if commits := w.want(200, "", "GET", harb+"/pulls/2/commits", nil).list; len(commits) != 1 ||
		commits[0]["sha"] != head {
		t.Errorf("the pull request has the commits %v, want %s", commits, head)
	}
	if got := w.git(dir, "ls-remote", "origin", "refs/pull/2/head"); !strings.HasPrefix(got, head) {
		t.Errorf("refs/pull/2/head is at %q, want %s", got, head)
	}
	w.want(404, "dev", "GET", harb+"/pulls/1", nil) // an issue is not a pull request
	if w.issue(2)["pull_request"] == nil {
		t.Error("the pull request, read as an issue, has no pull_request")
	}
}

func TestChangedFiles(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("dev")
	w.git(dir, "checkout", "-q", "-b", "b")
	w.git(dir, "mv", "src/main.txt", "src/moved.txt")
	w.git(dir, "rm", "-q", "README.md")
	w.push(dir, "b", "new file.txt", "new\n")
	w.open("b", "t", "")
	var got []string
	for _, f := range w.want(200, "dev", "GET", harb+"/pulls/1/files", nil).list {
		got = append(got, f["filename"].(string))
	}
	if want := []string{"README.md", "new file.txt", "src/moved.txt"}; !slices.Equal(got, want) {
		t.Errorf("got the files %q, want %q", got, want)
	}
}

func TestConflict(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("dev")
	w.push(dir, "a", "src/main.txt", "A\n")
	w.push(dir, "b", "src/main.txt", "B\n")
	w.open("a", "a", "")
	w.open("b", "b", "")
	if w.pull(2)["mergeable"] != true {
		t.Fatal("the second pull request is not mergeable before the first is merged")
	}
	w.want(200, "dev", "POST", harb+"/pulls/1/merge", object{"Do": "merge"})
	if w.pull(2)["mergeable"] != false {
		t.Error("the second pull request is mergeable after the first is merged")
	}
	w.want(405, "dev", "POST", harb+"/pulls/2/merge", object{"Do": "merge"})

	w.git(dir, "fetch", "-q")
	w.git(dir, "checkout", "-q", "b")
	w.git(dir, "merge", "-q", "-X", "ours", "origin/main", "-m", "mine is better")
	w.git(dir, "push", "-q", "origin", "b")
	if w.pull(2)["mergeable"] != true {
		t.Error("the pull request is not mergeable after its conflict was resolved")
	}
	w.want(200, "dev", "POST", harb+"/pulls/2/merge", object{"Do": "merge"})
}

// change commits a file over the API and returns the commit. A new branch begins at main.
func (w *world) change(branch, path, body string) string {
	w.t.Helper()
	form := object{
		"branch": branch,
		"files":  []object{{"operation": "create", "path": path, "content": base64.StdEncoding.EncodeToString([]byte(body))}},
	}
	if w.ask("dev", "GET", harb+"/branches/"+branch, nil).status == 404 {
		form["branch"], form["new_branch"] = "main", branch
	}
	return w.want(201, "dev", "POST", harb+"/contents", form).object["commit"].(object)["sha"].(string)
}

// TestLag: the effects of a moved branch come late, in Forgejo's order.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = time.Second
		w := newQuietWorld(t, func(o *Options) { o.Lag = lag })
		w.change("a", "same.txt", "A\n")
		w.change("b", "same.txt", "B\n")
		w.open("a", "a", "")
		w.open("b", "b", "")
		w.want(200, "dev", "POST", harb+"/pulls/1/merge", object{"Do": "merge"})
		if w.pull(2)["mergeable"] != true {
			t.Error("mergeability changed without a lag")
		}
		time.Sleep(lag + 1)
		synctest.Wait()
		if w.pull(2)["mergeable"] != false {
			t.Error("the pull request is mergeable while its check is due")
		}
		w.f.WaitIdle()
		if w.pull(2)["mergeable"] != false {
			t.Error("a pull request with a conflict is mergeable after its check")
		}

		w.change("c", "c.txt", "C\n")
		w.open("c", "c", "")
		opened := w.pull(3)["updated_at"]
		w.want(200, "review", "POST", harb+"/pulls/3/reviews", object{"event": "APPROVED"})
		time.Sleep(time.Minute)
		head := w.change("c", "c2.txt", "C\n")
		if p := w.pull(3); p["head"].(object)["sha"] != head || p["updated_at"] != opened || p["mergeable"] != true {
			t.Errorf("right after the push: head %v, updated %v, mergeable %v", p["head"].(object)["sha"],
				p["updated_at"], p["mergeable"])
		}
		if stale := w.want(200, "dev", "GET", harb+"/pulls/3/reviews", nil).list[0]["stale"]; stale != false {
			t.Error("the review is stale without a lag")
		}
		time.Sleep(lag + 1)
		synctest.Wait()
		if w.pull(3)["mergeable"] != false {
			t.Error("the pull request is mergeable while its check is due")
		}
		w.f.WaitIdle()
		if p := w.pull(3); p["updated_at"] == opened || p["mergeable"] != true {
			t.Errorf("after all effects: updated %v, mergeable %v", p["updated_at"], p["mergeable"])
		}
		if stale := w.want(200, "dev", "GET", harb+"/pulls/3/reviews", nil).list[0]["stale"]; stale != true {
			t.Error("the review of changed content is not stale")
		}
	})
}

func TestDraft(t *testing.T) {
	w := newWorld(t)
	w.push(w.clone("dev"), "b", "b.txt", "b\n")
	w.open("b", "wip: not yet", "")
	if p := w.pull(1); p["draft"] != true || p["mergeable"] != false {
		t.Errorf("got draft %v, mergeable %v", p["draft"], p["mergeable"])
	}
	w.want(405, "dev", "POST", harb+"/pulls/1/merge", object{"Do": "merge"})
	w.want(201, "dev", "PATCH", harb+"/pulls/1", object{"title": "now"})
	if p := w.pull(1); p["draft"] != false || p["mergeable"] != true {
		t.Errorf("got draft %v, mergeable %v", p["draft"], p["mergeable"])
	}
}

// Deleting the branch closes its pull request. Reopening the pull request requires the branch, and includes what was
// pushed to it meanwhile.
func TestBranchGoesAndComes(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("dev")
	head := w.push(dir, "b", "b.txt", "b\n")
	w.open("b", "t", "")
	w.git(dir, "push", "-q", "origin", ":b")
	if p := w.pull(1); p["state"] != "closed" || p["merged"] != false || p["head"].(object)["sha"] != head {
		t.Errorf("without its branch: %v, merged %v, head %v", p["state"], p["merged"], p["head"])
	}
	head = w.push(dir, "b", "b.txt", "again\n")
	w.want(201, "dev", "PATCH", harb+"/pulls/1", object{"state": "open"})
	if p := w.pull(1); p["state"] != "open" || p["head"].(object)["sha"] != head || p["mergeable"] != true {
		t.Errorf("reopened: state %v, head %v", p["state"], p["head"].(object)["sha"])
	}
	if got := w.git(dir, "ls-remote", "origin", "refs/pull/1/head"); !strings.HasPrefix(got, head) {
		t.Errorf("refs/pull/1/head is at %q, want %s", got, head)
	}
	w.want(200, "dev", "POST", harb+"/pulls/1/merge", object{"Do": "merge", "head_commit_id": head})
}
