package rules

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
)

var updateRules = []rule{
	{
		"changes of an issue move updated_at",
		"forge/forgejo Scan, which reads only what changed since the last scan",
		movesUpdated,
	},
	{
		"statuses, mergeability, blockers and edited comments do not move updated_at",
		"forge/forgejo Scan, which reads statuses and mergeability every 30 s, and blockers on their own",
		leavesUpdated,
	},
	{
		"a pull request's updated_at moves with reviews, pushes and its merge",
		"forge/forgejo Scan, which reads the details of changed pull requests, and later effects once more",
		movesPull,
	},
	{
		"since is inclusive, in whole seconds",
		"forge/forgejo Scan, which can pass the very second of the last change",
		sinceInclusive,
	},
	{
		"comments and timelines can be listed since a time",
		"forge/forgejo Look, which leaves out comments that were only edited since, and readHistory",
		talkSince,
	},
}

// changedAfter lists the items that changed in a later second.
func (r *repo) changedAfter(t time.Time) []issue {
	r.w.Helper()
	return r.changedSince(t.Add(time.Second))
}

func (r *repo) changedSince(t time.Time) []issue {
	r.w.Helper()
	return r.list("state=all&since=" + url.QueryEscape(t.UTC().Format(time.RFC3339)))
}

// movesUpdated makes each change to a separate issue, so that one second is enough for all. A dependency is on the
// issue that was opened just before. On Gitea a deleted comment moves nothing, which forge/forgejo Software tells.
func movesUpdated(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	id := r.label("backlog")
	none := func(int64) {}
	label := func(n int64) { r.addLabels(n, "backlog") }
	unlabel := func(n int64) { r.owner.remove(r.at("/issues/%d/labels/%d", n, id)).want(http.StatusNoContent) }
	assign := func(n int64) { r.assign(dev, n, dev.name) }
	edit := func(key, value string) func(int64) { return func(n int64) { r.edit(n, fields{key: value}) } }
	tie := func(n int64) { r.dependsOn(n, n-1) }
	comments := make(map[int64]int64)
	hello := func(n int64) { comments[n] = r.commentID(n, "hello") }
	changes := []struct {
		what       string
		before, do func(n int64)
		both       bool // the issue opened before moves too
	}{
		{"a comment", none, func(n int64) { r.comment(n, "hello") }, false},
		{"a deleted comment", hello, func(n int64) {
			r.owner.remove(r.at("/issues/comments/%d", comments[n])).want(http.StatusNoContent)
		}, false},
		{"a label", none, label, false},
		{"a removed label", label, unlabel, false},
		{"an assignee", none, assign, false},
		{"a removed assignee", assign, func(n int64) { r.assign(dev, n) }, false},
		{"another title", none, edit("title", "other"), false},
		{"another text", none, edit("body", "other"), false},
		{"closing", none, edit("state", "closed"), false},
		{"reopening", edit("state", "closed"), edit("state", "open"), false},
		{"a dependency", none, tie, true},
		{"a removed dependency", tie, func(n int64) { r.independent(n, n-1) }, true},
	}
	number := map[string]int64{}
	var last time.Time
	for _, c := range changes {
		r.open("before " + c.what)
		n := r.open(c.what)
		c.before(n)
		number[c.what], last = n, r.issue(n).Updated
	}
	w.nextSecond()
	same(w, "changed before the first change", list(numbers(r.changedAfter(last))), "[]")
	for _, c := range changes {
		c.do(number[c.what])
	}
	moved := map[int64]bool{}
	for _, n := range numbers(r.changedAfter(last)) {
		moved[n] = true
	}
	gitea := w.isGitea()
	for _, c := range changes {
		n := number[c.what]
		same(w, c.what+" moves its issue", moved[n], !gitea || c.what != "a deleted comment")
		same(w, c.what+" moves the issue before", moved[n-1], c.both)
	}
}

func leavesUpdated(w *world) {
	r := w.code("one")
	blocker, blocked := r.open("blocker"), r.open("blocked")
	r.dependsOn(blocked, blocker)
	p := r.ready("one")
	r.eventuallyMergeable(p, true)
	comment := r.commentID(p, "hello")
	since := r.issue(p).Updated
	w.nextSecond()
	r.owner.patch(r.at("/issues/comments/%d", comment), fields{"body": "other"}).want(http.StatusOK)
	r.edit(blocker, fields{"state": "closed"})
	r.status(r.pull(p).Head.SHA, "ci", "success")
	r.commit("main", fileOf("one"), "theirs")
	r.eventuallyMergeable(p, false)
	same(w, "changed", list(numbers(r.changedAfter(since))), list([]int64{blocker}))
}

func movesPull(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	n := r.open("first")
	w.nextSecond()
	since := r.issue(n).Updated
	p := r.openPull("one", "one", "Fixes #1").Number
	same(w, "a pull request that names the issue moves the issue", r.issue(n).Updated.After(since), true)
	moves := func(what string, do func()) {
		since := r.issue(p).Updated
		w.nextSecond()
		do()
		w.eventually(what+" moves updated_at", func() bool { return r.issue(p).Updated.After(since) })
	}
	moves("a review", func() {
		reviewer.post(r.at("/pulls/%d/reviews", p), fields{"event": "APPROVED", "body": "good"}).want(http.StatusOK)
	})
	moves("a push", func() { r.commit("one", "b.txt", "two") })
	since = r.issue(n).Updated
	moves("its merge", func() { r.merge(p) })
	same(w, "the merge that closes the issue moves it", r.issue(n).Updated.After(since), true)
}

func sinceInclusive(w *world) {
	r := w.repo()
	n := r.open("first")
	at := r.issue(n).Updated
	same(w, "since the second itself", list(numbers(r.changedSince(at))), "[1]")
	same(w, "since the next", list(numbers(r.changedSince(at.Add(time.Second)))), "[]")
	same(w, "since, with an offset",
		list(numbers(r.list("since="+url.QueryEscape(at.UTC().Format("2006-01-02T15:04:05+00:00"))))), "[1]")
	r.owner.get(r.at("/issues?since=yesterday")).want(http.StatusUnprocessableEntity)
}

func talkSince(w *world) {
	r := w.repo()
	n := r.open("first")
	old := decode[issueComment](r.owner.post(r.at("/issues/%d/comments", n), fields{"body": "old"}).
		want(http.StatusCreated)).ID
	r.comment(n, "left alone")
	r.edit(n, fields{"state": "closed"})
	since := r.issue(n).Updated.Add(time.Second)
	w.nextSecond()
	r.owner.patch(r.at("/issues/comments/%d", old), fields{"body": "edited"}).want(http.StatusOK)
	r.comment(n, "new")
	r.edit(n, fields{"state": "open"})
	at := url.QueryEscape(since.UTC().Format(time.RFC3339))
	var said []string
	for _, c := range read[[]issueComment](r.owner, r.at("/issues/%d/comments?since=%s", n, at)) {
		said = append(said, fmt.Sprintf("%s %v", c.Body, c.Created.Before(since)))
	}
	same(w, "comments, and whether they are older", list(said), "[edited true new false]")
	events := read[[]event](r.owner, r.at("/issues/%d/timeline?limit=50&page=1&since=%s", n, at))
	same(w, "timeline", story(events, "close", "reopen"), list([]string{"reopen by " + r.owner.name}))
}
