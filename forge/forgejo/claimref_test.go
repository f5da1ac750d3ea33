package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// instance returns a client of another supervisor that uses the same accounts.
func (w *world) instance(name string) *Client {
	w.Helper()
	return w.client(func(o *Options) { o.Claims = claimsOf(name, "host-of-"+name) })
}

// claimed returns the numbers of the items whose claims have a ref.
func (w *world) claimed() string {
	w.Helper()
	all, err := w.client().listClaims(w.Context(), w.repo, claimPrefix)
	w.must(err)
	var numbers []string
	for n := int64(0); len(numbers) < len(all); n++ {
		if all[n] != "" {
			numbers = append(numbers, strconv.FormatInt(n, 10))
		}
	}
	return strings.Join(numbers, " ")
}

func (w *world) same(what, got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// heldBy returns the holder of an issue as a client sees it.
func (w *world) heldBy(c *Client, n int64) string {
	w.Helper()
	f := w.scan(c)
	return f.Issue(w.ref(n)).HeldBy
}

// TestClaimRef: the ref exists from the claim to the release. Meanwhile no other supervisor can claim the item, even
// with the same account.
func TestClaimRef(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "", "backlog")
		other := w.file("another", "", "backlog")
		a, b := w.instance("aaa"), w.instance("bbb")
		w.scan(b)
		w.must(a.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		w.same("claimed", w.claimed(), "1")
		w.same("state", w.state(n), "backlog in-progress @dev")
		if err := b.Claim(w.Context(), w.ref(n), w.dev, "bbb-1"); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("a second claim: %v", err)
		}
		w.same("held by", w.short(w.heldBy(b, n)), "dev on host-of-aaa")
		w.same("holder as the holder sees it", w.heldBy(a, n), "")
		w.same("holder of another issue", w.heldBy(b, other), "")
		if err := b.Release(w.Context(), w.ref(n), w.dev); !errors.Is(err, forge.ErrTaken) ||
			!strings.Contains(err.Error(), "host-of-aaa") {
			w.Errorf("another's release: %v", err)
		}
		w.same("state", w.state(n), "backlog in-progress @dev")
		w.same("claimed", w.claimed(), "1")
		w.must(a.Release(w.Context(), w.ref(n), w.dev))
		w.must(a.Release(w.Context(), w.ref(n), w.dev))
		w.same("state", w.state(n), "backlog")
		w.same("claimed", w.claimed(), "")
		w.scan(b)
		w.must(b.Claim(w.Context(), w.ref(n), w.dev, "bbb-2"))
		w.must(b.Claim(w.Context(), w.ref(n), w.dev, "bbb-2")) // repeated, as after a lost answer
		w.same("claimed", w.claimed(), "1")
		look, err := a.FetchItem(w.Context(), w.ref(n), time.Time{})
		w.must(err)
		w.same("holder in a look", w.short(look.Issue.HeldBy), "dev on host-of-bbb")
	})
}

// TestClaimRefSingle: a client without Claims writes no refs, and does not check those of other supervisors.
func TestClaimRefSingle(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.client(func(o *Options) { o.Claims = nil })
		w.must(c.Prepare(w.Context()))
		w.must(c.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		w.same("claimed", w.claimed(), "")
		w.must(c.Release(w.Context(), w.ref(n), w.dev))
		w.same("state", w.state(n), "backlog")
	})
}

// TestClaimRefTakenBack: a supervisor that died takes its claims back when it runs again, wherever it stopped.
func TestClaimRefTakenBack(t *testing.T) {
	onEach(t, func(w *world) {
		whole, bare := w.file("claimed", "", "backlog"), w.file("only the ref", "", "backlog")
		dead := w.instance("aaa")
		w.must(dead.Claim(w.Context(), w.ref(whole), w.dev, "aaa-1"))
		w.must(dead.takeRef(w.Context(), w.ref(bare), w.issue(bare), w.dev, "aaa-2"))
		w.same("claimed", w.claimed(), "1 2")
		c := w.instance("aaa")
		w.same("held by", w.heldBy(c, whole), "")
		w.must(c.Release(w.Context(), w.ref(whole), w.dev))
		w.must(c.Claim(w.Context(), w.ref(bare), w.dev, "aaa-3"))
		w.same("claimed", w.claimed(), "2")
		w.must(c.Release(w.Context(), w.ref(bare), w.dev))
		w.same("claimed", w.claimed(), "")
	})
}

// TestClaimRefUnfinished: if a dead supervisor left only the ref of a claim, another supervisor can take the claim over
// once it has seen the same commit for five minutes. It cannot if the issue is pinned to an agent.
func TestClaimRefUnfinished(t *testing.T) {
	onLocal(t, func(w *world) {
		bare, pinned := w.file("only the ref", "", "backlog"), w.file("pinned", "", "backlog")
		w.assign(pinned, w.dev)
		dead, c := w.instance("aaa"), w.instance("bbb")
		for _, n := range []int64{bare, pinned} {
			w.must(dead.takeRef(w.Context(), w.ref(n), w.issue(n), w.dev, "aaa-1"))
		}
		try := func(n int64) error {
			w.scan(c)
			return c.Claim(w.Context(), w.ref(n), w.dev, "bbb-1")
		}
		for began := time.Now(); time.Since(began) < unfinishedFor; time.Sleep(time.Minute) {
			for _, n := range []int64{bare, pinned} {
				if err := try(n); !errors.Is(err, forge.ErrTaken) {
					w.Fatalf("#%d after %v: %v", n, time.Since(began), err)
				}
			}
		}
		w.must(try(bare))
		if err := try(pinned); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("pinned: %v", err)
		}
		w.same("state", w.state(bare), "backlog in-progress @dev")
		if err := dead.Release(w.Context(), w.ref(bare), "nobody"); err != nil { // too late: the ref no longer has its commit
			w.Errorf("late release: %v", err)
		}
		w.same("claimed", w.claimed(), "1 2")
	})
}

// TestClaimRefExpired: a claim expires after the longest time that its session can last.
func TestClaimRefExpired(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		dead, c := w.instance("aaa"), w.instance("bbb")
		w.must(dead.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		time.Sleep(time.Hour + 10*time.Minute - time.Second) // the clocks of hosts may differ by ten minutes
		w.same("held by", w.short(w.heldBy(c, n)), "dev on host-of-aaa")
		time.Sleep(2 * time.Second)
		w.same("held by", w.heldBy(c, n), "")
		w.must(c.Release(w.Context(), w.ref(n), w.dev))
		w.same("state", w.state(n), "backlog")
		w.same("claimed", w.claimed(), "")
	})
}

// TestClaimRefForEver: a claim that says that it lasts for ever, such as one that an agent made by hand, lasts twice
// the longer of a day and our longest session. A commit that moves the ref, such as at a begin, counts anew.
func TestClaimRefForEver(t *testing.T) {
	lasts := func(w *world, ours, want time.Duration) {
		lasting := func(name string, longest time.Duration) *Client {
			claims := claimsOf(name, "host-of-"+name)
			claims.Longest = func() time.Duration { return longest }
			return w.client(func(o *Options) { o.Claims = claims })
		}
		n := w.file("one", "", "backlog")
		evil, c := lasting("aaa", 100*365*24*time.Hour), lasting("bbb", ours)
		w.must(evil.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		w.same("held by", w.short(w.heldBy(c, n)), "dev on host-of-aaa")
		time.Sleep(want)
		w.must(evil.takeRef(w.Context(), w.ref(n), w.issue(n), w.dev, "aaa-2"))
		w.unlabel(n, "backlog") // a change, so that the holder is read again
		w.label(n, "backlog")
		w.same("held by, of a moved ref", w.short(w.heldBy(c, n)), "dev on host-of-aaa")
		time.Sleep(want + 10*time.Minute - 2*time.Second)
		w.same("held by, at the end", w.short(w.heldBy(c, n)), "dev on host-of-aaa")
		time.Sleep(4 * time.Second)
		w.same("held by, after the end", w.heldBy(c, n), "")
		w.must(c.Release(w.Context(), w.ref(n), w.dev))
		w.same("state", w.state(n), "backlog")
		w.same("claimed", w.claimed(), "")
	}
	t.Run("sessions of an hour", func(t *testing.T) {
		onLocal(t, func(w *world) { lasts(w, time.Hour, 48*time.Hour) })
	})
	t.Run("sessions of 30 hours", func(t *testing.T) {
		onLocal(t, func(w *world) { lasts(w, 30*time.Hour, 60*time.Hour) })
	})
}

// TestClaimRefOwnSwept: a supervisor that died while it made claims leaves refs without labels: on a free issue, on an
// issue pinned to an agent, and a ref that the forge writes only after the next start. The next run deletes these refs
// and no others.
func TestClaimRefOwnSwept(t *testing.T) {
	onLocal(t, func(w *world) {
		bare, pinned, late := w.file("only the ref", "", "backlog"), w.file("pinned", "", "backlog"),
			w.file("late", "", "backlog")
		held, foreign := w.file("held", "", "backlog"), w.file("another's", "", "backlog")
		w.assign(pinned, w.dev)
		dead, other := w.instance("aaa"), w.instance("bbb")
		for _, n := range []int64{bare, pinned} {
			w.must(dead.takeRef(w.Context(), w.ref(n), w.issue(n), w.dev, "aaa-1"))
		}
		w.must(dead.Claim(w.Context(), w.ref(held), w.dev, "aaa-2"))
		w.must(other.takeRef(w.Context(), w.ref(foreign), w.issue(foreign), w.dev, "bbb-1"))
		w.same("claimed", w.claimed(), "1 2 4 5")
		c := w.instance("aaa")
		w.scan(c)
		w.same("claimed", w.claimed(), "4 5")
		w.must(c.Release(w.Context(), w.ref(late), w.dev)) // the forge has not yet written the ref
		w.must(dead.takeRef(w.Context(), w.ref(late), w.issue(late), w.dev, "aaa-3"))
		w.must(c.Claim(w.Context(), w.ref(bare), w.dev, "aaa-4"))
		w.scan(other)
		time.Sleep(unfinishedFor)
		w.scan(c)
		w.same("claimed", w.claimed(), "1 4")
	})
}

// TestClaimRefSwept: five minutes after it was first seen, an abandoned ref is deleted, even if its issue is closed or
// gone.
func TestClaimRefSwept(t *testing.T) {
	onLocal(t, func(w *world) {
		closed, held, gone := w.file("closed", "", "backlog"), w.file("held", "", "backlog"), int64(77)
		dead, c := w.instance("aaa"), w.instance("bbb")
		w.must(dead.Claim(w.Context(), w.ref(held), w.dev, "aaa-1"))
		for _, n := range []int64{closed, gone} {
			w.must(dead.takeRef(w.Context(), w.ref(n), w.issue(closed), w.dev, "aaa-2"))
		}
		w.setState(closed, gitea.StateClosed)
		w.scan(c)
		time.Sleep(unfinishedFor - time.Second)
		w.scan(c)
		w.same("claimed", w.claimed(), "1 2 77")
		time.Sleep(time.Second)
		w.scan(c)
		w.same("claimed", w.claimed(), "2")
	})
}

// TestClaimRefFree: Free deletes a claim for a person, and returns its holder.
func TestClaimRefFree(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "", "backlog")
		dead, c := w.instance("aaa"), w.instance("bbb")
		w.must(dead.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		for _, want := range []string{"dev on host-of-aaa", ""} {
			was, err := c.Free(w.Context(), w.ref(n))
			w.must(err)
			w.same("freed holder", w.short(was), want)
		}
		w.must(c.Release(w.Context(), w.ref(n), w.dev))
		w.same("state", w.state(n), "backlog")
	})
}

// TestClaimRefWithdrawn: a claim that fails leaves no ref.
func TestClaimRefWithdrawn(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.instance("aaa")
		w.fault = func(r *http.Request) faults.Fault {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/labels") && w.state(n) == "backlog" {
				w.fault = nil
				w.assign(n, w.human)
			}
			return faults.None
		}
		if err := c.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("got %v", err)
		}
		w.same("state", w.state(n), "backlog @human")
		w.same("claimed", w.claimed(), "")
	})
}

// TestClaimRefOutdated: an issue that was claimed and released since the last scan is not claimed: its work may be
// done.
func TestClaimRefOutdated(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		a, b := w.instance("aaa"), w.instance("bbb")
		w.scan(b)
		w.nextSecond()
		w.must(a.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		w.must(a.Release(w.Context(), w.ref(n), w.dev))
		if err := b.Claim(w.Context(), w.ref(n), w.dev, "bbb-1"); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("got %v", err)
		}
		w.same("claimed", w.claimed(), "")
		w.scan(b)
		w.must(b.Claim(w.Context(), w.ref(n), w.dev, "bbb-1"))
	})
}

// TestClaimRefLostAnswer: the forge writes the ref, and its answer is lost.
func TestClaimRefLostAnswer(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.instance("aaa")
		lose := func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				return faults.Lose
			}
			return faults.None
		}
		w.fault = lose
		if err := c.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"); !errors.Is(err, forge.ErrUnavailable) {
			w.Errorf("got %v", err)
		}
		w.fault = nil
		w.same("claimed", w.claimed(), "1")
		w.must(c.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		w.fault = lose
		if err := c.Release(w.Context(), w.ref(n), w.dev); !errors.Is(err, forge.ErrUnavailable) {
			w.Errorf("got %v", err)
		}
		w.fault = nil
		w.must(c.Release(w.Context(), w.ref(n), w.dev))
		w.same("state", w.state(n), "backlog")
		w.same("claimed", w.claimed(), "")
	})
}

// TestClaimRefCost counts the requests of a claim and of a release. Another supervisor's claim costs no request while
// nothing changes.
func TestClaimRefCost(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		a, b := w.instance("aaa"), w.instance("bbb")
		w.must(a.Prepare(w.Context()))
		w.must(a.Claim(w.Context(), w.ref(n), w.dev, "aaa-0")) // the first claim reads the labels
		w.must(a.Release(w.Context(), w.ref(n), w.dev))
		if got := w.requests(a, func() { w.must(a.Claim(w.Context(), w.ref(n), w.dev, "aaa-1")) }); got != 6 {
			w.Errorf("a claim made %d requests, want 6", got)
		}
		for range 5 {
			w.scan(b)
			time.Sleep(5 * time.Second)
		}
		idle := w.requests(b, func() { w.scan(b) })
		if idle != 1 {
			w.Errorf("a scan with another supervisor's claim made %d requests, want 1", idle)
		}
		if got := w.requests(a, func() { w.must(a.Release(w.Context(), w.ref(n), w.dev)) }); got != 4 {
			w.Errorf("a release made %d requests, want 4", got)
		}
	})
}

// TestClaimRefUnread: an item with in-progress counts as another supervisor's until its claim has been read.
func TestClaimRefUnread(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		a, b := w.instance("aaa"), w.instance("bbb")
		w.must(a.Claim(w.Context(), w.ref(n), w.dev, "aaa-1"))
		w.fault = func(r *http.Request) faults.Fault {
			if strings.Contains(r.URL.Path, "/git/") {
				return faults.Drop
			}
			return faults.None
		}
		f, err := b.Scan(w.Context())
		if err == nil || f.Issue(w.ref(n)) == nil || f.Issue(w.ref(n)).HeldBy == "" {
			w.Errorf("Scan returned %v, %+v; want an error and an issue with a holder", err, f)
		}
	})
}

// TestClaimRefRace: only one of several supervisors with the same accounts gets an item that all claim concurrently.
// DISINTO_TEST_RACES sets the number of races.
func TestClaimRefRace(t *testing.T) {
	races := sized(100, 3)
	if n, err := strconv.Atoi(os.Getenv("DISINTO_TEST_RACES")); err == nil {
		races = n
	}
	onEach(t, func(w *world) {
		n := w.file("one", "", "backlog")
		var racers []*Client
		for i := range 3 {
			racers = append(racers, w.instance(fmt.Sprintf("racer%d", i)))
			w.must(racers[i].Prepare(w.Context()))
		}
		var took time.Duration
		for race := range races {
			began := time.Now()
			answers := make([]error, len(racers))
			var running sync.WaitGroup
			for i, c := range racers {
				running.Go(func() {
					answers[i] = c.Claim(w.Context(), w.ref(n), w.dev, fmt.Sprintf("racer%d-%d", i, race))
				})
			}
			running.Wait()
			took += time.Since(began)
			winner := -1
			for i, err := range answers {
				switch {
				case err == nil && winner < 0:
					winner = i
				case err == nil:
					w.Fatalf("race %d: claimed by racers %d and %d", race, winner, i)
				case !errors.Is(err, forge.ErrTaken):
					w.Fatalf("race %d: racer %d: %v", race, i, err)
				}
			}
			if winner < 0 {
				w.Fatalf("race %d: no racer got the claim: %v", race, answers)
			}
			held, err := racers[0].holder(w.Context(), w.ref(n))
			if err != nil || held == nil || held.instance != fmt.Sprintf("racer%d", winner) {
				w.Fatalf("race %d: held by %+v, %v; want racer%d", race, held, err, winner)
			}
			w.must(racers[winner].Release(w.Context(), w.ref(n), w.dev))
		}
		w.same("claimed", w.claimed(), "")
		w.same("state", w.state(n), "backlog")
		w.Logf("%d races of %d, %v each", races, len(racers), took/time.Duration(max(races, 1)))
	})
}
