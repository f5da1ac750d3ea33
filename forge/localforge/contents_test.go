package localforge

import (
	"encoding/base64"
	"fmt"
	"testing"
)

func TestContents(t *testing.T) {
	w := newWorld(t)
	encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	const file = harb + "/contents/dir/new.txt"
	made := w.want(201, "dev", "POST", file, object{"content": encoded("1\n"), "message": "add it"}).object
	w.want(422, "dev", "POST", file, object{"content": encoded("2\n")})
	w.want(422, "dev", "PUT", file, object{"content": encoded("2\n")})
	w.want(422, "dev", "PUT", file, object{"content": encoded("2\n"), "sha": noCommit})
	w.want(200, "dev", "PUT", file, object{"content": encoded("2\n"), "sha": made["content"].(object)["sha"]})
	w.want(403, "reader", "POST", harb+"/contents/x", object{"content": encoded("x")})
	w.want(422, "dev", "POST", harb+"/contents/x", object{"content": "%%%"})
	w.want(404, "dev", "POST", harb+"/contents/x", object{"content": encoded("x"), "branch": "none"})

	got := w.want(200, "", "GET", file, nil).object
	if got["content"] != encoded("2\n") || got["encoding"] != "base64" || got["size"] != 2.0 || got["type"] != "file" {
		t.Errorf("the file is shown as %v", got)
	}
	if raw := w.want(200, "", "GET", harb+"/raw/dir/new.txt", nil).text; raw != "2\n" {
		t.Errorf("the raw file is %q, want %q", raw, "2\n")
	}
	w.want(404, "", "GET", harb+"/raw/dir/none.txt", nil)
	list := w.want(200, "", "GET", harb+"/contents", nil).list
	if names := fmt.Sprint(list[0]["name"], list[1]["name"], list[1]["type"]); len(list) != 3 ||
		names != "README.mddirdir" {
		t.Errorf("the folder is listed as %v", list)
	}
}

func TestManyFilesOnANewBranch(t *testing.T) {
	w := newWorld(t)
	batch := func(branch string, paths ...string) answered {
		var files []object
		for _, path := range paths {
			files = append(files, object{"operation": "create", "path": path, "content": ""})
		}
		return w.ask("dev", "POST", harb+"/contents", object{"files": files, "new_branch": branch, "message": "many"})
	}
	if got := batch("b", "a", "d/b", "d/c d.txt"); got.status != 201 || len(got.object["files"].([]any)) != 3 {
		t.Errorf("three files on a new branch: got %d: %s", got.status, got.text)
	}
	w.want(200, "", "GET", harb+"/contents/d/c%20d.txt?ref=b", nil)
	w.want(404, "", "GET", harb+"/contents/a", nil) // main is unchanged
	// These paths leave the tree, or would be more than a path to git fast-import.
	for _, path := range []string{"", "/a", "../a", "a/../b", ".git/config", "d/.git/x", "a\nD README.md", `"a"`} {
		if got := batch("c", path); got.status != 422 {
			t.Errorf("path %q: got %d, want 422", path, got.status)
		}
	}
	for _, branch := range []string{"two words", "x\nfrom " + noCommit, "a..b"} {
		if got := batch(branch, "a"); got.status != 422 {
			t.Errorf("branch %q: got %d, want 422", branch, got.status)
		}
	}
}

// The API can write the first commit of a repository.
func TestFirstCommit(t *testing.T) {
	w := newWorld(t)
	w.want(201, "dev", "POST", "/user/repos", object{"name": "new"})
	if got := w.want(200, "dev", "GET", "/repos/dev/new", nil).object; got["empty"] != true {
		t.Error("the new repository is not empty")
	}
	w.want(404, "dev", "POST", "/repos/dev/new/branches", object{"new_branch_name": "b"})
	w.want(201, "dev", "POST", "/repos/dev/new/contents/a", object{"content": ""})
	if got := w.want(200, "dev", "GET", "/repos/dev/new", nil).object; got["empty"] != false ||
		got["default_branch"] != "main" {
		t.Errorf("after a commit: empty %v, default branch %v; want false, main", got["empty"], got["default_branch"])
	}
	w.want(409, "dev", "POST", "/user/repos", object{"name": "NEW"})
	w.want(204, "dev", "DELETE", "/repos/dev/new", nil)
	w.want(404, "dev", "GET", "/repos/dev/new", nil)
	w.want(201, "dev", "POST", "/user/repos", object{"name": "new", "auto_init": true})
	w.want(200, "dev", "GET", "/repos/dev/new/raw/README.md", nil)
}
