package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// night is a world in which dev-coder has n issues that every agent may do, and dev-qwen has none.
func night(t testing.TB, n int) *World {
	w := New(t)
	w.Minutely()
	w.Config.Stealing = true
	w.Config.Forge.MaxUnreviewed = 100
	for i := range n {
		issue := w.Forge.Issue(fmt.Sprintf("night %d", i))
		w.Forge.Edit(issue, func(is *forge.Issue) {
			is.Labels, is.Assignees = with(is.Labels, "priority/8"), []string{"dev-coder"}
		})
	}
	return w
}

// issues returns all issues by number.
func (w *World) issues() map[int64]forge.Issue {
	all := make(map[int64]forge.Issue)
	w.Forge.mu.Lock()
	defer w.Forge.mu.Unlock()
	for n, is := range w.Forge.issues {
		all[n] = *is
	}
	return all
}

// implementers returns the agents that implemented each issue.
func (w *World) implementers() map[int64][]string {
	who := make(map[int64][]string)
	for _, r := range w.Exec.Runs() {
		if r.Job.Kind == agents.KindIssue && r.Outcome.Result == agents.Done {
			who[r.Job.Number] = append(who[r.Job.Number], r.Job.Agent)
		}
	}
	return who
}

func (w *World) stolen() (list []int64) {
	for n, is := range w.issues() {
		if is.Has(forge.LabelStolen) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// An idle agent takes issues that wait behind a busy agent, the newest first, until five are left. Everything else
// about the issues stays, and the busy agent never tries to start a moved one.
func TestSteal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := night(t, 8)
		before := w.Forge.Get(8)
		l := w.Start(func(l *Life) { l.Host = "iris.lan" })
		time.Sleep(6 * time.Minute)
		if got := fmt.Sprint(w.stolen()); got != "[7 8]" {
			t.Errorf("got moved issues %s, want #8 and #7: seven wait, and five stay", got)
		}
		after := w.Forge.Get(8)
		same := after.Title == before.Title && after.Created.Equal(before.Created)
		if !same || !after.Has("priority/8") || !after.Has(forge.LabelBacklog) || !after.Has("fleet:iris.lan:stolen") {
			t.Errorf("S3: got %+[2]v, want the rest of %+[1]v unchanged", before, after)
		}
		w.Until(6*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		who := w.implementers()
		if fmt.Sprint(who[7], who[8]) != "[dev-qwen] [dev-qwen]" {
			t.Errorf("got implementers %v, want dev-qwen for #7 and #8", who)
		}
		for _, p := range w.history().Past { // each issue was pinned to its last assignee
			if p.Pinned != (p.Kind == agents.KindIssue) {
				t.Errorf("%s of %s by %s: got pinned = %t, want pinned only for the issue", p.Kind, forge.Ref(p.Ref).Short(),
					p.Agent, p.Pinned)
			}
		}
		if !strings.Contains(w.Log.String(), "moved from dev-coder to dev-qwen, who was idle") {
			t.Errorf("the log lacks the move:\n%s", w.Log.String())
		}
	})
}

// G2: whatever fails at any step of a steal, one copy of each issue can start, and each is implemented once. A step
// fails, or takes effect and loses its answer, or the supervisor is killed before or after it.
func TestStealFaults(t *testing.T) {
	for i, step := range []string{"mark", "hand over"} {
		for _, n := range []int{1, 2} {
			for j, fault := range []string{"fails", "is refused", "loses its answer", "kills"} {
				if !Storms() && (i != j%2 || n != 1+j/2 || fault == "fails" || fault == "kills") { // two faults, one of each step
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s", step, n, fault), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { faultyNight(t, step, n, fault) })
				})
			}
		}
	}
	// Kills around a whole steal: its journal records are written between these calls.
	for _, call := range []string{"reassign", "scan"} {
		for n := 1; n <= 8; n++ {
			for _, after := range []bool{false, true} {
				if call == "reassign" && n > 2 || call == "scan" && n < 5 {
					continue
				}
				if !Storms() && (n != 7 || !after) { // a kill in the middle
					continue
				}
				t.Run(fmt.Sprintf("killed at %s/%d/after=%v", call, n, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { killedNight(t, call, n, after) })
				})
			}
		}
	}
}

// faultyNight makes the n-th step of a kind fail once.
func faultyNight(t *testing.T, step string, n int, fault string) {
	w := night(t, 8)
	var count atomic.Int64
	var life atomic.Pointer[Life]
	w.Forge.Fail(func(_ context.Context, call string) error {
		if call != step || int(count.Add(1)) != n {
			return nil
		}
		switch fault {
		case "fails":
			return fmt.Errorf("gone: %w", forge.ErrUnavailable)
		case "is refused":
			return fmt.Errorf("not yours: %w", forge.ErrForbidden)
		case "loses its answer":
			return errAnswerLost
		}
		life.Load().Kill()
		return errDead
	})
	l := w.Start(func(l *Life) { life.Store(l) })
	if fault == "kills" {
		<-l.Killed
		l.Bury()
		l = w.Start()
	}
	w.morning(l)
	if count.Load() < int64(n) {
		t.Errorf("%s was called %d times, want more", step, count.Load())
	}
}

func killedNight(t *testing.T, call string, n int, after bool) {
	w := night(t, Size(12, 8))
	l := w.Start(KillAt(call, n, after))
	<-l.Killed
	l.Bury()
	w.morning(w.Start())
}

// morning waits until all is merged. It always checks that no issue has two assignees.
func (w *World) morning(l *Life) {
	w.T.Helper()
	deadline := time.Now().Add(8 * time.Hour)
	for !w.Forge.Done() && time.Now().Before(deadline) {
		for n, is := range w.issues() {
			if len(is.Assignees) > 1 {
				w.T.Fatalf("#%d: got assignees %v, want at most one", n, is.Assignees)
			}
		}
		time.Sleep(10 * time.Second)
	}
	time.Sleep(time.Minute)
	l.Stop()
	w.Check()
	if !w.Forge.Done() {
		w.T.Errorf("not all issues are done:\n%s", w.Log.String())
	}
	who := w.implementers()
	for n := range w.issues() {
		if len(who[n]) != 1 {
			w.T.Errorf("#%d: got implementers %v, want one\n%s", n, who[n], w.Log.String())
		}
	}
	moved := w.stolen()
	if len(moved) == 0 {
		w.T.Error("no issue was moved, so the test shows nothing")
	}
}

// A2: an issue that starts between the look and the move stays with its agent, and the move leaves no trace.
func TestStealBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := night(t, 7)
		var once atomic.Bool
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "mark" && !once.Swap(true) {
				w.Forge.Edit(7, func(is *forge.Issue) {
					is.Labels, is.Assignees = with(is.Labels, forge.LabelInProgress), []string{"dev-elsewhere"}
				})
			}
			return nil
		})
		l := w.Start()
		w.Until(10*time.Minute, "it was tried", once.Load)
		time.Sleep(5 * time.Second)
		is := w.Forge.Get(7)
		if fmt.Sprint(is.Assignees) != "[dev-elsewhere]" || is.Has(forge.LabelStolen) {
			t.Errorf("got labels %v and assignees %v, want the claim of dev-elsewhere, and no stolen label", is.Labels,
				is.Assignees)
		}
		if !strings.Contains(w.Log.String(), "stays with dev-coder") {
			t.Errorf("the log lacks the reason:\n%s", w.Log.String())
		}
		l.Stop()
	})
}

// U2: an idle agent beside a busy one without a movable issue is logged the second time, with the reasons.
func TestStealNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := night(t, 9)
		for n := range int64(9) {
			w.Forge.Edit(n+1, func(is *forge.Issue) { is.Labels = with(without(is.Labels, "priority/8"), "priority/2") })
		}
		l := w.Start()
		told := func() bool { return strings.Contains(w.Log.String(), "and nothing can be moved") }
		time.Sleep(6 * time.Minute)
		if told() {
			t.Error("logged the first time")
		}
		w.Until(5*time.Minute, "told", told)
		want := "dev-qwen idle beside dev-coder busy, and nothing can be moved: #9 priority 2 stays, from 5 on issues move"
		if !strings.Contains(w.Log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, w.Log.String())
		}
		l.Stop()
		if len(w.stolen()) > 0 {
			t.Errorf("got moved issues %v, want none", w.stolen())
		}
	})
}

// A route assigns the issues with a skill as soon as they can be worked on. If the forge refuses, the supervisor
// tries again.
func TestRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Routes = []threads.Route{{Skill: "go", Agents: []string{"dev-qwen"}}}
		for i := range w.Config.Agents {
			w.Config.Agents[i].Skills = []string{"go"}
		}
		var failed atomic.Bool
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "hand over" && !failed.Swap(true) {
				return errors.New("no")
			}
			return nil
		})
		for i := range 3 {
			n := w.Forge.Issue(fmt.Sprintf("go %d", i))
			w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = with(is.Labels, "skill/go") })
		}
		l := w.Start()
		w.Until(3*time.Minute, "routed", func() bool {
			return fmt.Sprint(w.Forge.Get(2).Assignees, w.Forge.Get(3).Assignees) == "[dev-qwen] [dev-qwen]"
		})
		w.Until(4*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		for n, who := range w.implementers() {
			if fmt.Sprint(who) != "[dev-qwen]" {
				t.Errorf("#%d: got implementers %v, want dev-qwen", n, who)
			}
		}
	})
}
