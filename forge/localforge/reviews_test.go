package localforge

import (
	"fmt"
	"testing"
)

func (w *world) reviews() (list []string) {
	w.t.Helper()
	for _, r := range w.want(200, "dev", "GET", harb+"/pulls/1/reviews", nil).list {
		line := fmt.Sprint(r["user"].(object)["login"], " ", r["state"])
		for _, flag := range []string{"stale", "official", "dismissed"} {
			if r[flag] == true {
				line += " " + flag
			}
		}
		list = append(list, line)
	}
	return list
}

func TestReviews(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("dev")
	head := w.push(dir, "b", "b.txt", "b\n")
	w.open("b", "t", "")
	const path = harb + "/pulls/1/reviews"
	for _, row := range []struct {
		who  string
		form object
		want int
	}{
		{"dev", object{"event": "APPROVED", "body": "mine"}, 422},
		{"dev", object{"event": "REQUEST_CHANGES", "body": "mine"}, 422},
		{"dev", object{"event": "COMMENT", "body": "mine"}, 200},
		{"review", object{"event": "REQUEST_CHANGES"}, 422},
		{"review", object{"event": "COMMENT"}, 422},
		{"review", object{"event": "REQUEST_CHANGES", "body": "no", "commit_id": head}, 200},
		{"reader", object{"event": "APPROVED"}, 200},
		{"review", object{"event": "APPROVED", "commit_id": head}, 200},
		{"johba", object{"event": "APPROVED", "commit_id": "1111111111111111111111111111111111111111"}, 500},
		{"", object{"event": "APPROVED"}, 401},
	} {
		if got := w.ask(row.who, "POST", path, row.form); got.status != row.want {
			t.Errorf("%s %v: got %d, want %d: %s", row.who, row.form, got.status, row.want, got.text)
		}
	}
	check := func(when string, want ...string) {
		t.Helper()
		if got := w.reviews(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\ngot  %q\nwant %q", when, got, want)
		}
	}
	check("after a newer verdict, the older one is dismissed",
		"dev COMMENT", "review REQUEST_CHANGES dismissed", "reader APPROVED", "review APPROVED official")

	w.git(dir, "commit", "-q", "--amend", "-m", "said better")
	w.git(dir, "push", "-q", "-f", "origin", "b")
	check("after a push that changes no file",
		"dev COMMENT", "review REQUEST_CHANGES dismissed", "reader APPROVED", "review APPROVED official")

	w.push(dir, "b", "b.txt", "c\n")
	check("after a push that changes a file",
		"dev COMMENT stale", "review REQUEST_CHANGES stale dismissed", "reader APPROVED stale",
		"review APPROVED stale official")

	if got := w.want(200, "review", "POST", path, object{"event": "APPROVED", "commit_id": head}).
		object; got["stale"] != true {
		t.Error("a verdict on the commit before the push is not stale")
	}
	if got := w.want(200, "review", "POST", path, object{"event": "APPROVED"}).object; got["stale"] != false ||
		got["commit_id"] == head {
		t.Errorf("a verdict on the present commit: stale %v, on %v", got["stale"], got["commit_id"])
	}
}

func TestDismissal(t *testing.T) {
	w := newWorld(t)
	w.push(w.clone("dev"), "b", "b.txt", "b\n")
	w.open("b", "t", "")
	id := w.want(200, "review", "POST", harb+"/pulls/1/reviews", object{"event": "REQUEST_CHANGES", "body": "no"}).
		object["id"]
	path := fmt.Sprintf("%s/pulls/1/reviews/%v", harb, id)
	w.want(403, "dev", "POST", path+"/dismissals", object{"message": "m"})
	w.want(200, "johba", "POST", path+"/dismissals", object{"message": "m"})
	if got := w.reviews(); fmt.Sprint(got) != "[review REQUEST_CHANGES official dismissed]" {
		t.Errorf("after the dismissal: %q", got)
	}
}

// Only its author can see a pending review.
func TestPendingReview(t *testing.T) {
	w := newWorld(t)
	w.push(w.clone("dev"), "b", "b.txt", "b\n")
	w.open("b", "t", "")
	w.want(200, "review", "POST", harb+"/pulls/1/reviews", object{"body": "not yet"})
	if got := w.reviews(); len(got) != 0 {
		t.Errorf("the author of the pull request sees %q", got)
	}
}

func TestStatuses(t *testing.T) {
	w := newWorld(t)
	head := w.push(w.clone("dev"), "b", "b.txt", "b\n")
	combined := func() object { return w.want(200, "dev", "GET", harb+"/commits/"+head+"/status", nil).object }
	if got := combined(); got["state"] != "" || got["statuses"] != nil {
		t.Errorf("a commit without reports has the status %v", got)
	}
	for _, row := range []struct{ context, state, want string }{
		{"a", "pending", "pending"},
		{"b", "success", "pending"},
		{"a", "success", "success"},
		{"c", "warning", "warning"},
		{"a", "error", "failure"}, // the combined state is never "error"
		{"a", "success", "warning"},
	} {
		w.want(201, "dev", "POST", harb+"/statuses/"+head, object{"context": row.context, "state": row.state})
		if got := combined(); got["state"] != row.want {
			t.Errorf("after %s of the check %s: got %v, want %s", row.state, row.context, got["state"], row.want)
		}
	}
	w.want(403, "reader", "POST", harb+"/statuses/"+head, object{"state": "success"})
	w.want(500, "dev", "POST", harb+"/statuses/1111111111111111111111111111111111111111", object{"state": "success"})
	if got := w.want(200, "dev", "GET", harb+"/commits/b/status", nil).object["state"]; got != "warning" {
		t.Errorf("the status of the branch is %v, want that of its commit", got)
	}
}
