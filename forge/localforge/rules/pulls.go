package rules

import (
	"fmt"
	"net/http"
	"time"
)

var pullRules = []rule{
	{
		"opening a pull request answers with all its fields",
		"agents/session, which reads the number, and forge/forgejo, which reads branches and heads",
		openedPull,
	},
	{
		"a second open pull request with the same head and base is refused, unless the first was closed",
		"agents/session, which pushes first, and on a 409 uses the existing pull request; " +
			"and threads, which still handles two for one issue, since a closed one can be reopened",
		samePull,
	},
	{
		"a title that begins with WIP makes a draft",
		"forge.IsDraft, and forge/forgejo: a draft is reported as not mergeable, although it has no conflict",
		drafts,
	},
	{
		"the field mergeable is computed late",
		"forge/forgejo, which reports a conflict only after `not mergeable` in two scans 30 s apart",
		lateMergeability,
	},
	{
		"a push moves the head",
		"forge/forgejo, which ignores verdicts and checks of another head",
		movedHead,
	},
	{
		"the timeline names the accounts that closed and reopened",
		"forge/forgejo for forge.Pull.ClosedBy, and threads: if a person closes our pull request, the issue is pr-rejected",
		closedBy,
	},
	{
		"a deleted branch closes its pull request",
		"forge/forgejo, which then reads the branch name from head.label, and threads, which treats it as closed unmerged",
		deletedBranch,
	},
	{
		"the list of pull requests has the fields of a single one",
		"forge/forgejo, whose first scan reads them fifty at a time",
		pullList,
	},
}

type pull struct {
	Number    int64  `json:"number"`
	State     string `json:"state"`
	Draft     bool   `json:"draft"`
	Mergeable bool   `json:"mergeable"`
	Merged    bool   `json:"merged"`
	MergedBy  *user  `json:"merged_by"`
	Commit    string `json:"merge_commit_sha"`
	User      *user  `json:"user"`
	Head      struct {
		Label string `json:"label"`
		Ref   string `json:"ref"`
		SHA   string `json:"sha"`
		Repo  *struct {
			FullName string `json:"full_name"`
		} `json:"repo"`
	} `json:"head"`
	Base struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"`
	} `json:"base"`
	MergeBase string     `json:"merge_base"`
	Closed    *time.Time `json:"closed_at"`
	MergedAt  *time.Time `json:"merged_at"`
}

// openPull opens a pull request to main as the owner.
func (r *repo) openPull(head, title, body string) pull {
	r.w.Helper()
	return r.openPullAs(r.owner, head, title, body)
}

func (r *repo) openPullAs(a *account, head, title, body string) pull {
	r.w.Helper()
	return decode[pull](a.post(r.at("/pulls"), fields{"head": head, "base": "main", "title": title, "body": body}).
		want(http.StatusCreated))
}

func (r *repo) pull(n int64) pull {
	r.w.Helper()
	return read[pull](r.owner, r.at("/pulls/%d", n))
}

// ready opens a pull request whose text does not matter.
func (r *repo) ready(branch string) int64 {
	r.w.Helper()
	return r.openPull(branch, branch, "").Number
}

// eventuallyMergeable waits for the field mergeable to have a value, because the forge computes it late.
func (r *repo) eventuallyMergeable(n int64, want bool) {
	r.w.Helper()
	r.w.eventually(fmt.Sprintf("mergeable is %v", want), func() bool { return r.pull(n).Mergeable == want })
}

func openedPull(w *world) {
	r := w.code("fix/issue-1")
	dev := r.writer("dev")
	head := r.branch("fix%2Fissue-1").Commit.ID
	base := r.branch("main").Commit.ID
	for _, p := range []pull{r.openPullAs(dev, "fix/issue-1", "fix", "body"), r.pull(1)} {
		same(w, "number", p.Number, 1)
		same(w, "state", p.State, "open")
		same(w, "opened by", p.User.Login, dev.name)
		same(w, "head", p.Head.Ref+" "+p.Head.Label+" "+p.Head.SHA, "fix/issue-1 fix/issue-1 "+head)
		same(w, "base", p.Base.Ref+" "+p.Base.SHA, "main "+base)
		if p.Head.Repo == nil || p.Head.Repo.FullName != r.fullName() {
			w.Errorf("head.repo: got %v, want %s", p.Head.Repo, r.fullName())
		}
		if p.Draft || p.Merged || p.Closed != nil || p.MergedAt != nil {
			w.Errorf("got %+v, want neither draft nor merged nor closed", p)
		}
	}
}

func samePull(w *world) {
	r := w.code("fix/issue-1")
	first := r.ready("fix/issue-1")
	open := func(head, base string) answer {
		return r.owner.post(r.at("/pulls"), fields{"head": head, "base": base, "title": "another"})
	}
	open("fix/issue-1", "main").want(http.StatusConflict)
	open("nonesuch", "main").want(http.StatusNotFound)
	open("fix/issue-1", "nonesuch").want(http.StatusNotFound)
	open("main", "main").want(http.StatusUnprocessableEntity)
	r.edit(first, fields{"state": "closed"})
	second := decode[pull](open("fix/issue-1", "main").want(http.StatusCreated)).Number
	r.edit(first, fields{"state": "open"})
	same(w, "open", list(numbers(r.list("type=pulls"))), list([]int64{second, first}))
}

func drafts(w *world) {
	r := w.code("fix/issue-1")
	p := r.openPull("fix/issue-1", "WIP: fix", "")
	same(w, "draft", p.Draft, true)
	same(w, "mergeable", p.Mergeable, false)
	for title, draft := range map[string]bool{"[WIP] fix": true, "wip: fix": true, "A WIP: fix": false, "fix": false} {
		r.owner.patch(r.at("/pulls/%d", p.Number), fields{"title": title}).want(http.StatusCreated)
		same(w, "draft with the title "+title, r.pull(p.Number).Draft, draft)
	}
	r.owner.patch(r.at("/pulls/%d", p.Number), fields{"title": "fix"}).want(http.StatusCreated)
	r.eventuallyMergeable(p.Number, true)
}

// lateMergeability makes a conflict appear and disappear, by commits to the base and to the head.
func lateMergeability(w *world) {
	r := w.code("fix/issue-1")
	p := r.ready("fix/issue-1")
	r.eventuallyMergeable(p, true)
	r.commit("main", fileOf("fix/issue-1"), "theirs")
	r.eventuallyMergeable(p, false)
	r.tryMerge(p, nil).want(http.StatusMethodNotAllowed)
	r.overwrite("fix/issue-1", fileOf("fix/issue-1"), "theirs")
	r.eventuallyMergeable(p, true)
	same(w, "state", r.pull(p).State, "open")
}

func movedHead(w *world) {
	r := w.code("fix/issue-1")
	p := r.ready("fix/issue-1")
	first := r.pull(p).Head.SHA
	second := r.commit("fix/issue-1", "b.txt", "two")
	w.eventually("the head has moved", func() bool {
		head := r.pull(p).Head.SHA
		if head != first && head != second {
			w.Fatalf("the head is %s, want %s and then %s", head, first, second)
		}
		return head == second
	})
}

func closedBy(w *world) {
	r := w.code("fix/issue-1")
	dev := r.writer("dev")
	p := r.openPullAs(dev, "fix/issue-1", "fix", "").Number
	closed := decode[pull](r.owner.patch(r.at("/pulls/%d", p), fields{"state": "closed"}).want(http.StatusCreated))
	if closed.State != "closed" || closed.Merged || closed.Closed == nil {
		w.Errorf("got %+v, want it closed and not merged", closed)
	}
	dev.patch(r.at("/issues/%d", p), fields{"state": "open"}).want(http.StatusCreated)
	same(w, "state", r.pull(p).State, "open")
	want := list([]string{"close by " + r.owner.name, "reopen by " + dev.name})
	same(w, "timeline", story(r.timeline(p), "close", "reopen"), want)
}

func deletedBranch(w *world) {
	r := w.code("fix/issue-1")
	p := r.ready("fix/issue-1")
	head := r.pull(p).Head.SHA
	r.owner.remove(r.at("/branches/fix%%2Fissue-1")).want(http.StatusNoContent)
	w.eventually("the pull request is closed", func() bool { return r.pull(p).State == "closed" })
	got := r.pull(p)
	same(w, "merged", got.Merged, false)
	same(w, "label of the head", got.Head.Label, "fix/issue-1")
	same(w, "head", got.Head.SHA, head)
}

func pullList(w *world) {
	r := w.code("one", "two")
	for _, branch := range []string{"one", "two"} {
		r.eventuallyMergeable(r.ready(branch), true)
	}
	a := r.owner.get(r.at("/pulls?state=open&limit=1&page=1")).want(http.StatusOK)
	same(w, "X-Total-Count", a.total(), 2)
	all := read[[]pull](r.owner, r.at("/pulls?state=open&limit=50&page=1"))
	same(w, "pull requests", len(all), 2)
	for _, got := range all {
		want := r.pull(got.Number)
		same(w, "head in the list", got.Head.SHA, want.Head.SHA)
		same(w, "base in the list", got.Base.SHA, want.Base.SHA)
		same(w, "mergeable in the list", got.Mergeable, want.Mergeable)
	}
}
