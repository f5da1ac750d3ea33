package simtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// outage is how long the forge is down.
const outage = 7 * time.Minute

// The forge goes down for minutes at every call, in every way. It refuses, which is the same as a 500; it hangs; or
// the call takes effect, and its answer is lost, breaks off or is stale. In each case sessions continue, no issue is
// worked on twice, and no attempt is burnt. When the forge is back, everything is merged and no claim is left.
func TestForgeAwayAnywhere(t *testing.T) {
	calls := map[string]int{
		"prepare": 1, "scan": 4, "whoami": 2, "claim": 3, "assign": 3, "look": 3, "unassign": 3, "release": 3, "merge": 1,
	}
	for i, call := range slices.Sorted(maps.Keys(calls)) {
		for n := 1; n <= calls[call]; n++ {
			for j, how := range []string{"refuses", "hangs", "forgets to answer", "answers half", "answers late"} {
				if !Storms() && (i < 1 || i > 5 || n != 1+i%calls[call] || j != i%5) { // each way once, in a call of its own
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s", call, n, how), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { awayAt(t, call, n, how) })
				})
			}
		}
	}
}

func awayAt(t *testing.T, call string, n int, how string) {
	w := New(t)
	objectOnce(w)
	a := &away{call: call, n: n, how: how}
	w.Forge.Fail(a.fault)
	l := w.Start()
	w.Until(4*time.Hour, "merged", w.Forge.Done)
	time.Sleep(10 * time.Minute)
	if a.since.IsZero() {
		t.Fatalf("%s was called fewer than %d times", call, n)
	}
	if left := w.Forge.Claimed(); len(left) > 0 {
		t.Errorf("claims left: %v\n%s", left, w.Log.String())
	}
	l.Stop()
	w.Check()
	for kind, want := range map[agents.Kind]int{agents.KindIssue: 1, agents.KindReview: 2, agents.KindRework: 1} {
		ran := 0
		for _, r := range w.Exec.Runs() {
			if r.Job.Kind != kind {
				continue
			}
			ran++
			if r.Outcome.Result != agents.Done || variable(r.Job, "DISINTO_ATTEMPT") != "1" {
				t.Errorf("%s: got %s at attempt %s, want done at attempt 1", kind, r.Outcome.Result, variable(r.Job,
					"DISINTO_ATTEMPT"))
			}
		}
		if ran != want {
			t.Errorf("got %d sessions of %s, want %d\n%s", ran, kind, want, w.Log.String())
		}
	}
}

// away makes the forge go down at the n-th call with a name.
type away struct {
	call string
	n    int
	how  string

	mu    sync.Mutex // guards the fields below
	count int
	since time.Time
}

func (a *away) fault(ctx context.Context, call string) error {
	a.mu.Lock()
	if call == a.call {
		a.count++
	}
	if a.since.IsZero() && a.count == a.n {
		a.since = time.Now()
		if a.how == "forgets to answer" { // this call takes effect; the next ones are refused
			a.mu.Unlock()
			return errAnswerLost
		}
	}
	gone := !a.since.IsZero() && time.Since(a.since) < outage
	a.mu.Unlock()
	switch {
	case !gone:
		return nil
	case a.how == "answers half":
		return errAnswerHalf
	case a.how == "answers late":
		return errAnswerLate
	case a.how == "hangs":
		<-ctx.Done()
		return fmt.Errorf("%s: %w: %w", call, forge.ErrUnavailable, ctx.Err())
	}
	return fmt.Errorf("%s: connection refused: %w", call, forge.ErrUnavailable)
}
