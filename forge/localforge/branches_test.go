package localforge

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestBranches(t *testing.T) {
	w := newWorld(t)
	head := w.push(w.clone("dev"), "fix/issue-1", "a.txt", "a\n")
	for _, row := range []struct {
		form object
		want int
	}{
		{object{"new_branch_name": "b"}, 201},
		{object{"new_branch_name": "b"}, 409},
		{object{"new_branch_name": "c", "old_branch_name": "fix/issue-1"}, 201},
		{object{"new_branch_name": "e", "old_branch_name": "none"}, 404},
		{object{"new_branch_name": "two words"}, 422},
		{object{"new_branch_name": "line\nend"}, 422},
		{object{}, 422},
	} {
		if got := w.ask("dev", "POST", harb+"/branches", row.form); got.status != row.want {
			t.Errorf("%v: got %d, want %d: %s", row.form, got.status, row.want, got.text)
		}
	}
	for _, name := range []string{"c", "fix/issue-1", "fix%2Fissue-1"} {
		got := w.want(200, "", "GET", harb+"/branches/"+name, nil).object
		if got["commit"].(object)["id"] != head {
			t.Errorf("the branch %s is at %v, want %s", name, got["commit"].(object)["id"], head)
		}
	}
	if list := w.want(200, "", "GET", harb+"/branches", nil).list; len(list) != 4 {
		t.Errorf("got %d branches, want 4", len(list))
	}
	w.want(204, "dev", "DELETE", harb+"/branches/fix/issue-1", nil)
	w.want(404, "dev", "GET", harb+"/branches/fix/issue-1", nil)
	w.want(403, "dev", "DELETE", harb+"/branches/main", nil)
}

// Of several concurrent requests that create one branch, exactly one succeeds.
func TestBranchRace(t *testing.T) {
	w := newWorld(t)
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch w.ask("dev", "POST", harb+"/branches", object{"new_branch_name": "claim/7"}).status {
			case 201:
				won.Add(1)
			case 409:
				lost.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 7 {
		t.Errorf("%d requests got 201 and %d got 409, want 1 and 7", won.Load(), lost.Load())
	}
}
