package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// say writes a comment and returns its ID.
func (w *world) say(login string, n int64, body string) int64 {
	w.Helper()
	owner, name := owner(w.repo)
	in, _, err := w.as(login).CreateIssueComment(owner, name, n, gitea.CreateIssueCommentOption{Body: body})
	w.must(err)
	return in.ID
}

func (w *world) editComment(login string, id int64, body string) {
	w.Helper()
	owner, name := owner(w.repo)
	_, _, err := w.as(login).EditIssueComment(owner, name, id, gitea.EditIssueCommentOption{Body: body})
	w.must(err)
}

func (w *world) like(login string, comment int64) {
	w.Helper()
	owner, name := owner(w.repo)
	_, _, err := w.as(login).PostIssueCommentReaction(owner, name, comment, "+1")
	w.must(err)
}

// said lists the commands of a scan.
func (w *world) said(f forge.Facts) string {
	var all []string
	for _, s := range f.Commands {
		all = append(all, fmt.Sprintf("%s: %s", w.short(s.Author),
			strings.Join(append([]string{s.Command.Verb}, s.Command.Args...), " ")))
	}
	return strings.Join(all, ", ")
}

// The comments with receipts are read also when another account has edited them, and those of other accounts are not.
func TestReceiptComments(t *testing.T) {
	onEach(t, func(w *world) {
		n, other := w.file("one", ""), w.file("two", "")
		c := w.client()
		w.must(c.SetComment(w.Context(), w.ref(n), forge.ReceiptsKey+"abc", "a row"))
		w.must(c.SetComment(w.Context(), w.ref(other), forge.ReceiptsKey+"abc", "another row"))
		w.must(c.Comment(w.Context(), w.ref(n), "gave-up-1", "no row"))
		w.say(w.owner, n, "a person's row\n\n<!-- disinto:"+forge.ReceiptsKey+"abc -->")
		all, _, err := c.comments(w.ref(n), time.Time{}).all(w.Context())
		w.must(err)
		w.editComment(w.owner, all[0].ID, strings.Replace(all[0].Body, "a row", "no row of ours", 1))
		got, err := c.ReceiptComments(w.Context(), time.Time{})
		w.must(err)
		mark := "\n\n<!-- disinto:" + forge.ReceiptsKey + "abc -->\n"
		if len(got) != 2 || got[w.ref(n)] != "no row of ours"+mark || got[w.ref(other)] != "another row"+mark {
			w.Errorf("got %q", got)
		}
		if got, err := c.ReceiptComments(w.Context(), time.Now().Add(time.Hour)); err != nil || len(got) > 0 {
			w.Errorf("of the future got %q, %v", got, err)
		}
	})
}

// An edited comment is not a command, because an agent can edit people's comments. A command that is edited or deleted
// after the scan cannot be taken.
func TestEditedCommentsAreText(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "")
		c := w.client()
		w.scan(c)
		plain, own := w.say(w.owner, n, "What a mess."), w.say(w.owner, n, "/disinto why")
		edited, deleted := w.say(w.owner, n, "/disinto retry"), w.say(w.owner, n, "/disinto release")
		w.say(w.owner, n, "/disinto cancel")
		w.nextSecond()
		w.editComment(w.dev, plain, "/disinto cancel")
		w.editComment(w.owner, own, "/disinto cancel")
		f := w.scan(c)
		if got := w.said(f); got != "owner: retry, owner: release, owner: cancel" {
			w.Fatalf("commands: %s", got)
		}
		w.nextSecond()
		w.editComment(w.dev, edited, "/disinto cancel")
		owner, name := owner(w.repo)
		_, err := w.as(w.dev).DeleteIssueComment(owner, name, deleted)
		w.must(err)
		for _, s := range f.Commands[:2] {
			if err := c.ClaimCommand(w.Context(), s); !errors.Is(err, forge.ErrNotFound) {
				w.Errorf("%s: %v", s.Command.Verb, err)
			}
		}
		w.must(c.ClaimCommand(w.Context(), f.Commands[2]))
		if got := w.said(w.scan(w.client())); got != "owner: cancel" {
			w.Errorf("commands after a restart: %s", got)
		}
	})
}

// An edit within the second in which a comment was written does not show. The thumbs-up of the comment's author after
// the question confirms the command; no other account's does, and none from before.
func TestEditsWithinTheSecondAreConfirmed(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "")
		c := w.client()
		w.scan(c)
		var s forge.CommandComment
		for s.ID == 0 { // until both fall into one second
			id := w.say(w.owner, n, "Thanks.")
			w.editComment(w.dev, id, "/disinto retry")
			for _, one := range w.scan(c).Commands {
				if one.ID == id {
					s = one
				}
			}
		}
		if s.Author != w.owner || s.Command.Verb != "retry" {
			w.Fatalf("a scan shows %+v, want the agent's command in the owner's name", s)
		}
		early := s
		early.ID = w.say(w.owner, n, "/disinto retry")
		confirmed := func(when string, s forge.CommandComment, want bool) {
			w.Helper()
			if got, err := c.Confirmed(w.Context(), s); got != want || err != nil {
				w.Errorf("%s: Confirmed returned %t, %v; want %t", when, got, err, want)
			}
		}
		w.nextSecond()
		confirmed("at first", s, false)
		w.like(w.owner, early.ID)
		w.nextSecond()
		w.must(c.Comment(w.Context(), s.Ref, s.ConfirmKey(), "Yours?"))
		w.must(c.Comment(w.Context(), s.Ref, early.ConfirmKey(), "Yours?"))
		w.nextSecond()
		confirmed("liked before the question", early, false)
		w.like(w.dev, s.ID)
		confirmed("liked by an agent", s, false)
		w.like(w.owner, s.ID)
		confirmed("liked by its author", s, true)
		w.must(c.ClaimCommand(w.Context(), s))
	})
}

// An account that loses its write access can give no more commands, after a minute at most.
func TestCommandersMayStillWrite(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "")
		w.collaborator(w.repo, w.human, gitea.AccessModeWrite)
		c := w.client()
		w.scan(c)
		w.say(w.human, n, "/disinto cancel")
		f := w.scan(c)
		w.collaborator(w.repo, w.human, gitea.AccessModeRead)
		time.Sleep(commandersEvery)
		if err := c.ClaimCommand(w.Context(), f.Commands[0]); !errors.Is(err, forge.ErrForbidden) {
			w.Errorf("Take: got %v, want %v", err, forge.ErrForbidden)
		}
		w.say(w.human, n, "/disinto cancel")
		if got := w.said(w.scan(w.client())); got != "" {
			w.Errorf("commands: %s", got)
		}
	})
}

// While the forge does not report who has write access, no command is accepted, and none is lost.
func TestWritersUnknown(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "")
		c := w.client()
		w.scan(c)
		w.say(w.owner, n, "/disinto why")
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, "/assignees") {
				return faults.Fail
			}
			return faults.None
		}
		f, err := c.Scan(w.Context())
		if err == nil || len(f.Commands) > 0 || !f.Repos[0].AsOf.After(time.Time{}) {
			w.Errorf("Scan returned %v, commands %s; want an error and no command", err, w.said(f))
		}
		w.fault = nil
		time.Sleep(commandersEvery)
		if got := w.said(w.scan(c)); got != "owner: why" {
			w.Errorf("commands: %s", got)
		}
	})
}

// However much strangers write, a scan reads at most ten pages of comments, requests the list of writers once, and
// stores nothing of it. An unchanged repository costs no request for comments.
func TestCommentsAreBounded(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "")
		c := w.client()
		w.scan(c)
		for range 600 {
			w.say(w.human, n, "/disinto cancel")
		}
		w.say(w.owner, n, "/disinto why")
		var f forge.Facts
		if got := w.requests(c, func() { f = w.scan(c) }); got > 15 {
			w.Errorf("the scan made %d requests, want at most 15", got)
		}
		if got := w.said(f); got != "owner: why" {
			w.Errorf("commands: %s", got)
		}
		time.Sleep(overlap + time.Second)
		w.scan(c)
		time.Sleep(time.Second)
		if got := w.requests(c, func() { w.scan(c) }); got > 1 {
			w.Errorf("a scan of an unchanged repository made %d requests, want at most 1", got)
		}
		time.Sleep(saidFor)
		w.say(w.owner, n, "Text.")
		if got := w.said(w.scan(c)) + w.said(w.scan(w.client())); got != "" {
			w.Errorf("commands of yesterday: %s", got)
		}
	})
}

// A malformed or edited comment contains no command.
func TestSaidIn(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	good := func() *gitea.Comment {
		return &gitea.Comment{
			ID: 5, IssueURL: "http://forge/a/b/issues/7", Poster: &gitea.User{UserName: "ada"}, Body: "/disinto why",
			Created: at, Updated: at,
		}
	}
	for name, change := range map[string]func(*gitea.Comment) *gitea.Comment{
		"null":            func(*gitea.Comment) *gitea.Comment { return nil },
		"no number":       func(c *gitea.Comment) *gitea.Comment { c.ID = 0; return c },
		"negative number": func(c *gitea.Comment) *gitea.Comment { c.ID = -5; return c },
		"no author":       func(c *gitea.Comment) *gitea.Comment { c.Poster = nil; return c },
		"no item":         func(c *gitea.Comment) *gitea.Comment { c.IssueURL = ""; return c },
		"strange item":    func(c *gitea.Comment) *gitea.Comment { c.IssueURL = "http://forge/a/b/issues/-7"; return c },
		"item zero":       func(c *gitea.Comment) *gitea.Comment { c.IssueURL = "0"; return c },
		"huge item":       func(c *gitea.Comment) *gitea.Comment { c.IssueURL = "/99999999999999999999"; return c },
		"edited":          func(c *gitea.Comment) *gitea.Comment { c.Updated = at.Add(time.Second); return c },
		"updated early":   func(c *gitea.Comment) *gitea.Comment { c.Updated = at.Add(-time.Second); return c },
		"cut":             func(c *gitea.Comment) *gitea.Comment { c.Body += "\n" + cutMark; return c },
		"text":            func(c *gitea.Comment) *gitea.Comment { c.Body = "why"; return c },
	} {
		if s, ok := saidIn("a/b", change(good())); ok {
			t.Errorf("%s: saidIn returned %+v, want no command", name, s)
		}
	}
	pull := good()
	pull.IssueURL, pull.PRURL = "", "http://forge/a/b/pulls/8"
	if s, ok := saidIn("a/b", pull); !ok || s.Number != 8 {
		t.Errorf("on a pull request: %+v, %v", s, ok)
	}
}

// The list of taken comments holds the newest five hundred; older comments count as taken.
func TestTakenIsBounded(t *testing.T) {
	all := takenBy{}
	for id := range int64(700) {
		all[id+1] = "here"
	}
	text := string(takenCommit(all).content)
	if n := strings.Count(text, "comment: "); n != maxTaken || strings.Contains(text, "comment: 200 ") ||
		!strings.Contains(text, "comment: 201 here\n") {
		t.Errorf("the commit lists %d comments, want %d, from 201 on", n, maxTaken)
	}
	full := takenBy{}
	for id := range int64(maxTaken) {
		full[id+201] = "here"
	}
	for id, want := range map[int64]bool{1: true, 201: true, 700: true, 701: false} {
		if _, got := full.has(id); got != want {
			t.Errorf("comment %d: taken is %v, want %v", id, got, want)
		}
	}
}
