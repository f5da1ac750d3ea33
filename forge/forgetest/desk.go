package forgetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// Desk has the methods of session.Desk, which documents what each of them promises. They are repeated for the same
// reason as those of Forge, and a test checks that the two interfaces are identical.
type Desk interface {
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	Comment(ctx context.Context, ref forge.Ref, body string) error
	Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error)
	PullsFrom(ctx context.Context, repo, branch string) ([]forge.Pull, error)
	OpenPull(ctx context.Context, p forge.PullDraft) (number int64, err error)
	Reviews(ctx context.Context, pull forge.Ref) ([]forge.FullReview, error)
	PostReview(ctx context.Context, pull forge.Ref, r *forge.FullReview) error
	Checks(ctx context.Context, repo, sha string) ([]forge.Check, error)
	CheckLog(ctx context.Context, repo string, c forge.Check) (string, error)
	Writers(ctx context.Context, repo string) ([]string, error)
	Repository(ctx context.Context, name string) (forge.Repository, error)
	File(ctx context.Context, repo, path string) (string, error)
	Folder(ctx context.Context, repo, path string) ([]string, error)
	MissingFiles(ctx context.Context, repo string, files []forge.LargeFile) ([]forge.LargeFile, error)
	Login(ctx context.Context) (string, error)
	Edit(ctx context.Context, repo, message string, edits []forge.Edit) error
}

// DeskSite is a Site that also makes desks.
type DeskSite interface {
	Site
	// Desk returns the desk of the account with this token.
	Desk(token string) Desk
}

// DeskHost creates a DeskSite and calls check with it exactly once, before it returns.
type DeskHost func(t *testing.T, check func(testing.TB, DeskSite))

// desks is a world with the desks of the developer's account and of the supervisors' account.
type desks struct {
	*world
	dev, boss Desk
	of        func(token string) Desk
}

// ExerciseDesk checks, in subtests, what the built-in agent program expects of a forge.
func ExerciseDesk(t *testing.T, host DeskHost) {
	for _, r := range []struct {
		name  string
		check func(*desks)
	}{
		{"an account and its repository are found", deskAccount},
		{"issues and comments are read whole", deskItems},
		{"a pull request is opened once", deskPulls},
		{"reviews are read back unchanged", deskReviews},
		{"only failed checks are read", deskChecks},
		{"the log of a check outside the forge is empty", deskLog},
		{"files are read and edited", deskFiles},
		{"large files that the forge lacks are found", deskLargeFiles},
		{"errors have a kind and do not contain the token", deskErrors},
	} {
		t.Run(r.name, func(t *testing.T) {
			host(t, func(t testing.TB, s DeskSite) {
				w := newWorld(t, s)
				r.check(&desks{world: w, dev: s.Desk(w.devToken), boss: s.Desk(w.bossToken), of: s.Desk})
			})
		})
	}
}

func deskAccount(w *desks) {
	login, err := w.dev.Login(w.ctx)
	w.must("Login", err)
	same(w.world, "login", login, w.world.dev)
	r, err := w.dev.Repository(w.ctx, w.repo)
	w.must("Repository", err)
	same(w.world, "name", r.Name, w.repo)
	same(w.world, "default branch", r.Branch, "main")
	same(w.world, "rebases", r.Rebases, false)
	writers, err := w.dev.Writers(w.ctx, w.repo)
	w.must("Writers", err)
	for login, want := range map[string]bool{w.world.dev: true, w.world.boss: true, w.world.human: false} {
		same(w.world, login+" may write", slices.Contains(writers, login), want)
	}
}

func deskItems(w *desks) {
	ref, err := w.here.File(w.ctx, forge.Draft{Repo: w.repo, Title: "A title", Body: "A body\nof two lines"})
	w.must("File", err)
	is, err := w.dev.Issue(w.ctx, ref)
	w.must("Issue", err)
	same(w.world, "ref", is.Ref, ref)
	same(w.world, "title", is.Title, "A title")
	same(w.world, "body", is.Body, "A body\nof two lines")
	same(w.world, "author", is.Author, w.world.boss)
	none, err := w.dev.Comments(w.ctx, ref)
	w.must("Comments", err)
	same(w.world, "comments before the first", len(none), 0)
	var want []forge.Comment
	for i := range 51 { // Forgejo returns at most 50 per page
		want = append(want, forge.Comment{Author: w.world.dev, Body: fmt.Sprintf("comment %d", i)})
		w.must("Comment", w.dev.Comment(w.ctx, ref, want[i].Body))
	}
	got, err := w.dev.Comments(w.ctx, ref)
	w.must("Comments", err)
	for i, c := range got {
		same(w.world, "comment IDs increase", c.ID > 0 && (i == 0 || c.ID > got[i-1].ID), true)
		got[i].ID = 0
	}
	equal(w.world, "comments", got, want)
}

func deskPulls(w *desks) {
	issue := w.file("Wanted")
	branch := fmt.Sprintf("fix/issue-%d", issue.Number)
	head := w.Push(w.world.dev, w.repo, branch, "tea.txt", "one\ntwo\n")
	draft := forge.PullDraft{Repo: w.repo, Head: branch, Base: "main", Title: "Make tea", Body: "As asked."}
	none, err := w.dev.PullsFrom(w.ctx, w.repo, branch)
	w.must("PullsFrom", err)
	same(w.world, "pull requests before the first", len(none), 0)
	number, err := w.dev.OpenPull(w.ctx, draft)
	w.must("OpenPull", err)
	again, err := w.dev.OpenPull(w.ctx, draft)
	w.must("OpenPull again", err)
	same(w.world, "number", again, number)
	p, err := w.dev.Pull(w.ctx, forge.Ref{Repo: w.repo, Number: number})
	w.must("Pull", err)
	for field, pair := range map[string][2]string{
		"title": {p.Title, draft.Title}, "body": {p.Body, draft.Body}, "author": {p.Author, w.world.dev},
		"head": {p.Head, branch}, "commit": {p.HeadSHA, head}, "base": {p.Base, "main"}, "repository": {p.HeadRepo, w.repo},
	} {
		same(w.world, field, pair[0], pair[1])
	}
	same(w.world, "closed", p.Closed, false)
	equal(w.world, "issues", p.Closes, []forge.Ref{issue})
	w.work("other", "")
	from, err := w.dev.PullsFrom(w.ctx, w.repo, branch)
	w.must("PullsFrom", err)
	if len(from) != 1 || from[0].Number != number {
		w.Errorf("PullsFrom returned %+v, want only #%d", from, number)
	}
	draft.Head = "no-such-branch"
	if _, err := w.dev.OpenPull(w.ctx, draft); err == nil {
		w.Error("OpenPull from a missing branch succeeded")
	}
}

func deskReviews(w *desks) {
	pull, head := w.work("topic", "")
	reader, token := w.Account("reader") // a second review by the same account would replace its first
	for _, r := range []struct {
		desk    Desk
		verdict forge.Verdict
	}{{w.boss, forge.ChangesRequested}, {w.of(token), forge.Approved}} {
		given := forge.Review{Verdict: r.verdict, CommitSHA: head, Body: "As I see it."}
		w.must("PostReview", r.desk.PostReview(w.ctx, pull, &forge.FullReview{Review: given}))
	}
	got, err := w.dev.Reviews(w.ctx, pull)
	w.must("Reviews", err)
	var said []string
	for _, r := range got {
		said = append(said, fmt.Sprintf("%s %d %s %q", r.Author, r.Verdict, r.CommitSHA, r.Body))
	}
	equal(w.world, "reviews", said, []string{
		fmt.Sprintf("%s %d %s %q", w.world.boss, forge.ChangesRequested, head, "As I see it."),
		fmt.Sprintf("%s %d %s %q", reader, forge.Approved, head, "As I see it."),
	})
}

func deskChecks(w *desks) {
	_, head := w.work("topic", "")
	none, err := w.dev.Checks(w.ctx, w.repo, head)
	w.must("Checks", err)
	same(w.world, "checks before CI", len(none), 0)
	for _, r := range [][2]string{
		{"z", "success"},
		{"z", "failure"},
		{"a", "error"},
		{"mended", "failure"},
		{"mended", "success"},
		{"running", "pending"},
	} {
		w.Report(w.repo, head, r[0], r[1])
	}
	got, err := w.dev.Checks(w.ctx, w.repo, head)
	w.must("Checks", err)
	equal(w.world, "checks", got, []forge.Check{{Name: "a", State: "error"}, {Name: "z", State: "failure"}})
}

func deskLog(w *desks) {
	for _, url := range []string{"", "https://ci.example/build/5"} {
		text, err := w.dev.CheckLog(w.ctx, w.repo, forge.Check{Name: "ci", URL: url})
		w.must("CheckLog", err)
		same(w.world, "log", text, "")
	}
}

func deskFiles(w *desks) {
	w.must("Edit", w.dev.Edit(w.ctx, w.repo, "Begin", []forge.Edit{
		{Path: "notes/b é.md", Text: "b\n"}, {Path: "notes/a.md", Text: "a\n"}, {Path: "record", Text: "1\n", Append: true},
	}))
	w.must("Edit", w.dev.Edit(w.ctx, w.repo, "Go on", []forge.Edit{
		{Path: "notes/a.md"}, {Path: "record", Text: "2\n", Append: true},
	}))
	for path, want := range map[string]string{"notes/a.md": "", "notes/b é.md": "b\n", "record": "1\n2\n"} {
		text, err := w.dev.File(w.ctx, w.repo, path)
		w.must("File "+path, err)
		same(w.world, path, text, want)
	}
	names, err := w.dev.Folder(w.ctx, w.repo, "notes")
	w.must("Folder", err)
	equal(w.world, "folder", names, []string{"a.md", "b é.md"})
}

func deskErrors(w *desks) {
	const stranger = "0123456789012345678901234567890123456789"
	gone, lost := w.missing(), w.repo+"-gone"
	for name, call := range map[string]func(Desk) error{
		"Issue":   func(d Desk) error { _, err := d.Issue(w.ctx, gone); return err },
		"Pull":    func(d Desk) error { _, err := d.Pull(w.ctx, gone); return err },
		"Reviews": func(d Desk) error { _, err := d.Reviews(w.ctx, gone); return err },
		"PostReview": func(d Desk) error {
			return d.PostReview(w.ctx, gone, &forge.FullReview{Review: forge.Review{Body: "x"}})
		},
		"PullsFrom":  func(d Desk) error { _, err := d.PullsFrom(w.ctx, lost, "x"); return err },
		"Repository": func(d Desk) error { _, err := d.Repository(w.ctx, lost); return err },
		"File":       func(d Desk) error { _, err := d.File(w.ctx, w.repo, "gone"); return err },
		"Folder":     func(d Desk) error { _, err := d.Folder(w.ctx, w.repo, "gone"); return err },
	} {
		w.refused(name, call(w.dev), forge.ErrNotFound)
		err := call(w.of(stranger))
		w.refused(name+" with an unknown token", err, forge.ErrForbidden)
		same(w.world, "the error of "+name+" contains the token", strings.Contains(fmt.Sprint(err), stranger), false)
	}
}

// deskLargeFiles knows no way to store a large file: a test of the session does.
func deskLargeFiles(w *desks) {
	want := []forge.LargeFile{{ID: strings.Repeat("ab", 32), Size: 7}, {ID: strings.Repeat("cd", 32), Size: 8}}
	got, err := w.dev.MissingFiles(w.ctx, w.repo, want)
	w.must("MissingFiles", err)
	if !slices.Equal(got, want) {
		w.Errorf("got %v missing, want %v", got, want)
	}
	if got, err = w.dev.MissingFiles(w.ctx, w.repo, nil); err != nil || len(got) > 0 {
		w.Errorf("no files: got %v, %v", got, err)
	}
}
