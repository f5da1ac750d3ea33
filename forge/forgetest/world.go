package forgetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// second is more than the granularity of any forge's times. Forgejo keeps whole seconds and rounds down.
	second = 1100 * time.Millisecond
	// patience bounds the wait for what a forge does late: a conflict shows after 30 s, with Forgejo.
	patience = 2 * time.Minute
)

// world is the setting of one rule: two supervisors, here and there, that share one forge account and the accounts
// of their agents; two people; and a repository in which all but one of them may write.
type world struct {
	testing.TB
	Site

	ctx           context.Context
	boss, dev     string // the supervisors' account and an agent
	review, human string // another agent, and a person who may only read
	colleague     string // a person who may write
	repo          string
	here, there   Forge

	bossToken, devToken, humanToken string
}

func newWorld(t testing.TB, s Site) *world {
	t.Helper()
	w := &world{TB: t, Site: s, ctx: context.Background()}
	w.boss, w.bossToken = s.Account("boss")
	w.dev, w.devToken = s.Account("dev")
	w.review, _ = s.Account("review")
	w.human, w.humanToken = s.Account("human")
	w.colleague, _ = s.Account("colleague")
	w.repo = s.Repo(w.boss, w.dev, w.review, w.colleague)
	w.here, w.there = w.supervisor("here"), w.supervisor("there")
	if err := w.here.Prepare(w.ctx); err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	return w
}

// supervisor is a new client of the supervisor of an instance.
func (w *world) supervisor(instance string) Forge {
	return w.Supervisor(Supervisor{
		Instance: instance, Host: "host-" + instance, Token: w.bossToken, Repos: []string{w.repo}, Agents: []string{
			w.dev,
			w.review,
		},
	})
}

// file makes an issue of the backlog.
func (w *world) file(title string, labels ...string) forge.Ref {
	w.Helper()
	ref, err := w.here.File(w.ctx, forge.Draft{Repo: w.repo, Title: title, Labels: append(labels, forge.LabelBacklog)})
	w.must("File", err)
	return ref
}

// missing is an item that does not exist.
func (w *world) missing() forge.Ref { return forge.Ref{Repo: w.repo, Number: 9999} }

// scan is a whole scan, of as many parts as the client makes of it.
func (w *world) scan(f Forge) forge.Facts {
	w.Helper()
	for range 1000 {
		facts, err := f.Scan(w.ctx)
		w.must("Scan", err)
		if !facts.More {
			return facts
		}
	}
	w.Fatal("Scan asks for more a thousand times")
	return forge.Facts{}
}

// issue is an issue as a scan of ours shows it.
func (w *world) issue(ref forge.Ref) *forge.Issue {
	w.Helper()
	facts := w.scan(w.here)
	i := facts.Issue(ref)
	if i == nil {
		w.Fatalf("the facts lack the issue %s", ref)
	}
	return i
}

// pull is a pull request as a scan of ours shows it.
func (w *world) pull(ref forge.Ref) *forge.Pull {
	w.Helper()
	facts := w.scan(w.here)
	p := facts.Pull(ref)
	if p == nil {
		w.Fatalf("the facts lack the pull request %s", ref)
	}
	return p
}

// work is a branch of dev's with one commit, and a pull request for it.
func (w *world) work(branch, body string) (forge.Ref, string) {
	w.Helper()
	head := w.Push(w.dev, w.repo, branch, "work.txt", branch+"\n")
	return w.Open(w.dev, w.repo, branch, "work on "+branch, body), head
}

// tick lets the forge's clock reach another second.
func (w *world) tick() { time.Sleep(second) }

// eventually waits for what a forge does late.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(second) {
		if time.Now().After(end) {
			w.Fatalf("after %v still not so: %s", patience, what)
		}
	}
}

func (w *world) must(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// refused wants an error of a kind, with no token in it.
func (w *world) refused(what string, err, kind error) {
	w.Helper()
	if !errors.Is(err, kind) {
		w.Errorf("%s: got %v, want %v", what, err, kind)
	}
}

func same[T comparable](w *world, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func equal[S ~[]T, T comparable](w *world, what string, got, want S) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}
