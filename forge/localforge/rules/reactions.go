package rules

import (
	"net/http"
	"time"
)

var reactionRules = []rule{
	{
		"a reaction is listed once, with its account",
		"forge/forgejo, which reads which accounts gave a plan a thumbs-up",
		showsReactions,
	},
	{
		"a reaction does not move updated_at of the issue",
		"forge/forgejo Scan, which reads the reactions to plans every ten seconds",
		reactionIsSilent,
	},
	{
		"reactions to a deleted comment are 404",
		"forge/forgejo Scan, which then re-reads the comments",
		reactionsOfNothing,
	},
	{
		"the timeline names the account that set a label",
		"forge/forgejo, for forge.Talk.ApprovedBy",
		labellingTimeline,
	},
}

type reaction struct {
	User    *user  `json:"user"`
	Content string `json:"content"`
}

// commentID writes a comment as the owner and returns its id.
func (r *repo) commentID(n int64, text string) int64 {
	r.w.Helper()
	return decode[issueComment](r.owner.post(r.at("/issues/%d/comments", n), fields{"body": text}).
		want(http.StatusCreated)).ID
}

func (r *repo) reactionsTo(id int64) string {
	r.w.Helper()
	var all []string
	for _, one := range read[[]reaction](r.owner, r.at("/issues/comments/%d/reactions", id)) {
		all = append(all, one.Content+" by "+one.User.Login)
	}
	return list(all)
}

func showsReactions(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	id := r.commentID(r.open("first"), "a plan")
	path := r.at("/issues/comments/%d/reactions", id)
	same(w, "reactions before the first", r.reactionsTo(id), "[]")
	for range 2 {
		dev.post(path, fields{"content": "+1"}).want(http.StatusCreated, http.StatusOK)
	}
	same(w, "reactions after the first", r.reactionsTo(id), list([]string{"+1 by " + dev.name}))
	r.owner.post(path, fields{"content": "eyes"}).want(http.StatusCreated)
	same(w, "reactions after another", r.reactionsTo(id), list([]string{"+1 by " + dev.name, "eyes by " + r.owner.name}))
	r.owner.post(path, fields{"content": "nonsense"}).want(http.StatusForbidden)
}

func reactionIsSilent(w *world) {
	r := w.repo()
	n := r.open("first")
	id := r.commentID(n, "a plan")
	since := r.issue(n).Updated
	w.nextSecond()
	r.owner.post(r.at("/issues/comments/%d/reactions", id), fields{"content": "+1"}).want(http.StatusCreated)
	same(w, "updated_at moved by", r.issue(n).Updated.Sub(since), time.Duration(0))
}

func reactionsOfNothing(w *world) {
	r := w.repo()
	n := r.open("first")
	id := r.commentID(n, "a plan")
	r.owner.remove(r.at("/issues/comments/%d", id)).want(http.StatusNoContent)
	r.owner.get(r.at("/issues/comments/%d/reactions", id)).want(http.StatusNotFound)
}

func labellingTimeline(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	id := r.label("plan-approved")
	n := r.open("first")
	r.addLabels(n, "plan-approved")
	r.owner.remove(r.at("/issues/%d/labels/%d", n, id)).want(http.StatusNoContent)
	dev.post(r.at("/issues/%d/labels", n), fields{"labels": []string{"plan-approved"}}).want(http.StatusOK)
	type labelling struct {
		event
		Body  string
		Label *struct{ Name string }
	}
	var all []string
	for _, e := range read[[]labelling](r.owner, r.at("/issues/%d/timeline?limit=50&page=1", n)) {
		if e.Type == "label" && e.Label != nil {
			all = append(all, e.Label.Name+" "+e.Body+" by "+e.User.Login)
		}
	}
	want := []string{
		"plan-approved 1 by " + r.owner.name, "plan-approved  by " + r.owner.name, "plan-approved 1 by " + dev.name,
	}
	same(w, "timeline", list(all), list(want))
}
