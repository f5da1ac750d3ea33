package forgetest

import (
	"net/http"
	"net/url"
	"time"
)

var updateRules = []rule{
	{
		"what moves updated_at",
		"forge/forgejo Scan, which reads only what changed since the last scan",
		movesUpdated,
	},
	{
		"what does not move updated_at",
		"forge/forgejo Scan, which asks for statuses and mergeability every 30 s, and for blockers by their own state",
		leavesUpdated,
	},
	{
		"a pull request's updated_at moves with reviews, pushes and its merge",
		"forge/forgejo Scan, which reads the details of what moved, and asks once more for what moves late",
		movesPull,
	},
	{
		"since is inclusive and in seconds",
		"forge/forgejo Scan, which may ask from the very second of the last change",
		sinceInclusive,
	},
}

// changedAfter lists what changed in a later second.
func (r *repo) changedAfter(t time.Time) []issue {
	r.w.Helper()
	return r.changedSince(t.Add(time.Second))
}

func (r *repo) changedSince(t time.Time) []issue {
	r.w.Helper()
	return r.list("state=all&since=" + url.QueryEscape(t.UTC().Format(time.RFC3339)))
}

// movesUpdated gives each change an issue of its own, so that one second is
// enough for all.
func movesUpdated(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	id := r.label("backlog")
	changes := []struct {
		what string
		also bool // the issue before moves too
		do   func(n int64)
	}{
		{"comment", false, func(n int64) { r.comment(n, "hello") }},
		{"label added", false, func(n int64) { r.addLabels(n, "backlog") }},
		{"label removed", false, func(n int64) { r.owner.remove(r.at("/issues/%d/labels/%d", n, id)).want(http.StatusNoContent) }},
		{"assigned", false, func(n int64) { r.assign(dev, n, dev.name) }},
		{"unassigned", false, func(n int64) { r.assign(dev, n) }},
		{"title", false, func(n int64) { r.edit(n, fields{"title": "other"}) }},
		{"body", false, func(n int64) { r.edit(n, fields{"body": "other"}) }},
		{"closed", false, func(n int64) { r.edit(n, fields{"state": "closed"}) }},
		{"reopened", false, func(n int64) { r.edit(n, fields{"state": "open"}) }},
		{"dependency added", true, func(n int64) { r.dependsOn(n, n-1) }},
		{"dependency removed", true, func(n int64) { r.independent(n, n-1) }},
	}
	prepare := map[string]func(n int64){
		"label removed":      func(n int64) { r.addLabels(n, "backlog") },
		"unassigned":         func(n int64) { r.assign(dev, n, dev.name) },
		"reopened":           func(n int64) { r.edit(n, fields{"state": "closed"}) },
		"dependency removed": func(n int64) { r.dependsOn(n, n-1) },
	}
	at := map[string]int64{}
	var last time.Time
	for _, c := range changes {
		if c.also {
			r.open("before " + c.what)
		}
		at[c.what] = r.open(c.what)
		if first := prepare[c.what]; first != nil {
			first(at[c.what])
		}
		last = r.issue(at[c.what]).Updated
	}
	w.nextSecond()
	same(w, "changed before anything was done", list(numbers(r.changedAfter(last))), "[]")
	for _, c := range changes {
		c.do(at[c.what])
	}
	moved := map[int64]bool{}
	for _, n := range numbers(r.changedAfter(last)) {
		moved[n] = true
	}
	for _, c := range changes {
		same(w, c.what+": moved", moved[at[c.what]], true)
		if c.also {
			same(w, c.what+": the other end moved", moved[at[c.what]-1], true)
		}
	}
}

func leavesUpdated(w *world) {
	r := w.code()
	blocker, blocked := r.open("blocker"), r.open("blocked")
	r.dependsOn(blocked, blocker)
	r.commit("one", "main", "a.txt", "one")
	head := r.commit("two", "main", "a.txt", "two")
	merged, left := r.openPull("one", "one", "").Number, r.openPull("two", "two", "").Number
	r.eventuallyMergeable(left, true)
	since := r.issue(left).Updated
	w.nextSecond()
	r.edit(blocker, fields{"state": "closed"})
	r.owner.post(r.at("/statuses/%s", head), fields{"context": "ci", "state": "success"}).want(http.StatusCreated)
	r.merge(merged)
	r.eventuallyMergeable(left, false)
	// What was closed and what was merged moved; what waited for them did not.
	same(w, "changed", list(numbers(r.changedAfter(since))), list([]int64{merged, blocker}))
}

func movesPull(w *world) {
	r := w.code()
	reviewer := r.writer("review")
	n := r.open("first")
	r.commit("fix/issue-1", "main", "a.txt", "one")
	w.nextSecond()
	since := r.issue(n).Updated
	p := r.openPull("fix/issue-1", "fix", "Fixes #1").Number
	same(w, "moved by a pull request that names the issue", r.issue(n).Updated.After(since), true)
	moves := func(what string, do func()) {
		since := r.issue(p).Updated
		w.nextSecond()
		do()
		w.eventually(what+" moves updated_at", func() bool { return r.issue(p).Updated.After(since) })
	}
	moves("a review", func() {
		reviewer.post(r.at("/pulls/%d/reviews", p), fields{"event": "APPROVED", "body": "good"}).want(http.StatusOK)
	})
	moves("a push", func() { r.commit("fix/issue-1", "", "b.txt", "two") })
	since = r.issue(n).Updated
	moves("its merge", func() { r.merge(p) })
	same(w, "moved by the merge that closes the issue", r.issue(n).Updated.After(since), true)
}

func sinceInclusive(w *world) {
	r := w.repo()
	n := r.open("first")
	at := r.issue(n).Updated
	same(w, "since the second itself", list(numbers(r.changedSince(at))), "[1]")
	same(w, "since the next", list(numbers(r.changedSince(at.Add(time.Second)))), "[]")
	same(w, "since, with an offset", list(numbers(r.list("since="+url.QueryEscape(at.UTC().Format("2006-01-02T15:04:05+00:00"))))), "[1]")
	r.owner.get(r.at("/issues?since=yesterday")).want(http.StatusUnprocessableEntity)
}
