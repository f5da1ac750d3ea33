package supervisor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// A lost web hook delays work until the next scan, and no longer.
func TestC3_HooksLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Usual()
		w.Config.Forge.WebhookSecret = hookSecret
		l := w.Start()
		random := rand.New(rand.NewPCG(7, 8))
		for range simtest.Size(8, 2) {
			time.Sleep(20*time.Minute + time.Duration(random.Int64N(int64(time.Minute))))
			n := w.Forge.Issue("nobody tells")
			w.Until(31*time.Second, "it starts", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, n)) == 1 })
		}
		l.Stop()
		w.Check()
	})
}

// waiting measures how long work for a thread has waited beside an idle agent and a free slot of the thread.
type waiting struct {
	free  time.Duration
	worst time.Duration
	last  string
}

// look takes one measurement, half a second after the last.
func (x *waiting) look(d *control.Document) {
	idle := slices.ContainsFunc(d.Agents, func(a control.AgentDocument) bool {
		return a.Thread == "llama" && a.State == control.AgentIdle
	})
	slot := slices.ContainsFunc(d.Threads[1].Slots, func(s control.SlotDocument) bool { return len(s.Agents) == 0 })
	i := slices.IndexFunc(d.Queue, func(q control.QueueDocument) bool {
		return slices.Contains([]threads.Code{threads.StaleFacts, threads.AgentBusy, threads.NoSlot, threads.BlockersUnknown},
			q.Code)
	})
	if !idle || !slot || i < 0 || !d.Threads[1].ParkedUntil.IsZero() {
		x.free = 0
		return
	}
	if x.free += 500 * time.Millisecond; x.free > x.worst {
		x.worst, x.last = x.free, fmt.Sprintf("#%d: %s", d.Queue[i].Number, d.Queue[i].Why)
	}
}

// On this day sessions fail, and one call in twenty, at most one a minute, meets a forge that does not answer. No
// ready item waits beside an idle agent and a free slot for longer than a tick or, after a lost write, than a tick and
// the 10 s until the retry. Tests of threads/worlds require the same of each plan.
func TestC5_NoSlotStandsIdle(t *testing.T) {
	simtest.OnlyInStorms(t)
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Config.Forge.MaxUnreviewed = 100
		var mu sync.Mutex // calls and sessions come from many goroutines
		var failed time.Time
		random := rand.New(rand.NewPCG(9, 10))
		chance := func(p float64) bool {
			mu.Lock()
			defer mu.Unlock()
			return random.Float64() < p
		}
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			if chance(0.2) {
				return simtest.Script{Takes: s.Takes / 2, Outcome: agents.Outcome{
					Result: agents.Failed, Claimed: true,
					Reason: "bad luck",
				}}
			}
			return s
		}
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "scan" || !chance(0.05) { // a failed scan would hide work from the supervisor
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if time.Since(failed) < time.Minute { // a write that is lost twice is retried twice
				return nil
			}
			failed = time.Now()
			return forge.ErrUnavailable
		})
		l := w.Start()
		var x waiting
		for i := range 24 * 3600 * 2 {
			if i%(15*60*2) == 0 && i < 22*3600*2 {
				w.Forge.Issue("work")
			}
			time.Sleep(500 * time.Millisecond)
			x.look(l.Document())
		}
		if limit := 10*time.Second + 2*w.Config.Threads[1].Interval; x.worst > limit {
			t.Errorf("an item waited for %s beside an idle agent and a free slot, want at most %s: %s", x.worst, limit, x.last)
		}
		if n := len(w.Exec.Runs()); n < 150 {
			t.Errorf("got %d sessions in a day, want 150 or more", n)
		}
		l.Stop()
		w.Check()
	})
}

// A backend that hangs blocks its own thread only. Another thread starts as fast as ever.
func TestC6_HangingBackend(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindIssue { // no output, no end, and deaf to TERM
				s.Takes, s.Stubborn = 1000*time.Hour, true
			}
			return s
		}
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		sling(t, l, `{"ref":"1"}`)
		sling(t, l, `{"ref":"2"}`)
		pull := wanted(w, w.Forge.Open(w.Forge.Issue("three"), "dev-coder"))
		began := time.Now()
		r := sling(t, l, `{"ref":"3"}`)
		if r.Code != threads.HasPull {
			t.Errorf("got report %+v, want code %s", r, threads.HasPull)
		}
		w.Until(2*time.Second, "the review begins", func() bool { return len(w.Exec.RunsOf(agents.KindReview, pull)) == 1 })
		if took := w.Exec.RunsOf(agents.KindReview, pull)[0].Begin.Sub(began); took > time.Second {
			t.Errorf("the review started after %s, want at most 1 s", took)
		}
		w.Until(20*time.Minute, "it is merged", func() bool { return w.Forge.Get(3).Closed })
	})
}

// A slot of a local server runs one session after the other, each to its end, even if that takes a KILL.
func TestD5_NoInterleave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		third(w)
		w.Config.Forge.MaxUnreviewed = 100
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			s.Takes += time.Duration(job.Number%5) * time.Minute
			s.Stubborn = job.Number%3 == 0
			if job.Kind == agents.KindReview && n == 1 {
				s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			}
			return s
		}
		work := simtest.Size(12, 6)
		for range work {
			w.Forge.Issue("work")
		}
		l := w.Start()
		for _, n := range []string{"3", "6"} {
			time.Sleep(20 * time.Minute)
			tell(t, l, "/v1/release", fmt.Sprintf(`{"ref":%q}`, n))
		}
		w.Until(24*time.Hour, "all is merged", w.Forge.Done)
		last := map[string]simtest.Run{}
		sessions := 0
		for _, r := range w.Exec.Runs() {
			i := slices.IndexFunc(r.Job.Env, func(v string) bool { return strings.HasPrefix(v, "DISINTO_SLOT=") })
			if slot := r.Job.Env[i]; r.Job.Kind.Writes() {
				if before := last[slot]; !before.Begin.IsZero() && (before.End.IsZero() || r.Begin.Before(before.End)) {
					t.Errorf("%s: %s on #%d began at %s, before %s on #%d had ended at %s", slot,
						r.Job.Agent, r.Job.Number, r.Begin, before.Job.Agent, before.Job.Number, before.End)
				}
				last[slot] = r
				sessions++
			}
		}
		if len(last) != 2 || sessions < 2*work {
			t.Errorf("got %d sessions in %d slots, want %d or more in 2", sessions, len(last), 2*work)
		}
		l.Stop()
		w.Check()
	})
}

// wanted labels a pull request that no session opened, so that agents review it.
func wanted(w *simtest.World, pull int64) int64 {
	w.Forge.EditPull(pull, func(p *forge.Pull) { p.Labels = append(p.Labels, forge.LabelReview) })
	return pull
}

// No agent reviews its own work, even if it is the only free one.
func TestD6_AuthorNeverReviews(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		for i := range w.Config.Agents { // every agent may do both
			w.Config.Agents[i].Roles = []string{"dev", "review"}
		}
		w.Config.Agents = slices.DeleteFunc(w.Config.Agents, func(a agents.Agent) bool {
			return a.Name != "review-opus" &&
				a.Name != "review-sonnet"
		})
		w.Config.Threads[1].Agents = nil
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Issue("one")
		author := string(sling(t, l, `{"ref":"1"}`).Agent)
		w.Until(time.Hour, "it is merged", func() bool { return w.Forge.Get(1).Closed })
		for _, r := range w.Exec.Runs() {
			if r.Job.Kind == agents.KindReview && r.Job.Agent == author {
				t.Errorf("%s reviewed its own #%d", author, r.Job.Number)
			}
		}
		// The other agent is removed, so no remaining agent may review.
		next := *w.Config
		next.Agents = slices.DeleteFunc(slices.Clone(next.Agents), func(a agents.Agent) bool { return a.Name != author })
		next.Threads = slices.Clone(next.Threads)
		next.Threads[0].Agents = []string{author}
		l.Reload(&next, nil)
		pull := wanted(w, w.Forge.Open(w.Forge.Issue("two"), author))
		time.Sleep(5 * time.Hour)
		if got := held(l); !strings.Contains(got, fmt.Sprintf("#%d own-work", pull)) ||
			len(w.Exec.RunsOf(agents.KindReview, pull)) > 0 {
			t.Errorf("got held %q, want own-work for #%d", got, pull)
		}
	})
}

// A session continues when people change its issue's labels, blockers or other assignees, and its end corrects the
// claim. Only a change of its own assignee ends a session.
func TestF5_WrongRecordIsNoReasonToKill(t *testing.T) {
	for name, change := range map[string]func(is *forge.Issue){
		"in-progress taken off": func(is *forge.Issue) { is.Labels = []string{forge.LabelBacklog} },
		"backlog taken off":     func(is *forge.Issue) { is.Labels = []string{forge.LabelInProgress} },
		"every label taken off": func(is *forge.Issue) { is.Labels = nil },
		"a label more":          func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelNeedsHuman) },
		"blocked since":         func(is *forge.Issue) { is.Blockers = []forge.Blocker{{Ref: simtest.Ref(2)}} },
		"blockers unreadable":   func(is *forge.Issue) { is.BlockersKnown = false },
		"one agent more":        func(is *forge.Issue) { is.Assignees = with(is.Assignees, "dev-elsewhere") },
	} {
		if simtest.Skips(name, "in-progress taken off", "backlog taken off", "a label more", "blockers unreadable") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := simtest.New(t)
				w.Forge.Issue("one")
				w.Forge.Edit(w.Forge.Issue("hers"), func(is *forge.Issue) { is.Assignees = []string{"ada"} })
				l := w.Start()
				time.Sleep(time.Minute)
				w.Forge.Edit(1, change)
				time.Sleep(8 * time.Minute)
				if d := l.Document(); len(d.Sessions) != 1 || d.Sessions[0].State != threads.Running {
					t.Errorf("got sessions %+v, want one that runs", d.Sessions)
				}
				time.Sleep(2 * time.Minute)
				wantRuns(t, w, "issue #1 done, review #3")
				if r := w.Exec.Runs()[0]; r.Outcome.Result != agents.Done {
					t.Errorf("got outcome %+v, want done", r.Outcome)
				}
				if is := w.Forge.Get(1); is.Has(forge.LabelInProgress) && len(is.Assignees) == 0 ||
					slices.Contains(is.Assignees, "dev-coder") {
					t.Errorf("a claim is left: labels %v, assignees %v", is.Labels, is.Assignees)
				}
				l.Stop()
				w.Check()
			})
		})
	}
}

// Cool-downs belong to the issue: no sling, other agent or restart shortens them. Retry ends them.
func TestG1_SlingIsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Exec.Script = func(agents.Job, int) simtest.Script {
			return simtest.Script{Outcome: agents.Outcome{Result: agents.Failed, Claimed: true, Reason: "exit 1"}}
		}
		w.Forge.Issue("hopeless")
		began := time.Now()
		l := w.Start()
		for i := range 60 {
			time.Sleep(30 * time.Second)
			asked(t, l, "/v1/sling", `{"ref":"1"}`, new(control.SlingReport))
			switch i {
			case 5: // another agent must continue the issue
				w.Forge.Edit(1, func(is *forge.Issue) { is.Assignees = []string{w.Exec.Runs()[0].Job.Agent} })
				time.Sleep(time.Second)
				w.Forge.Edit(1, func(is *forge.Issue) { is.Assignees = nil })
			case 12:
				l.Kill()
				l.Bury()
				l = w.Start()
			}
		}
		var at []int
		for _, r := range w.Exec.Runs() {
			at = append(at, int(r.Begin.Sub(began).Minutes()))
		}
		if got := fmt.Sprint(at); got != "[0 2 4 9 19]" {
			t.Errorf("got starts at minutes %s, want [0 2 4 9 19]", got)
		}
		if is := w.Forge.Get(1); !is.Has(forge.LabelBlocked) || len(w.Forge.Comments()) != 1 {
			t.Errorf("got labels %v, comments %+v, want blocked and 1 comment", is.Labels, w.Forge.Comments())
		}
		var r control.SlingReport
		if status, no := asked(t, l, "/v1/sling", `{"ref":"1"}`, &r); status != 409 ||
			no != "cannot start johba/harb#1: it is labelled blocked: disinto retry 1 takes that off" {
			t.Errorf("sling of a blocked issue: got %d %s", status, no)
		}
		tell(t, l, "/v1/retry", `{"ref":"1"}`)
		w.Until(5*time.Second, "it is tried again", func() bool { return len(w.Exec.Runs()) == 6 })
		l.Stop()
	})
}

// When the day's budget is used up, nothing starts, running sessions end, and the reason says so. The next day work
// continues.
func TestG4_Budget(t *testing.T) {
	simtest.OnlyInStorms(t)
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		w.Config.Forge.MaxUnreviewed = 100
		w.Config.Threads[1].Budget.USD = 10
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindIssue {
				s.Outcome = agents.Outcome{Result: agents.Done, Usage: agents.Usage{CostUSD: 6}}
				s.Takes += time.Duration(job.Number) * time.Minute // the sessions do not end together
			}
			return s
		}
		for range 4 {
			w.Forge.Issue("dear")
		}
		l := w.Start()
		time.Sleep(6 * time.Hour)
		// Two sessions start at once, and the third when the first has ended at $6 of $10. The second then exceeds the
		// budget, which ends the third.
		if got := fmt.Sprint(len(w.Exec.RunsOf(agents.KindIssue, 1)), len(w.Exec.RunsOf(agents.KindIssue, 2)),
			len(w.Exec.RunsOf(agents.KindIssue, 3)),
			len(w.Exec.RunsOf(agents.KindIssue, 4))); got != "1 1 1 0" {
			t.Errorf("got sessions %s, want one on each of the first three", runs(w))
		}
		wantHeld(t, l, "#3 over-budget, #4 over-budget")
		if r := sling(t, l, `{"ref":"4"}`); r.Agent != "" ||
			!strings.HasPrefix(r.Why, "llama has used $18.00 of $10.00 today") {
			t.Errorf("got report %+v, want the used budget", r)
		}
		w.Until(25*time.Hour, "the last one is merged", w.Forge.Done)
		all := w.Exec.RunsOf(agents.KindIssue, 4)
		if len(all) != 1 || all[0].Begin.Day() == w.Exec.Runs()[0].Begin.Day() {
			t.Errorf("got sessions %+v on the fourth issue, want one on the next day", all)
		}
		l.Stop()
		w.Check()
	})
}
