package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

var listRules = []rule{
	{
		"a page has at most fifty entries",
		"forge/forgejo, which requests 50 entries and computes the number of pages from X-Total-Count",
		pageCap,
	},
	{
		"the order of a list cannot be relied on",
		"threads, which sorts by priority and age, and forge/forgejo, which never stops at the first known item",
		listOrder,
	},
	{
		"a filter by several labels requires all of them",
		"forge/forgejo, which filters the result again",
		labelFilter,
	},
	{
		"an unknown label widens the list",
		"forge/forgejo, which lists all open items and filters them itself: upstream once blocked a person's issue",
		unknownLabelFilter,
	},
	{
		"issues and pull requests share numbers and lists",
		"forge.Ref, which names either kind, and forge/forgejo, which reads one list and claims both kinds alike",
		sharedLists,
	},
	{
		"only some lists report their length",
		"forge/forgejo, which uses X-Total-Count if there is one, and otherwise reads on until a page is empty",
		totals,
	},
	{
		"the comments of an issue are not paged",
		"forge/forgejo Comment, which looks for its marker among them",
		unpagedComments,
	},
	{
		"the comments of a repository are paged, oldest first",
		"forge/forgejo, which finds commands in the last pages, and must recognise an edited comment",
		allComments,
	},
	{
		"HEAD is answered with 405",
		"forge/forgejo and supervisor, which never use HEAD: upstream's status was wrong because it did",
		headRefused,
	},
	{
		"conditional requests are not supported",
		"forge/forgejo, whose cheap request uses since=, not If-None-Match",
		noETags,
	},
	{
		"a missing item is 404",
		"forge/forgejo, which reports forge.ErrNotFound: for a missing blocker, or an item that is gone at its release",
		missingThings,
	},
}

// pageCap skips servers whose administrator set another limit.
func pageCap(w *world) {
	settings := read[struct {
		Most int `json:"max_response_items"`
	}](w.anonymous(), "/settings/api")
	if settings.Most != 50 {
		w.Skipf("this server's limit is %d, not 50", settings.Most)
	}
	r := w.repo()
	const all = 53
	for n := range all {
		r.open(fmt.Sprintf("issue %d", n+1))
	}
	seen := map[int64]bool{}
	for page, want := range []int{50, 3, 0} {
		a := r.owner.get(r.at("/issues?limit=100&page=%d", page+1)).want(http.StatusOK)
		items := decode[[]issue](a)
		if items == nil {
			w.Errorf("page %d is %s, want a list", page+1, a)
		}
		same(w, fmt.Sprintf("items on page %d", page+1), len(items), want)
		same(w, "X-Total-Count", a.total(), all)
		for _, n := range numbers(items) {
			seen[n] = true
		}
	}
	same(w, "distinct items on all pages", len(seen), all)
}

// listOrder accepts both answers to sort=oldest: Forgejo 10 ignores it, and a later version may support it. Both answer
// newest first to any other value.
func listOrder(w *world) {
	r := w.repo()
	for range 3 {
		r.open("an issue")
	}
	w.nextSecond()
	r.comment(1, "the last change is to the oldest")
	for _, query := range []string{"", "state=all&since=2001-01-01T00:00:00Z"} {
		same(w, "order of "+query, list(numbers(r.list(query))), "[3 2 1]")
	}
	got := numbers(r.list("sort=oldest"))
	if !slices.Equal(got, []int64{3, 2, 1}) && !slices.Equal(got, []int64{1, 2, 3}) {
		w.Errorf("sort=oldest: got %v, want all three", got)
	}
}

func labelFilter(w *world) {
	r := w.repo()
	r.label("backlog")
	r.label("priority")
	r.addLabels(r.open("both"), "backlog", "priority")
	r.addLabels(r.open("one"), "backlog")
	same(w, "with both", list(numbers(r.list("labels=backlog,priority"))), "[1]")
	same(w, "with one", list(numbers(r.list("labels=backlog"))), "[2 1]")
}

func unknownLabelFilter(w *world) {
	r := w.repo()
	r.label("backlog")
	r.addLabels(r.open("work"), "backlog")
	r.open("a question")
	same(w, "with a label that the repository lacks", list(numbers(r.list("labels=in-progress"))), "[2 1]")
	same(w, "with one that it has and one that it lacks", list(numbers(r.list("labels=backlog,in-progress"))), "[1]")
}

func sharedLists(w *world) {
	r := w.code("one")
	first := r.open("first")
	same(w, "number after issue 1", r.ready("one"), first+1)
	both := r.list("state=all")
	same(w, "all", list(numbers(both)), "[2 1]")
	if both[0].PullRequest == nil || both[1].PullRequest != nil {
		w.Error("the field pull_request does not distinguish the pull request from the issue")
	}
	same(w, "type=issues", list(numbers(r.list("type=issues"))), "[1]")
	same(w, "type=pulls", list(numbers(r.list("type=pulls"))), "[2]")
	r.label("in-progress")
	r.addLabels(2, "in-progress")
	r.assign(r.owner, 2, r.owner.name)
	same(w, "labels and assignees of the pull request", r.issue(2).labels()+" "+r.issue(2).assignees(),
		"in-progress "+r.owner.name)
	r.edit(first, fields{"state": "closed"})
	same(w, "without a state", list(numbers(r.list(""))), "[2]")
	same(w, "state=closed", list(numbers(r.list("state=closed"))), "[1]")
}

// totals: each list has at least three entries.
func totals(w *world) {
	r := w.repo()
	for _, name := range []string{"a", "b", "c"} {
		r.label(name)
		r.open(name)
	}
	r.open("blocked")
	for n := range int64(3) {
		r.dependsOn(4, n+1)
	}
	for _, want := range []struct {
		path  string
		total int
		end   string // answer to a request for a page after the last
	}{
		{"/labels", 3, "[]"},
		{"/issues", 4, "[]"},
		{"/issues/4/dependencies", -1, "[]"},
		{"/issues/4/timeline", 2, "null"}, // the number of entries on the page
	} {
		a := r.owner.get(r.at("%s?limit=2&page=1", want.path)).want(http.StatusOK)
		same(w, "entries of "+want.path, len(decode[[]any](a)), 2)
		same(w, "X-Total-Count of "+want.path, a.total(), want.total)
		a = r.owner.get(r.at("%s?limit=2&page=9", want.path)).want(http.StatusOK)
		same(w, "end of "+want.path, strings.TrimSpace(string(a.body)), want.end)
	}
}

func unpagedComments(w *world) {
	r := w.repo()
	r.open("talked about")
	for range 3 {
		r.comment(1, "something")
	}
	a := r.owner.get(r.at("/issues/1/comments?limit=2&page=1")).want(http.StatusOK)
	same(w, "comments", len(decode[[]any](a)), 3)
}

func allComments(w *world) {
	r := w.repo()
	first, second := r.open("first"), r.open("second")
	type comment struct {
		ID       int64     `json:"id"`
		Body     string    `json:"body"`
		IssueURL string    `json:"issue_url"`
		Created  time.Time `json:"created_at"`
		Updated  time.Time `json:"updated_at"`
	}
	for i, n := range []int64{second, first, second} {
		r.comment(n, fmt.Sprint("comment ", i))
	}
	shown := func(query string) (string, []comment) {
		a := r.owner.get(r.at("/issues/comments?%s", query)).want(http.StatusOK)
		all, text := decode[[]comment](a), ""
		for _, m := range all {
			text += fmt.Sprintf("%s on %s, ", m.Body, m.IssueURL[strings.LastIndexByte(m.IssueURL, '/')+1:])
		}
		return fmt.Sprintf("%sof %d", text, a.total()), all
	}
	page, _ := shown("limit=2&page=1")
	same(w, "page 1", page, "comment 0 on 2, comment 1 on 1, of 3")
	page, all := shown("limit=2&page=2")
	same(w, "page 2", page, "comment 2 on 2, of 3")
	last := all[0]
	same(w, "updated_at of a new comment equals created_at", last.Updated.Equal(last.Created), true)
	w.nextSecond()
	r.owner.patch(r.at("/issues/comments/%d", last.ID), fields{"body": "edited"}).want(http.StatusOK)
	page, all = shown("since=" + last.Created.Add(time.Second).UTC().Format(time.RFC3339))
	same(w, "since the second after it", page, "edited on 2, of 1")
	same(w, "created", all[0].Created.Equal(last.Created), true)
	same(w, "updated_at of an edited comment is later", all[0].Updated.After(last.Created), true)
}

func headRefused(w *world) {
	r := w.repo()
	for _, path := range []string{"/version", r.at(""), r.at("/issues")} {
		r.owner.call(http.MethodHead, path, nil).want(http.StatusMethodNotAllowed)
	}
}

func noETags(w *world) {
	r := w.repo()
	r.open("first")
	a := r.owner.get(r.at("/issues")).want(http.StatusOK)
	for _, key := range []string{"ETag", "Last-Modified"} {
		same(w, key, a.header.Get(key), "")
	}
	if a.header.Get("Date") == "" {
		w.Error("the answer has no Date, from which the next since= is computed")
	}
}

func missingThings(w *world) {
	r := w.repo()
	for _, path := range []string{
		"/repos/" + r.owner.name + "/nonesuch", "/repos/nonesuch-" + w.suffix + "/harb/issues",
		r.at("/issues/999"), r.at("/pulls/999"), r.at("/branches/nonesuch"),
	} {
		r.owner.get(path).want(http.StatusNotFound)
	}
	r.owner.patch(r.at("/issues/999"), fields{"state": "closed"}).want(http.StatusNotFound)
	r.owner.get(r.at("/issues/999/comments")).refused() // 500 in Forgejo 10
}
