package forgejo

import (
	"errors"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// TestTwins: two supervisors with the same instance id. The one that sees a claim of the other that it did not make
// respects it and tells the other, which then claims nothing any more. A restart counts older claims as its own.
func TestTwins(t *testing.T) {
	onEach(t, func(w *world) {
		n, m := w.file("one", "", "backlog"), w.file("two", "", "backlog")
		twin := func(host string) *Client {
			return w.client(func(o *Options) { o.Claims = claimsOf("aaa", host) })
		}
		a, b := twin("iris"), twin("loom")
		w.scan(a)
		w.scan(b)
		time.Sleep(time.Second)
		w.must(b.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		if f := w.scan(b); !f.Twin.At.IsZero() {
			w.Errorf("before the other claims: got the twin %+v", f.Twin)
		}
		w.same("held by, as its twin sees it", w.short(w.heldBy(a, n)), "dev on loom")
		if f := w.scan(a); w.short(f.Twin.Who) != "dev on loom" || !f.Sharer.At.IsZero() {
			w.Errorf("got the twin %+v and the sharer %+v", f.Twin, f.Sharer)
		}
		if err := a.Release(w.Context(), w.ref(n), w.dev); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("a release of the twin's claim: %v", err)
		}
		w.same("claimed", w.claimed(), "1")
		if err := b.Claim(w.Context(), w.ref(m), w.dev, "aaa-2"); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("a claim of one that was found: %v", err)
		}
		if f := w.scan(b); f.Twin.Who != "a twin on iris" {
			w.Errorf("the one that was found: got the twin %+v", f.Twin)
		}
		w.must(b.Release(w.Context(), w.ref(n), w.dev))

		again := twin("iris")
		time.Sleep(time.Second)
		w.scan(again)
		w.must(again.Claim(w.Context(), w.ref(m), w.dev, "aaa-3"))
		if f := w.scan(again); !f.Twin.At.IsZero() {
			w.Errorf("after a restart: got the twin %+v", f.Twin)
		}
	})
}

// TestSharedAccounts: a claim of another instance for one of our agents shows that two factories work with the same
// accounts, for a day after its last claim.
func TestSharedAccounts(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		a, b := w.instance("aaa"), w.instance("bbb")
		w.scan(a)
		w.must(b.Claim(w.Context(), w.ref(n), w.dev, "bbb-1"))
		w.same("held by", w.heldBy(a, n), w.dev+" on host-of-bbb")
		if f := w.scan(a); f.Sharer.Who != w.dev+" on host-of-bbb" || !f.Twin.At.IsZero() {
			w.Errorf("got the sharer %+v and the twin %+v", f.Sharer, f.Twin)
		}
		w.must(b.Release(w.Context(), w.ref(n), w.dev))
		time.Sleep(sharedFor + time.Minute)
		if f := w.scan(a); !f.Sharer.At.IsZero() {
			w.Errorf("a day later: got the sharer %+v", f.Sharer)
		}
	})
}
