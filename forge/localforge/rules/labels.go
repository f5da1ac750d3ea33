package rules

import (
	"net/http"
	"strconv"
)

var labelRules = []rule{
	{
		"an unknown label is ignored when it is added",
		"forge/forgejo Label and Claim, which create missing labels and check in the answer that they were added",
		unknownLabels,
	},
	{
		"adding accepts names and ids, and answers with the issue's labels",
		"forge/forgejo Claim and Label, which add by id",
		addLabels,
	},
	{
		"removing requires an id and can be repeated",
		"forge/forgejo Release, which can be repeated",
		removeLabels,
	},
	{
		"two labels can have the same name",
		"forge/forgejo, which lists labels before it creates one, and shows each name once",
		doubleLabels,
	},
	{
		"a label is read by its id or its name",
		"forge/forgejo Label, where a repository has more labels than it lists",
		namedLabel,
	},
	{
		"deleting a label does not change updated_at of its issues",
		"forge/forgejo, which sees it in the next complete listing, and Release, which treats 422 as a deleted label",
		deletedLabel,
	},
	{
		"an unchanged label can be saved, and a person's account has no labels of its own",
		"forge/forgejo Prepare, which learns whether it can write, and which also reads an organisation's labels",
		savedLabel,
	},
}

func unknownLabels(w *world) {
	r := w.repo()
	r.label("backlog")
	n := r.open("first")
	a := r.owner.post(r.at("/issues/%d/labels", n), fields{"labels": []string{"in-progress"}}).want(http.StatusOK)
	same(w, "labels in the answer", labelNames(decode[[]label](a)), "")
	r.addLabels(n, "in-progress", "backlog")
	same(w, "labels", r.issue(n).labels(), "backlog")
	a = r.owner.post(r.at("/issues/%d/labels", n), fields{"labels": []int64{1 << 40}}).want(http.StatusOK)
	same(w, "labels after an unknown id", labelNames(decode[[]label](a)), "backlog")
	same(w, "labels of an issue that is opened with an unknown id",
		r.issue(r.open("second", fields{"labels": []int64{1 << 40}})).labels(), "")
}

func addLabels(w *world) {
	r := w.repo()
	backlog := r.label("backlog")
	r.label("in-progress")
	n := r.open("first", fields{"labels": []int64{backlog}})
	for _, names := range [][]any{{"in-progress"}, {"in-progress"}, {backlog}} {
		a := r.owner.post(r.at("/issues/%d/labels", n), fields{"labels": names}).want(http.StatusOK)
		same(w, "labels in the answer", labelNames(decode[[]label](a)), "backlog in-progress")
	}
}

func removeLabels(w *world) {
	r := w.repo()
	id := r.label("in-progress")
	n := r.open("first")
	r.addLabels(n, "in-progress")
	r.owner.remove(r.at("/issues/%d/labels/in-progress", n)).want(http.StatusUnprocessableEntity)
	for range 2 {
		r.owner.remove(r.at("/issues/%d/labels/%d", n, id)).want(http.StatusNoContent)
	}
	same(w, "labels", r.issue(n).labels(), "")
}

func doubleLabels(w *world) {
	r := w.repo()
	r.label("in-progress")
	r.label("in-progress")
	n := r.open("first")
	r.addLabels(n, "in-progress")
	same(w, "labels", r.issue(n).labels(), "in-progress in-progress")
}

func namedLabel(w *world) {
	r := w.repo()
	id := r.label("fleet/a b:stolen")
	for _, at := range []string{strconv.FormatInt(id, 10), "fleet%2Fa%20b:stolen"} {
		a := r.owner.get(r.at("/labels/") + at).want(http.StatusOK)
		same(w, "name", decode[label](a).Name, "fleet/a b:stolen")
	}
	r.owner.get(r.at("/labels/backlog")).want(http.StatusNotFound)
	r.owner.get(r.at("/labels/7")).want(http.StatusNotFound)
}

func deletedLabel(w *world) {
	r := w.repo()
	id := r.label("backlog")
	n := r.open("first")
	r.addLabels(n, "backlog")
	before := r.issue(n).Updated
	w.nextSecond()
	r.owner.remove(r.at("/labels/%d", id)).want(http.StatusNoContent)
	after := r.issue(n)
	same(w, "labels", after.labels(), "")
	same(w, "updated_at", after.Updated, before)
	r.owner.remove(r.at("/issues/%d/labels/%d", n, id)).want(http.StatusUnprocessableEntity)
}

func savedLabel(w *world) {
	r := w.repo()
	id := r.label("backlog")
	a := r.writer("dev").patch(r.at("/labels/%d", id), fields{}).want(http.StatusOK)
	same(w, "name", decode[label](a).Name, "backlog")
	r.collaborator("reader", "read").patch(r.at("/labels/%d", id), fields{}).want(http.StatusForbidden)
	// A label that cannot exist is refused in the same way, and the request changes nothing.
	dev := r.writer("prober")
	dev.patch(r.at("/labels/0"), fields{}).want(http.StatusNotFound)
	dev.as(dev.newToken("read", "read:issue", "write:repository")).patch(r.at("/labels/0"), fields{}).
		want(http.StatusForbidden)
	r.collaborator("onlooker", "read").patch(r.at("/labels/0"), fields{}).want(http.StatusForbidden)
	r.owner.get("/orgs/" + r.owner.name + "/labels").want(http.StatusNotFound)
}
