package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// session returns the client of a session: it has the agent's token, and makes no claims.
func (w *world) session() *Client {
	w.Helper()
	return w.client(func(o *Options) { o.Token, o.Claims = w.tokens[w.dev], nil })
}

// beginning claims an issue and returns the Beginning of a session with that claim.
func (w *world) beginning(c *Client, n int64, run string) Beginning {
	w.Helper()
	w.must(c.Claim(w.Context(), w.ref(n), w.dev, run))
	return Beginning{Repo: w.repo, Number: n, Claim: c.claims[w.ref(n)].commit, Run: run}
}

// begins reports whether the session can begin in a place. It fails the test on any error but forge.ErrTaken.
func (w *world) begins(b Beginning, place string) (began bool) {
	w.Helper()
	b.Place = place
	err := w.session().Begin(w.Context(), b)
	if err != nil && !errors.Is(err, forge.ErrTaken) {
		w.Errorf("%s: %v", place, err)
	}
	return err == nil
}

// TestBeginOnce: only one of several places begins a session, with a claim or without. That place can repeat Begin.
func TestBeginOnce(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.instance("aaa")
		for _, b := range []Beginning{
			w.beginning(c, w.file("one", "", "backlog"), "aaa-1"), {Repo: w.repo, Run: "aaa-2"},
		} {
			var began sync.Map
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					if place := fmt.Sprint("place", i); w.begins(b, place) {
						began.Store(place, true)
					}
				})
			}
			all.Wait()
			var places []string
			began.Range(func(place, _ any) bool { places = append(places, place.(string)); return true })
			if len(places) != 1 {
				w.Fatalf("%s began in %q, want one place", b.Run, places)
			}
			for i := range 4 {
				if place := fmt.Sprint("place", i); w.begins(b, place) != (place == places[0]) {
					w.Errorf("%s: Begin in %s, repeated, has another result", b.Run, place)
				}
			}
		}
	})
}

// TestBeginReleased: the supervisor can release the claim of a begun session, even after a restart. Then no session can
// begin with that claim.
func TestBeginReleased(t *testing.T) {
	onEach(t, func(w *world) {
		for run, after := range map[string]func(c *Client) *Client{
			"aaa-1": func(c *Client) *Client { return c },
			"aaa-2": func(*Client) *Client { return w.instance("aaa") },
		} {
			c := w.instance("aaa")
			n := w.file("one", "", "backlog")
			b := w.beginning(c, n, run)
			if !w.begins(b, "here") {
				w.Fatal("the session cannot begin")
			}
			w.same("holder as another supervisor sees it", w.short(w.heldBy(w.instance("bbb"), n)), "dev on host-of-aaa")
			if err := w.instance("bbb").Release(w.Context(), w.ref(n), w.dev); !errors.Is(err, forge.ErrTaken) {
				w.Errorf("another's release: %v", err)
			}
			w.must(after(c).Release(w.Context(), w.ref(n), w.dev))
			w.same("claimed", w.claimed(), "")
			w.same("state", w.state(n), "backlog")
			if w.begins(b, "here") || w.begins(b, "there") {
				w.Error("a session begins after the release of its claim")
			}
			c = w.instance("aaa")
			w.scan(c)
			next := w.beginning(c, n, run+"-next")
			if w.begins(b, "there") || !w.begins(next, "there") {
				w.Error("a session begins with the old claim, or not with the new one")
			}
			w.must(c.Release(w.Context(), w.ref(n), w.dev))
		}
	})
}

// TestBeginClaimed: the run of a begun session cannot claim the item again, and no session begins from the commit that
// Begin wrote.
func TestBeginClaimed(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.instance("aaa")
		b := w.beginning(c, n, "aaa-1")
		w.begins(b, "here")
		if err := c.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("the same run claims again: got %v, want %v", err, forge.ErrTaken)
		}
		at, err := c.refAt(w.Context(), w.repo, claimRef(n))
		w.must(err)
		if got := c.ClaimCommit(w.ref(n)); got != at {
			w.Errorf("the same run claims again: ClaimCommit returned %.10s, want the ref's commit %.10s", got, at)
		}
		held, err := c.holder(w.Context(), w.ref(n))
		w.must(err)
		b.Claim = held.commit
		if w.begins(b, "there") {
			w.Error("a session begins from the commit that Begin wrote")
		}
		b.Run = "aaa-7"
		if w.begins(b, "there") {
			w.Error("a run begins with another's claim")
		}
	})
}

// TestBeginForgotten: Forget removes the ref of a session without a claim, and no other ref.
func TestBeginForgotten(t *testing.T) {
	onEach(t, func(w *world) {
		c, b := w.instance("aaa"), Beginning{Repo: w.repo, Run: "aaa-1"}
		w.must(c.Forget(w.Context(), w.repo, b.Run))
		w.begins(b, "here")
		w.begins(Beginning{Repo: w.repo, Run: "aaa-10"}, "here") // the first run's id is a prefix of this one
		w.must(c.Forget(w.Context(), w.repo, b.Run))
		w.must(c.Forget(w.Context(), w.repo, b.Run))
		refs, err := c.listRefs(w.Context(), w.repo, beginPrefix)
		w.must(err)
		if len(refs) != 1 || refs[0].Ref != beginPrefix+"aaa-10" {
			w.Errorf("Forget left %v, want only the ref of aaa-10", refs)
		}
	})
}

// TestBeginLostAnswer: when the answer to Begin was lost, the same place can repeat Begin, and other places cannot
// begin.
func TestBeginLostAnswer(t *testing.T) {
	onLocal(t, func(w *world) {
		b := w.beginning(w.instance("aaa"), w.file("one", "", "backlog"), "aaa-1")
		b.Place = "here"
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				return faults.Lose
			}
			return faults.None
		}
		if err := w.session().Begin(w.Context(), b); !errors.Is(err, forge.ErrUnavailable) {
			w.Errorf("got %v", err)
		}
		w.fault = nil
		if w.begins(b, "there") || !w.begins(b, "here") {
			w.Error("another place begins, or the first place cannot repeat Begin")
		}
	})
}
