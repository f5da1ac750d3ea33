package localforge

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"
)

func TestListIsPagedAndNewestFirst(t *testing.T) {
	w := newWorld(t)
	for n := range 60 {
		w.file(fmt.Sprint("issue ", n+1))
	}
	for _, row := range []struct {
		query       string
		first, last int
		size        int
	}{
		{"", 60, 31, 30},
		{"limit=100", 60, 11, 50}, // the upper limit
		{"limit=100&page=2", 10, 1, 10},
		{"limit=20&page=2", 40, 21, 20},
		{"limit=100&sort=oldest", 60, 11, 50}, // sort is ignored
	} {
		got := w.want(200, "dev", "GET", harb+"/issues?"+row.query, nil)
		n := numbers(got.list)
		if len(n) != row.size || n[0] != row.first || n[len(n)-1] != row.last {
			t.Errorf("%q: got %v, want %d from %d down to %d", row.query, n, row.size, row.first, row.last)
		}
		if total := got.header.Get("X-Total-Count"); total != "60" {
			t.Errorf("%q: the total is %s, want 60", row.query, total)
		}
	}
	past := w.want(200, "dev", "GET", harb+"/issues?page=9", nil)
	if past.text != "[]\n" {
		t.Errorf("a page after the last is %q, want an empty list", past.text)
	}
}

func TestListFilters(t *testing.T) {
	clock := newClock()
	w := newWorld(t, func(o *Options) { o.Now = clock.now })
	for _, name := range []string{"backlog", "priority"} {
		w.want(201, "johba", "POST", harb+"/labels", object{"name": name, "color": "#fff"})
	}
	var at []time.Time // when each issue was filed
	for _, title := range []string{"one", "two", "three"} {
		at = append(at, clock.pass(time.Minute))
		w.file(title)
	}
	dir := w.clone("dev")
	w.push(dir, "b", "b.txt", "b\n")
	clock.pass(time.Minute)
	w.open("b", "a pull request", "") // number 4
	w.want(201, "johba", "PATCH", harb+"/issues/1", object{"state": "closed"})
	w.want(200, "johba", "POST", harb+"/issues/2/labels", object{"labels": []string{"backlog", "priority"}})
	w.want(200, "johba", "POST", harb+"/issues/3/labels", object{"labels": []string{"backlog"}})
	w.want(201, "johba", "PATCH", harb+"/issues/3", object{"assignees": []string{"dev"}})
	all := at[0].Format(time.RFC3339)

	for _, row := range []struct {
		query string
		want  []int
	}{
		{"", []int{4, 3, 2}},
		{"state=closed", []int{1}},
		{"state=all", []int{4, 3, 2, 1}},
		{"state=all&type=issues", []int{3, 2, 1}},
		{"state=all&type=pulls", []int{4}},
		{"labels=backlog", []int{3, 2}},
		{"labels=backlog,priority", []int{2}},       // both labels are required
		{"labels=in-progress", []int{4, 3, 2}},      // an unknown label: no filter at all
		{"labels=backlog,in-progress", []int{3, 2}}, // the unknown label is ignored
		{"assigned_by=dev", []int{3}},
		{"created_by=dev", []int{4}},
		{"state=all&since=" + url.QueryEscape(all), []int{4, 3, 2, 1}},
		{
			"state=all&since=" + url.QueryEscape(clock.now().Format(time.RFC3339)),
			[]int{4, 3, 2, 1},
		}, // a span includes its ends
		{"state=all&since=" + url.QueryEscape(clock.now().Add(time.Second).Format(time.RFC3339)), nil},
	} {
		got := numbers(w.want(200, "dev", "GET", harb+"/issues?"+row.query, nil).list)
		if !slices.Equal(got, row.want) {
			t.Errorf("%q: got %v, want %v", row.query, got, row.want)
		}
	}
	w.want(422, "dev", "GET", harb+"/issues?since=yesterday", nil)
	w.want(404, "dev", "GET", harb+"/issues?created_by=nobody", nil)
}

// Incremental scans rely on which changes move updated_at.
func TestWhatMovesUpdatedAt(t *testing.T) {
	clock := newClock()
	w := newWorld(t, func(o *Options) { o.Now = clock.now })
	w.want(201, "johba", "POST", harb+"/labels", object{"name": "backlog", "color": "#fff"})
	w.file("one", "two", "three") // numbers 1, 2 and 3
	dir := w.clone("dev")
	head := w.push(dir, "fix/issue-1", "a.txt", "a\n")
	w.open("fix/issue-1", "a pull request", "") // number 4
	meta := func(n int) object { return object{"owner": "johba", "repo": "harb", "index": n} }

	for _, row := range []struct {
		what string
		do   func()
		want []int
	}{
		{
			"label", func() { w.want(200, "dev", "POST", harb+"/issues/1/labels", object{"labels": []string{"backlog"}}) },
			[]int{1},
		},
		{"label that the issue has", func() {
			w.want(200, "dev", "POST", harb+"/issues/1/labels",
				object{"labels": []string{"backlog"}})
		}, nil},
		{"unknown label", func() {
			w.want(200, "dev", "POST", harb+"/issues/1/labels",
				object{"labels": []string{"none"}})
		}, nil},
		{
			"assignee", func() { w.want(201, "dev", "PATCH", harb+"/issues/1", object{"assignees": []string{"dev"}}) },
			[]int{1},
		},
		{
			"same assignee", func() { w.want(201, "dev", "PATCH", harb+"/issues/1", object{"assignees": []string{"dev"}}) },
			nil,
		},
		{"body", func() { w.want(201, "dev", "PATCH", harb+"/issues/1", object{"body": "more"}) }, []int{1}},
		{"comment", func() { w.want(201, "dev", "POST", harb+"/issues/1/comments", object{"body": "hi"}) }, []int{1}},
		{
			"comment that mentions", func() { w.want(201, "dev", "POST", harb+"/issues/1/comments", object{"body": "see #3"}) },
			[]int{3, 1},
		},
		{"dependency: both ends", func() { w.want(201, "dev", "POST", harb+"/issues/2/dependencies", meta(1)) }, []int{2, 1}},
		{"closing a blocker", func() { w.want(201, "dev", "PATCH", harb+"/issues/1", object{"state": "closed"}) }, []int{1}},
		{
			"dependency removed: both ends", func() { w.want(201, "dev", "DELETE", harb+"/issues/2/dependencies", meta(1)) },
			[]int{2, 1},
		},
		{"commit status", func() {
			w.want(201, "dev", "POST", harb+"/statuses/"+head, object{"state": "success", "context": "ci"})
		}, nil},
		{"review", func() {
			w.want(200, "review", "POST", harb+"/pulls/4/reviews", object{"event": "APPROVED", "commit_id": head})
		}, []int{4}},
		{"push", func() { w.push(dir, "fix/issue-1", "a.txt", "b\n") }, []int{4}},
		{"push elsewhere", func() { w.push(dir, "other", "o.txt", "o\n") }, nil},
		{"deletion", func() { w.want(204, "johba", "DELETE", harb+"/issues/1", nil) }, nil},
	} {
		t.Run(row.what, func(t *testing.T) {
			since := clock.pass(time.Minute)
			row.do()
			path := harb + "/issues?state=all&since=" + url.QueryEscape(since.Format(time.RFC3339))
			if got := numbers(w.want(200, "dev", "GET", path, nil).list); !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// Assignees have no compare-and-set: each PATCH replaces the whole list.
func TestLastAssigneeWins(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	for _, names := range [][]string{{"dev", "review"}, {"review"}, {"dev"}, {}} {
		got := w.want(201, "johba", "PATCH", harb+"/issues/1", object{"assignees": names}).object
		if len(names) == 0 {
			if got["assignees"] != nil || got["assignee"] != nil {
				t.Errorf("without assignees: got %v and %v, want null twice", got["assignees"], got["assignee"])
			}
			continue
		}
		if list := got["assignees"].([]any); len(list) != len(names) {
			t.Errorf("set the assignees %v, got %v", names, list)
		}
		if first := got["assignee"].(object)["login"]; first != names[0] {
			t.Errorf("set the assignees %v, but the first is %v", names, first)
		}
	}
	// An account without write access can file and edit its own issues, but cannot assign.
	w.want(201, "stranger", "POST", harb+"/issues", object{"title": "mine", "assignees": []string{"dev"}})
	w.want(201, "stranger", "PATCH", harb+"/issues/2", object{"assignees": []string{"dev"}, "title": "still mine"})
	if got := w.issue(2); got["assignees"] != nil || got["title"] != "still mine" {
		t.Errorf("a stranger's issue: %v, assignees %v", got["title"], got["assignees"])
	}
}

func TestIssueLabels(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	for _, name := range []string{"ready", "free"} {
		w.want(201, "johba", "POST", harb+"/labels", object{"name": name, "color": "#fff"})
	}
	w.want(200, "dev", "POST", harb+"/issues/1/labels", object{"labels": []string{"ready", "free"}})
	var names []string
	for _, l := range w.want(200, "dev", "GET", harb+"/issues/1/labels", nil).list {
		names = append(names, l["name"].(string))
	}
	if !slices.Equal(names, []string{"free", "ready"}) {
		t.Errorf("labels are %v", names)
	}
	w.want(400, "dev", "POST", harb+"/issues/1/labels", object{"labels": []any{"free", 1}})
	w.want(422, "dev", "DELETE", harb+"/issues/1/labels/free", nil) // a label is removed by id only
}

func TestTimelineTellsWhoDidWhat(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	w.want(201, "johba", "POST", harb+"/labels", object{"name": "in-progress", "color": "#fff"})
	w.want(200, "dev", "POST", harb+"/issues/1/labels", object{"labels": []string{"in-progress"}})
	w.want(201, "dev", "PATCH", harb+"/issues/1", object{"assignees": []string{"dev"}})
	w.want(201, "dev", "PATCH", harb+"/issues/1", object{"state": "closed"})
	var kinds []string
	for _, line := range w.want(200, "dev", "GET", harb+"/issues/1/timeline", nil).list {
		kinds = append(kinds, line["type"].(string))
		if line["user"].(object)["login"] != "dev" {
			t.Errorf("the entry %s is by %v, want dev", line["type"], line["user"])
		}
	}
	if want := []string{"label", "assignees", "close"}; !slices.Equal(kinds, want) {
		t.Errorf("timeline is %v, want %v", kinds, want)
	}
}
