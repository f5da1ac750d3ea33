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
	// second is longer than the granularity of any forge's timestamps. Forgejo stores whole seconds and rounds down.
	second = 1100 * time.Millisecond
	// patience bounds the wait for a late answer of the forge: with Forgejo a conflict shows only after 30 s.
	patience = 2 * time.Minute
)

// world is the setting of one rule. Two supervisors, here and there, share one forge account and the accounts of their
// agents. There are two people, and a repository to which every account except human can write.
type world struct {
	testing.TB
	Site

	ctx           context.Context
	boss, dev     string // the supervisors' own account, and an agent
	review, human string // another agent, and a person who can only read
	colleague     string // a person who can write
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

// supervisor returns a new client with the instance as its state directory's id.
func (w *world) supervisor(instance string) Forge {
	return w.Supervisor(Supervisor{
		Instance: instance, Host: "host-" + instance, Token: w.bossToken, Repos: []string{w.repo}, Agents: []string{
			w.dev,
			w.review,
		},
	})
}

// file files an issue with the label backlog and the given labels.
func (w *world) file(title string, labels ...string) forge.Ref {
	w.Helper()
	ref, err := w.here.File(w.ctx, forge.Draft{Repo: w.repo, Title: title, Labels: append(labels, forge.LabelBacklog)})
	w.must("File", err)
	return ref
}

// missing returns a Ref of an item that does not exist.
func (w *world) missing() forge.Ref { return forge.Ref{Repo: w.repo, Number: 9999} }

// scan calls Scan until the facts are complete.
func (w *world) scan(f Forge) forge.Facts {
	w.Helper()
	for range 1000 {
		facts, err := f.Scan(w.ctx)
		w.must("Scan", err)
		if !facts.More {
			return facts
		}
	}
	w.Fatal("Scan still sets More after a thousand calls")
	return forge.Facts{}
}

// issue returns an issue as a scan by here shows it.
func (w *world) issue(ref forge.Ref) *forge.Issue {
	w.Helper()
	facts := w.scan(w.here)
	i := facts.Issue(ref)
	if i == nil {
		w.Fatalf("the scan returned no issue %s", ref)
	}
	return i
}

// pull returns a pull request as a scan by here shows it.
func (w *world) pull(ref forge.Ref) *forge.Pull {
	w.Helper()
	facts := w.scan(w.here)
	p := facts.Pull(ref)
	if p == nil {
		w.Fatalf("the scan returned no pull request %s", ref)
	}
	return p
}

// work makes a branch with one commit of the account dev, and opens a pull request for it.
func (w *world) work(branch, body string) (forge.Ref, string) {
	w.Helper()
	head := w.Push(w.dev, w.repo, branch, "work.txt", branch+"\n")
	return w.Open(w.dev, w.repo, branch, "work on "+branch, body), head
}

// tick waits until the forge's clock shows another second.
func (w *world) tick() { time.Sleep(second) }

// eventually polls until holds returns true, for answers that a forge gives late.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(second) {
		if time.Now().After(end) {
			w.Fatalf("after %v still not true: %s", patience, what)
		}
	}
}

func (w *world) must(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// refused wants an error that wraps kind.
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
