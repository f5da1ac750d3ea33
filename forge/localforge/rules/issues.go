package rules

import "net/http"

var issueRules = []rule{
	{
		"an edit answers 201",
		"forge/forgejo, which treats any 2xx as success",
		editAnswer,
	},
	{
		"a closed issue can be changed",
		"forge/forgejo Claim, which re-reads the issue before it writes: the forge would let it claim a closed one",
		changeClosed,
	},
	{
		"an issue needs a title",
		"supervisor sling --title, which refuses an empty one itself",
		needsTitle,
	},
	{
		"times are whole seconds in UTC",
		"forge/forgejo, which re-reads an item that changed in the second in which it was read",
		wholeSeconds,
	},
	{
		"closing can be repeated, and reopening clears the time of closing",
		"forge/forgejo Close, and Scan, which finds the time of reopening in the timeline",
		reopening,
	},
	{
		"the timeline names the accounts that closed and reopened",
		"forge/forgejo, for forge.Issue.Reopened and forge.Pull.ClosedBy",
		closingTimeline,
	},
	{
		"only an administrator can delete an issue, and no list of changes shows it",
		"forge/forgejo, which lists all open items once an hour",
		deletion,
	},
}

func editAnswer(w *world) {
	r := w.repo()
	n := r.open("first")
	a := r.owner.patch(r.at("/issues/%d", n), fields{"title": "better", "body": "more"}).
		want(http.StatusOK, http.StatusCreated)
	same(w, "title", decode[issue](a).Title, "better")
	same(w, "body", r.issue(n).Body, "more")
}

func changeClosed(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	r.label("in-progress")
	n := r.open("first")
	r.edit(n, fields{"state": "closed"})
	r.addLabels(n, "in-progress")
	r.edit(n, fields{"assignees": []string{dev.name}})
	i := r.issue(n)
	same(w, "state", i.State, "closed")
	same(w, "labels", i.labels(), "in-progress")
	same(w, "assignees", i.assignees(), dev.name)
}

func needsTitle(w *world) {
	r := w.repo()
	r.owner.post(r.at("/issues"), fields{"title": ""}).want(http.StatusUnprocessableEntity)
	same(w, "issues", len(r.list("state=all")), 0)
}

func wholeSeconds(w *world) {
	r := w.repo()
	r.open("first")
	raw := read[struct {
		Updated string `json:"updated_at"`
	}](r.owner, r.at("/issues/1")).Updated
	if len(raw) != len("2026-01-02T15:04:05Z") || raw[len(raw)-1] != 'Z' {
		w.Errorf("updated_at is %q, want whole seconds and Z", raw)
	}
}

func reopening(w *world) {
	r := w.repo()
	n := r.open("first")
	for range 2 {
		if i := r.edit(n, fields{"state": "closed"}); i.Closed == nil || i.State != "closed" {
			w.Errorf("closed: got state %s, closed_at %v", i.State, i.Closed)
		}
	}
	if i := r.edit(n, fields{"state": "open"}); i.Closed != nil || i.State != "open" {
		w.Errorf("reopened: got state %s, closed_at %v", i.State, i.Closed)
	}
}

// event is an entry of a timeline.
type event struct {
	Type      string `json:"type"`
	User      *user  `json:"user"`
	Dependent *issue `json:"dependent_issue"`
}

// timeline returns the timeline of an issue or pull request, oldest first.
func (r *repo) timeline(n int64) []event {
	r.w.Helper()
	return read[[]event](r.owner, r.at("/issues/%d/timeline?limit=50&page=1", n))
}

// story lists the events of the given kinds with their accounts, oldest first.
func story(events []event, kinds ...string) string {
	var lines []string
	for _, e := range events {
		for _, kind := range kinds {
			if e.Type == kind && e.User != nil {
				lines = append(lines, kind+" by "+e.User.Login)
			}
		}
	}
	return list(lines)
}

func closingTimeline(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	n := r.open("first")
	dev.patch(r.at("/issues/%d", n), fields{"state": "closed"}).want(http.StatusCreated)
	r.edit(n, fields{"state": "open"})
	want := list([]string{"close by " + dev.name, "reopen by " + r.owner.name})
	same(w, "timeline", story(r.timeline(n), "close", "reopen"), want)
}

func deletion(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	gone, blocked := r.open("first"), r.open("second")
	r.dependsOn(blocked, gone)
	since := r.issue(blocked).Updated
	dev.remove(r.at("/issues/%d", gone)).refused()
	w.nextSecond()
	r.owner.remove(r.at("/issues/%d", gone)).want(http.StatusNoContent)
	r.owner.get(r.at("/issues/%d", gone)).want(http.StatusNotFound)
	same(w, "changed", list(numbers(r.changedAfter(since))), "[]")
	same(w, "blockers of the other", len(r.blockers(blocked)), 0)
}
