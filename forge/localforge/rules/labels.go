package rules

import "net/http"

var labelRules = []rule{
	{
		"an unknown label is ignored when it is added",
		"forge/forgejo Label and Claim, which make the labels that are missing and read in the answer whether they took",
		unknownLabels,
	},
	{
		"adding takes names and ids, and says which labels there are now",
		"forge/forgejo Claim and Label, which add by id",
		addLabels,
	},
	{
		"removing wants an id and may be repeated",
		"forge/forgejo Release, which is safe to repeat",
		removeLabels,
	},
	{
		"two labels may have one name",
		"forge/forgejo, which lists before it makes a label, and shows a name once",
		doubleLabels,
	},
	{
		"replacing takes names",
		"forge/forgejo, which never does it: labels that a human adds in between would be lost",
		replaceLabels,
	},
	{
		"a label that is deleted leaves the issues without a change",
		"forge/forgejo, which sees it with the next complete listing, and Release, to which 422 means that it is gone",
		deletedLabel,
	},
	{
		"a label can be saved as it is, and people have none of their own",
		"forge/forgejo Prepare, which learns so whether it may write, and which reads an organisation's labels too",
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
	same(w, "labels of one that is opened with an unknown id",
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

func replaceLabels(w *world) {
	r := w.repo()
	for _, name := range []string{"backlog", "in-progress", "blocked"} {
		r.label(name)
	}
	n := r.open("first")
	r.addLabels(n, "backlog", "in-progress")
	a := r.owner.put(r.at("/issues/%d/labels", n), fields{"labels": []string{"blocked", "backlog"}}).want(http.StatusOK)
	same(w, "labels in the answer", labelNames(decode[[]label](a)), "backlog blocked")
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
