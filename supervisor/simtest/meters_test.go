package simtest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// meterLog records the calls of meters.
type meterLog struct {
	mu     sync.Mutex // guards the fields below
	claims []supervisor.Claim
	ends   map[agents.Result]int
	kinds  map[agents.Kind]int
	deeds  []supervisor.Deed
	free   []threads.FreeSlot // free slots of the newest plan
	codes  map[threads.Code]bool
	syncs  int
}

func (m *meterLog) meters() supervisor.Meters {
	m.ends, m.kinds, m.codes = map[agents.Result]int{}, map[agents.Kind]int{}, map[threads.Code]bool{}
	locked := func(f func()) { m.mu.Lock(); defer m.mu.Unlock(); f() }
	return supervisor.Meters{
		Claimed: func(c supervisor.Claim) { locked(func() { m.claims = append(m.claims, c) }) },
		Ended: func(x ledger.Open, end *ledger.End, at time.Time) {
			locked(func() {
				m.ends[end.Result]++
				m.kinds[x.Item.Kind]++
			})
		},
		Done: func(d supervisor.Deed) { locked(func() { m.deeds = append(m.deeds, d) }) },
		Free: func(_ time.Time, slots []threads.FreeSlot) {
			locked(func() {
				m.free = slots
				for _, s := range slots {
					m.codes[s.Code] = true
				}
			})
		},
		Synced: func(time.Duration) { locked(func() { m.syncs++ }) },
	}
}

// Everything from an issue to its merge is metered once.
func TestMeters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Exec.Script = quickly(w)
		issue := w.Forge.Issue("one")
		m := &meterLog{}
		l := w.Start(func(l *Life) { l.Meters, l.Supervisor.Paused = m.meters(), true })
		w.Until(time.Minute, "it waits for a person", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.codes[threads.Paused]
		})
		levels := l.Levels()
		if n := levels.Queue[supervisor.Waiting{Kind: "issue", Code: threads.Paused}]; n != 1 || !levels.Document.Forge.OK {
			t.Errorf("while paused: got levels %+v, want one paused issue", levels)
		}
		answer := httptest.NewRecorder()
		l.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "/v1/resume", strings.NewReader("{}")))
		if answer.Code != 200 {
			t.Fatalf("resume: %d %s", answer.Code, answer.Body)
		}
		w.Until(10*time.Minute, "merged", w.Forge.Done)
		time.Sleep(time.Minute)
		l.Stop()
		w.Check()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.ends[agents.Done] != 2 || m.kinds[agents.KindIssue] != 1 || m.kinds[agents.KindReview] != 1 ||
			len(m.claims) != 2 {
			t.Errorf("got ends %v %v and claims %+v, want one issue, one review and 2 claims", m.ends, m.kinds, m.claims)
		}
		for _, c := range m.claims {
			if c.Result != supervisor.ClaimWon || c.Ended.Before(c.Began) || c.Start.Run == "" {
				t.Errorf("got claim %+v, want a won one of a run", c)
			}
		}
		var merges []supervisor.Deed
		for _, d := range m.deeds {
			if d.Action == supervisor.ActMerge && d.Result == supervisor.DeedDone {
				merges = append(merges, d)
			}
		}
		if len(merges) != 1 || merges[0].Chain != (forge.Ref{Repo: merges[0].Ref.Repo, Number: issue}) {
			t.Errorf("got merges %+v, want one, of issue %d", merges, issue)
		}
		if len(m.free) > 0 || m.syncs == 0 {
			t.Errorf("got free slots %v and %d journal syncs at the end, want none and some", m.free, m.syncs)
		}
	})
}

// A claim that another host won is metered as lost, and its session as never started.
func TestMetersLostClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Exec.Script = quickly(w)
		w.Forge.Issue("one")
		taken := false
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call != "claim" || taken {
				return nil
			}
			taken = true
			return forge.ErrTaken
		})
		m := &meterLog{}
		l := w.Start(func(l *Life) { l.Meters = m.meters() })
		w.Until(10*time.Minute, "merged", w.Forge.Done)
		l.Stop()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.claims[0].Result != supervisor.ClaimLost || m.ends[agents.ClaimFailed] != 1 {
			t.Errorf("got claims %+v and ends %v, want a lost one, and one failed claim", m.claims, m.ends)
		}
	})
}

// A program gets the trace of its chain and its own span, and its sandbox allows the collector.
func TestTraceParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("one")
		var mu sync.Mutex
		var parents []string
		w.Config.Roles[0].Sandbox.Mode = agents.SandboxAuto
		w.Exec.Script = func(job agents.Job, n int) Script {
			mu.Lock()
			defer mu.Unlock()
			parents = append(parents, agents.Getenv(job.Env, "TRACEPARENT"))
			if job.Sandbox.On() && !slices.Contains(job.Sandbox.Connect, 4318) {
				t.Errorf("%s #%d may not connect to the collector, only to %v", job.Kind, job.Number, job.Sandbox.Connect)
			}
			return w.Work(job, n)
		}
		l := w.Start(func(l *Life) {
			l.Collector = "http://collector:4318"
			l.TraceParent = func(chain forge.Ref, run string) string { return fmt.Sprint(chain.Number, run != "") }
		})
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		mu.Lock()
		defer mu.Unlock()
		want := fmt.Sprint(issue, true)
		if len(parents) < 2 || slices.ContainsFunc(parents, func(p string) bool { return p != want }) {
			t.Errorf("got TRACEPARENT %v, want %s for the issue and for its review", parents, want)
		}
	})
}
