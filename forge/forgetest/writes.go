package forgetest

import (
	"context"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

func writeRules() []rule {
	return []rule{
		{Rights, "Prepare creates the required labels", prepare},
		{Issues, "labels are added and removed by name", label},
		{Issues, "a comment is written once for each key", comment},
		{Issues, "Keep has one comment per key, with the last text", setComment},
		{Issues, "an issue is filed with its labels", file},
		{Issues, "an issue with a key is filed once", fileOnce},
		{Issues, "an issue waits for what it depends on, and closes after it", dependClose},
		{Rights, "a token leads to its account", accounts},
		{Pulls, "a write with a cancelled context changes nothing", ended},
	}
}

func prepare(w *world) {
	w.must("Prepare again", w.here.Prepare(w.ctx))
	ref := w.file("one")
	for _, l := range forge.RequiredLabels() {
		w.must("Label", w.here.Label(w.ctx, ref, []string{l.Name}, nil))
		same(w, l.Name, w.issue(ref).Has(l.Name), true)
	}
	stranger := w.Supervisor(Supervisor{Instance: "s", Host: "s", Token: w.humanToken, Repos: []string{w.repo}})
	if err := stranger.Prepare(w.ctx); err == nil {
		w.Error("Prepare succeeds with an account that can only read")
	}
}

func label(w *world) {
	ref := w.file("one")
	for range 2 {
		w.must("Label", w.here.Label(w.ctx, ref, []string{"brand-new", "priority"}, []string{"staged"}))
		equal(w, "labels", w.issue(ref).Labels, []string{"backlog", "brand-new", "priority"})
	}
	w.must("Label", w.here.Label(w.ctx, ref, []string{"staged"}, []string{"brand-new"}))
	equal(w, "labels", w.issue(ref).Labels, []string{"backlog", "priority", "staged"})
	if err := w.here.Label(w.ctx, ref, nil, []string{forge.LabelBacklog}); err == nil {
		w.Error("Label removed the label backlog")
	}
	same(w, "backlog stays", w.issue(ref).Has(forge.LabelBacklog), true)
	w.refused("Label on a missing issue", w.here.Label(w.ctx, w.missing(), []string{"staged"}, nil), forge.ErrNotFound)
}

func comment(w *world) {
	ref := w.file("one")
	w.must("Comment", w.here.Comment(w.ctx, ref, "gave-up:1", "I give up."))
	text := w.Comments(ref)
	if len(text) != 1 || !strings.Contains(text[0], "I give up.") {
		w.Fatalf("comments: %q", text)
	}
	w.must("Comment again", w.here.Comment(w.ctx, ref, "gave-up:1", "I give up."))
	w.must("Comment after a restart", w.supervisor("here").Comment(w.ctx, ref, "gave-up:1", "I give up."))
	same(w, "comments", len(w.Comments(ref)), 1)
	other := w.file("two")
	w.Say(w.human, other, text[0])
	w.must("Comment below a copy of the comment", w.here.Comment(w.ctx, other, "gave-up:1", "I give up."))
	same(w, "comments", len(w.Comments(other)), 2)
	w.must("Comment with another key", w.here.Comment(w.ctx, ref, "gave-up:2", "I give up."))
	same(w, "comments", len(w.Comments(ref)), 2)
	w.refused("Comment on a missing issue", w.here.Comment(w.ctx, w.missing(), "gave-up:1", "x"), forge.ErrNotFound)
}

func setComment(w *world) {
	ref := w.file("one")
	w.Say(w.human, ref, "two <!-- disinto:sum-1 -->") // a copy of our mark in another account's comment does not count
	w.must("SetComment", w.here.SetComment(w.ctx, ref, "sum-1", "one"))
	w.must("SetComment to the same", w.here.SetComment(w.ctx, ref, "sum-1", "one"))
	updated := w.issue(ref).Updated
	w.must("SetComment to another text", w.here.SetComment(w.ctx, ref, "sum-1", "one, two"))
	w.must("SetComment after a restart", w.supervisor("here").SetComment(w.ctx, ref, "sum-1", "one, two, three"))
	text := w.Comments(ref)
	if len(text) != 2 || !strings.Contains(text[1], "one, two, three") || strings.Count(text[1], "one") != 1 {
		w.Fatalf("comments: %q", text)
	}
	same(w, "Updated stays when a comment is edited", w.issue(ref).Updated.Equal(updated), true)
	w.must("SetComment for another key", w.here.SetComment(w.ctx, ref, "sum-2", "x"))
	same(w, "comments", len(w.Comments(ref)), 3)
	w.refused("SetComment on a missing issue", w.here.SetComment(w.ctx, w.missing(), "sum-1", "x"), forge.ErrNotFound)
}

func file(w *world) {
	draft := forge.Draft{Repo: w.repo, Title: "one", Body: "text", Labels: []string{"backlog", "never-seen"}}
	ref, err := w.here.File(w.ctx, draft)
	w.must("File", err)
	equal(w, "labels", w.issue(ref).Labels, []string{"backlog", "never-seen"})
	again, err := w.here.File(w.ctx, draft)
	w.must("File", err)
	same(w, "filing the same draft again makes another issue", again.Repo == w.repo && again.Number > ref.Number, true)
	draft.Repo += "-gone"
	_, err = w.here.File(w.ctx, draft)
	w.refused("File in a missing repository", err, forge.ErrNotFound)
}

func fileOnce(w *world) {
	since := time.Now().Add(-time.Hour)
	d := forge.Draft{
		Repo: w.repo, Title: "one", Body: "text", Labels: []string{"skill/go"}, Key: "split-1/a", Since: since,
	}
	first, err := w.here.File(w.ctx, d)
	w.must("File", err)
	w.must("Close", w.here.Close(w.ctx, first))
	again, err := w.supervisor("there").File(w.ctx, d) // another process of the account, and the issue is closed
	w.must("File again", err)
	same(w, "the issue with the same key", again, first)
	other := d
	other.Key = "split-1/b"
	second, err := w.here.File(w.ctx, other)
	w.must("File with another key", err)
	same(w, "the issue with another key is the first", second == first, false)
	equal(w, "its labels", w.issue(second).Labels, []string{"skill/go"})
}

func dependClose(w *world) {
	ref, on := w.file("waits"), w.file("first")
	for range 2 {
		w.must("Depend", w.here.Depend(w.ctx, ref, on))
		now, err := w.here.Blockers(w.ctx, ref)
		w.must("Blockers", err)
		equal(w, "blockers", now, []forge.Blocker{{Ref: on, State: forge.BlockerOpen}})
	}
	w.refused("Depend on a missing issue", w.here.Depend(w.ctx, ref, w.missing()), forge.ErrNotFound)
	_, err := w.here.Blockers(w.ctx, w.missing())
	w.refused("Blockers of a missing issue", err, forge.ErrNotFound)
	closed := func() bool {
		got, err := w.here.FetchItem(w.ctx, ref, time.Time{})
		w.must("Look", err)
		return got.Issue.Closed
	}
	err = w.here.Close(w.ctx, ref) // a forge can close the issue or refuse, but its answer must be true
	same(w, "closed exactly when Close succeeded", closed(), err == nil)
	if err != nil {
		w.refused("Close of an issue with an open blocker", err, forge.ErrConflict)
	}
	for range 2 {
		w.must("Close", w.here.Close(w.ctx, on))
	}
	w.must("Close", w.here.Close(w.ctx, ref))
	same(w, "closed", closed(), true)
	w.refused("Close of a missing issue", w.here.Close(w.ctx, w.missing()), forge.ErrNotFound)
}

func accounts(w *world) {
	before := w.here.Requests()
	for token, want := range map[string]string{"": w.boss, w.devToken: w.dev, w.humanToken: w.human} {
		login, err := w.here.WhoAmI(w.ctx, token)
		w.must("WhoAmI", err)
		same(w, "login", login, want)
	}
	if n := w.here.Requests() - before; n < 1 {
		w.Errorf("Requests counted %d requests, want at least 1", n)
	}
	const unknown = "0123456789012345678901234567890123456789"
	_, err := w.here.WhoAmI(w.ctx, unknown)
	w.refused("WhoAmI with an unknown token", err, forge.ErrForbidden)
	if err != nil && strings.Contains(err.Error(), unknown) {
		w.Error("the error of WhoAmI contains the token")
	}
	w.must("MayWork of an agent", w.here.MayWork(w.ctx, w.devToken, w.repo))
	for what, err := range map[string]error{
		"MayWork of a reader":             w.here.MayWork(w.ctx, w.humanToken, w.repo),
		"MayWork with an unknown token":   w.here.MayWork(w.ctx, unknown, w.repo),
		"MayWork in a missing repository": w.here.MayWork(w.ctx, w.devToken, w.repo+"-gone"),
	} {
		w.refused(what, err, forge.ErrForbidden)
		if err != nil && strings.Contains(err.Error(), "\n") {
			w.Errorf("%s: the error has several lines: %q", what, err)
		}
	}
}

func ended(w *world) {
	ref, on := w.file("one"), w.file("two")
	pull, head := w.work("topic", "")
	w.scan(w.here)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	for what, do := range map[string]func() error{
		"Claim":     func() error { return w.here.Claim(ctx, ref, w.dev, "here-1") },
		"Release":   func() error { return w.here.Release(ctx, ref, w.dev) },
		"Free":      func() error { _, err := w.here.Free(ctx, ref); return err },
		"Label":     func() error { return w.here.Label(ctx, ref, []string{"priority"}, nil) },
		"Comment":   func() error { return w.here.Comment(ctx, ref, "key", "text") },
		"Keep":      func() error { return w.here.SetComment(ctx, ref, "key", "text") },
		"Close":     func() error { return w.here.Close(ctx, ref) },
		"File":      func() error { _, err := w.here.File(ctx, forge.Draft{Repo: w.repo, Title: "three"}); return err },
		"Depend":    func() error { return w.here.Depend(ctx, ref, on) },
		"Blockers":  func() error { _, err := w.here.Blockers(ctx, ref); return err },
		"Reassign":  func() error { return w.here.Reassign(ctx, ref, "", w.dev, nil, "here-2") },
		"Merge":     func() error { return w.here.Merge(ctx, pull, head, "main") },
		"Update":    func() error { _, err := w.here.Update(ctx, pull, head); return err },
		"FetchItem": func() error { _, err := w.here.FetchItem(ctx, ref, time.Time{}); return err },
		"Prepare":   func() error { return w.here.Prepare(ctx) },
		"WhoAmI":    func() error { _, err := w.here.WhoAmI(ctx, w.devToken); return err },
		"MayWork":   func() error { return w.here.MayWork(ctx, w.devToken, w.repo) },
	} {
		w.refused(what, do(), context.Canceled)
	}
	same(w, "unchanged", w.state(ref), free1)
	same(w, "no comment", len(w.Comments(ref)), 0)
	facts := w.scan(w.here)
	same(w, "no issue filed", len(facts.Issues), 2)
	same(w, "open", facts.Pull(pull).Merged || facts.Issue(ref).Closed, false)
	equal(w, "no dependency", facts.Issue(ref).Blockers, nil)
}
