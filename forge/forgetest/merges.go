package forgetest

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/forge"
)

func mergeRules() []rule {
	return []rule{
		{Pulls, "a merge takes exactly the given head and base, and closes the issue", merge},
		{Pulls, "a new client finds the merge of a closed issue", mergeFound},
		{Code, "a merge that cannot be done is refused", mergeRefused},
		{Code, "a pull request is brought up to date with its base", update},
	}
}

func merge(w *world) {
	issue := w.file("to do")
	ref, old := w.work(fmt.Sprintf("fix/issue-%d", issue.Number), fmt.Sprintf("fixes #%d", issue.Number))
	w.tick()
	head := w.Push(w.dev, w.repo, fmt.Sprintf("fix/issue-%d", issue.Number), "more.txt", "more\n")
	w.eventually("the head moves", func() bool { return w.pull(ref).HeadSHA == head })
	w.refused("Merge at the old head", w.here.Merge(w.ctx, ref, old, "main"), forge.ErrConflict)
	w.refused("Merge into another base", w.here.Merge(w.ctx, ref, head, "other"), forge.ErrConflict)
	w.refused("Merge into no base", w.here.Merge(w.ctx, ref, head, ""), forge.ErrConflict)
	w.refused("Merge at no head", w.here.Merge(w.ctx, ref, "", "main"), forge.ErrConflict)
	same(w, "merged", w.pull(ref).Merged, false)
	w.merge(ref, head)
	for range 2 {
		p := w.pull(ref)
		same(w, "merged", p.Merged && p.Closed, true)
		same(w, "the issue is closed", w.issue(issue).Closed, true)
		w.must("Merge again", w.here.Merge(w.ctx, ref, head, "main"))
	}
	w.refused("Merge of a missing pull request", w.here.Merge(w.ctx, w.missing(), head, "main"), forge.ErrNotFound)
}

// mergeFound looks at a closed issue with a client that has not seen the issue open. why and show do that after a
// restart.
func mergeFound(w *world) {
	issue := w.file("to do")
	ref, head := w.work(fmt.Sprintf("fix/issue-%d", issue.Number), fmt.Sprintf("fixes #%d", issue.Number))
	w.Review(w.review, ref, head, forge.Approved)
	w.merge(ref, head)
	fresh := w.supervisor("here")
	w.scan(fresh)
	later := time.Now().Add(24 * time.Hour) // as if the merge were a day ago
	look, err := fresh.FetchItem(w.ctx, issue, later)
	w.must("FetchItem", err)
	if len(look.Pulls) != 1 || look.Pulls[0].Ref != ref || !look.Pulls[0].Merged || len(look.Pulls[0].Reviews) != 1 {
		w.Errorf("got the pull requests %+v, want %s, approved and merged", look.Pulls, ref)
	}
}

func mergeRefused(w *world) {
	one, first := w.work("one", "")
	two, second := w.work("two", "") // writes another text to the same file
	draft := w.Open(w.dev, w.repo, w.branch("draft"), "WIP: draft", "")
	w.refused("Merge of a draft", w.here.Merge(w.ctx, draft, w.pull(draft).HeadSHA, "main"), forge.ErrConflict)
	closed, third := w.Open(w.dev, w.repo, w.branch("three"), "three", ""), ""
	third = w.pull(closed).HeadSHA
	w.must("Close", w.here.Close(w.ctx, closed))
	w.refused("Merge of a closed pull request", w.here.Merge(w.ctx, closed, third, "main"), forge.ErrConflict)
	w.merge(one, first)
	w.eventually("the other pull request conflicts", func() bool { return w.pull(two).Mergeable == forge.MergeNotClean })
	w.refused("Merge of a pull request with a conflict", w.here.Merge(w.ctx, two, second, "main"), forge.ErrConflict)
	same(w, "merged", w.pull(two).Merged, false)
}

// update brings a pull request up to date twice: with a change of another file of its base, and with one of its own
// file, after which what it changes is shown differently. An update with a conflict is refused.
func update(w *world) {
	const lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	w.Push(w.dev, w.repo, "main", "work.txt", lines)
	ref, _ := w.work("one", "")
	head := w.Push(w.dev, w.repo, "one", "work.txt", lines+"ten\n")
	w.Push(w.dev, w.repo, "main", "other.txt", "x\n")
	w.eventually("the head moves", func() bool { return w.pull(ref).HeadSHA == head })
	_, err := w.here.Update(w.ctx, ref, "")
	w.refused("Update of no head", err, forge.ErrConflict)
	now, err := w.here.Update(w.ctx, ref, head)
	w.must("Update", err)
	if p := w.pull(ref); !now.Same || now.Head == head || p.HeadSHA != now.Head || p.MergeBase != now.MergeBase {
		w.Errorf("got %+v, and the pull request at %s on %s, want the same change at a new head", now, p.HeadSHA, p.MergeBase)
	}
	w.Push(w.dev, w.repo, "main", "work.txt", "zero\n"+lines)
	head = now.Head
	w.tick()
	now, err = w.here.Update(w.ctx, ref, head)
	w.must("Update", err)
	if now.Same || now.Head == head {
		w.Errorf("after a change of the same file: got %+v, want another change at a new head", now)
	}
	w.Push(w.dev, w.repo, "main", "work.txt", "all new\n")
	w.tick()
	_, err = w.here.Update(w.ctx, ref, now.Head)
	w.refused("Update with a conflict", err, forge.ErrConflict)
}
