package supervisor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// distracted starts two issues together, of which the second takes long. A third depends on the first, whose agent
// then works on the fourth, more urgent one.
func distracted(w *simtest.World) {
	w.Exec.Script = func(job agents.Job, n int) simtest.Script {
		s := w.Work(job, n)
		if job.Number == 3 {
			s.Takes = 40 * time.Minute
		}
		return s
	}
	w.Forge.Issue("A")
	w.Forge.Issue("B", 1)
	w.Forge.Issue("urgent", 1)
	w.Forge.Edit(3, func(is *forge.Issue) { is.Labels = []string{forge.LabelBacklog, "priority/1"} })
}

// agentOn returns the agent of the first session on an issue, and how long after the first issue's close it started.
func agentOn(w *simtest.World, n int64) (agent string, after time.Duration) {
	all := w.Exec.RunsOf(agents.KindIssue, n)
	if len(all) == 0 {
		return "nobody", 0
	}
	return all[0].Job.Agent, all[0].Begin.Sub(w.Forge.Get(1).Ended)
}

func TestD1_SameAgent(t *testing.T) {
	quiet(t, third, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		a := w.Forge.Issue("A")
		w.Forge.Issue("B", a)
		first := sling(t, l, `{"ref":"1"}`)
		w.Until(time.Hour, "B is begun", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 2)) == 1 })
		if got, after := agentOn(w, 2); got != string(first.Agent) || after > 2*time.Second {
			t.Errorf("A by %s, B by %s %s after A closed, want the same agent within 2 s", first.Agent, got, after)
		}
	})
}

// An issue does not wait for the agent that finished its blocker: another agent starts at once.
func TestD2_NoAffinityWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		distracted(w)
		l := w.Start()
		w.Until(time.Hour, "B is begun", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 2)) == 1 })
		urgent, _ := agentOn(w, 3)
		got, after := agentOn(w, 2)
		if urgent != "dev-coder" || got == urgent || after > 2*time.Second {
			t.Errorf("urgent by %s, B by %s after %s, want another agent within 2 s", urgent, got, after)
		}
		l.Stop()
		w.Check()
	})
}

func TestD3_TwoDependents(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		a := w.Forge.Issue("A")
		w.Forge.Issue("B", a)
		w.Forge.Issue("C", a)
		first := sling(t, l, `{"ref":"1"}`)
		w.Until(time.Hour, "both are begun", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 3)) == 1 })
		b, afterB := agentOn(w, 2)
		c, afterC := agentOn(w, 3)
		if b == c || b != string(first.Agent) || max(afterB, afterC) > 2*time.Second {
			t.Errorf("A by %s; got B by %s after %s, C by %s after %s, want B by A's agent, C by another, within 2 s",
				first.Agent, b, afterB, c, afterC)
		}
	})
}

func TestE1_CancelBeforeStart(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 3)
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3"],"chain":true,"staged":true}`)
		told(t, l, "/v1/convoy/cancel", `{"ref":"4"}`,
			"johba/harb#4: 3 of 3 issues and pull requests cancelled, convoy labelled cancelled")
		time.Sleep(simtest.Size(5*time.Hour, time.Hour))
		wantRuns(t, w, "")
		for n := int64(1); n <= 3; n++ {
			wantMarks(t, w, n, "backlog cancelled")
		}
		if slices.ContainsFunc(w.Forge.Writes(), func(s string) bool { return strings.HasPrefix(s, "claim") }) {
			t.Errorf("an agent claimed an issue: %q", w.Forge.Writes())
		}
	})
}

func TestE2_CancelWhileRunning(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Config.Threads[1].Slots, w.Config.Threads[1].MaxSessions = 1, 1
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			s.Stubborn = job.Number == 1
			return s
		}
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 5)
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3","4","5"],"chain":true}`)
		time.Sleep(time.Minute)
		w.Forge.Issue("other work")
		sling(t, l, `{"ref":"7"}`)
		wantRuns(t, w, "issue #1")
		began := time.Now()
		told(t, l, "/v1/convoy/cancel", `{"ref":"6"}`,
			"johba/harb#6: session of dev-coder ended, 5 of 5 issues and pull requests cancelled, convoy labelled cancelled")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the cancel took %s, want at most 10 s", took)
		}
		time.Sleep(time.Second)
		wantRuns(t, w, "issue #1 cancelled, issue #7") // the next issue takes the slot
		wantMarks(t, w, 1, "backlog cancelled")
		ends := w.Exec.Runs()[0].End
		if wait := w.Exec.Runs()[1].Begin.Sub(ends); wait > 2*time.Second {
			t.Errorf("the slot was free for %s, want at most 2 s", wait)
		}
		time.Sleep(simtest.Size(5*time.Hour, 90*time.Minute))
		for n := int64(2); n <= 5; n++ {
			if len(w.Exec.RunsOf(agents.KindIssue, n)) > 0 {
				t.Errorf("#%d was started", n)
			}
		}
	})
}

func TestE3_CancelledIsNotDone(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 2)
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2"],"chain":true}`)
		told(t, l, "/v1/cancel", `{"ref":"3"}`, "409 cannot cancel johba/harb#3: it is a convoy, use disinto batch cancel 3")
		tell(t, l, "/v1/convoy/cancel", `{"ref":"3","close":true}`)
		wantConvoy(t, l, 3, "cancelled: 2 cancelled")
		for n := int64(1); n <= 3; n++ { // each closed after its blockers
			if !w.Forge.Get(n).Closed {
				t.Errorf("#%d is open, want it closed", n)
			}
		}
		time.Sleep(simtest.Size(3*time.Hour, time.Hour))
		if c := w.Forge.Comments(); len(c) > 0 {
			t.Errorf("got comments %+v, want none", c)
		}
	})
}

func TestE4_CancelRace(t *testing.T) {
	begun := 0
	inWorlds(t, func(t *testing.T, random *rand.Rand, cases int) {
		w := simtest.New(t)
		w.Slow()
		l := w.Start()
		time.Sleep(time.Minute)
		for range cases {
			a, b, c := w.Forge.Issue("a"), w.Forge.Issue("b"), w.Forge.Issue("c")
			for _, n := range []int64{a, b, c} {
				w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = nil })
			}
			tell(t, l, "/v1/convoy", fmt.Sprintf(`{"title":"T","members":["%d","%d","%d"],"staged":true}`, a, b, c))
			ref := fmt.Sprintf(`{"ref":"%d"}`, c+1)
			said := make(chan time.Time, 1)
			first, second := func() { tell(t, l, "/v1/convoy/start", ref) }, func() {
				tell(t, l, "/v1/convoy/cancel", ref)
				said <- time.Now()
			}
			if random.IntN(2) == 0 {
				first, second = second, first
			}
			go first()
			time.Sleep(time.Duration(random.Int64N(1 << (20 + random.IntN(10))))) // at most 1 ms to at most 1 s
			second()
			answered := <-said
			time.Sleep(3 * time.Minute)
			for _, r := range w.Exec.Runs() {
				if r.Job.Number >= a && (r.Begin.After(answered) || r.End.IsZero() || r.End.After(answered)) {
					t.Errorf("#%d ran from %s to %s, but was cancelled at %s", r.Job.Number, r.Begin, r.End, answered)
				}
			}
		}
		begun += len(w.Exec.Runs())
		l.Stop()
		w.Check()
	})
	if two := 2 * thousand(); begun < two/10 || begun > two*9/10 {
		t.Errorf("%d of %d possible starts happened: the cancels did not race with them", begun, two)
	}
}

func TestE5_CancelTwiceAndRestart(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 1)
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1"],"staged":true}`)
		tell(t, l, "/v1/convoy/cancel", `{"ref":"2"}`)
		n := len(w.Forge.Writes())
		told(t, l, "/v1/convoy/cancel", `{"ref":"2"}`, "johba/harb#2:  (cancelled already)")
		if len(w.Forge.Writes()) != n {
			t.Errorf("a repeated cancel wrote %q, want nothing", w.Forge.Writes()[n:])
		}
		told(t, l, "/v1/convoy/cancel", `{"ref":"2","close":true}`,
			"johba/harb#2: 1 of 1 issues and pull requests cancelled, convoy closed")
		told(t, l, "/v1/convoy/cancel", `{"ref":"2"}`, "johba/harb#2:  (closed, nothing to cancel)")
	})
	for n := 1; n <= 4; n++ { // kill at each label
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				if !simtest.Storms() && (n%3 != 1 || after != (n%2 == 0)) {
					t.Skip("only make check runs this case")
				}
				synctest.Test(t, func(t *testing.T) {
					w := simtest.New(t)
					w.Slow()
					issues(w, 3)
					l := w.Start()
					time.Sleep(time.Minute)
					tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3"],"chain":true}`)
					time.Sleep(time.Minute)
					l.Stop()
					l = w.Start(simtest.KillAt("label", n, after))
					time.Sleep(time.Minute)
					go func() { tell(t, l, "/v1/convoy/cancel", `{"ref":"4","close":true}`) }()
					<-l.Killed
					l.Bury()
					l = w.Start()
					w.Until(time.Hour, "the cancel is finished", func() bool { return w.Forge.Done() })
					for i := int64(1); i <= 4; i++ {
						if is := w.Forge.Get(i); !is.Has(forge.LabelCancelled) || len(is.Assignees) > 0 {
							t.Errorf("#%d: got labels %v, assignees %v, want cancelled and none", i, is.Labels, is.Assignees)
						}
					}
					time.Sleep(simtest.Size(time.Hour, 20*time.Minute))
					if got := len(w.Exec.Runs()); got > 2 {
						t.Errorf("got sessions %s, want at most 2", runs(w))
					}
					l.Stop()
				})
			})
		}
	}
}

func TestE6_Drain(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 3)
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3"],"chain":true}`)
		time.Sleep(time.Minute)
		told(t, l, "/v1/convoy/cancel", `{"ref":"4","drain":true}`,
			"johba/harb#4: 2 of 2 issues and pull requests cancelled, convoy labelled cancelled (continues to its end: #1)")
		w.Until(time.Hour, "the running one is merged", func() bool { return w.Forge.Get(1).Closed })
		time.Sleep(simtest.Size(3*time.Hour, time.Hour))
		if _, sessions := workers(w); sessions != 1 {
			t.Errorf("got %d sessions, want 1: %s", sessions, runs(w))
		}
		wantConvoy(t, l, 4, "cancelled: 1 done, 2 cancelled")
	})
}

func TestF2_ClaimWithoutSession(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Edit(w.Forge.Issue("left"), func(is *forge.Issue) {
			is.Labels, is.Assignees = with(is.Labels, forge.LabelInProgress), []string{"dev-qwen"}
		})
		w.Forge.Issue("runs")
		sling(t, l, `{"ref":"2"}`)
		time.Sleep(time.Minute)
		if d := l.Document(); d.Upkeep.Repairs != 1 || len(w.Exec.RunsOf(agents.KindIssue, 1)) != 1 {
			t.Errorf("got %d repairs and sessions %s, want 1 repair", d.Upkeep.Repairs, runs(w))
		}
		if got := len(w.Exec.RunsOf(agents.KindIssue, 2)); got != 1 { // the running session was not touched
			t.Errorf("got %d sessions on the running issue, want 1", got)
		}
	})
}

func TestF3_SafetyNetAsksTheSame(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		claimed := func(title string, more ...string) int64 {
			n := w.Forge.Issue(title)
			w.Forge.Edit(n, func(is *forge.Issue) {
				is.Labels = with(is.Labels, forge.LabelInProgress)
				for _, l := range more {
					is.Labels = with(is.Labels, l)
				}
				is.Assignees = []string{"dev-qwen"}
			})
			return n
		}
		claimed("staged", forge.LabelStaged)
		claimed("needs a person", forge.LabelNeedsHuman)
		hers := w.Forge.Issue("hers")
		w.Forge.Edit(hers, func(is *forge.Issue) { is.Assignees = []string{"ada"} })
		w.Forge.Edit(claimed("blocked"), func(is *forge.Issue) { is.Blockers = []forge.Blocker{{Ref: simtest.Ref(hers)}} })
		time.Sleep(simtest.Size(5*time.Hour, time.Hour))
		wantRuns(t, w, "")
		if got := strings.Join(w.Forge.Claimed(), "; "); got != "#3 [backlog] [ada]" {
			t.Errorf("got claims %s", got)
		}
	})
}

func TestF6_NoRepairsOnAQuietDay(t *testing.T) {
	simtest.OnlyInStorms(t)
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Config.Forge.MaxUnreviewed = 100
		l := w.Start()
		random := rand.New(rand.NewPCG(5, 6))
		for range 24 {
			for range random.IntN(5) {
				w.Forge.Issue("work")
			}
			time.Sleep(time.Hour)
		}
		w.Until(24*time.Hour, "all is merged", w.Forge.Done)
		if d := l.Document(); d.Upkeep.Repairs != 0 || len(w.Exec.Runs()) < 50 {
			t.Errorf("got %d repairs in %d sessions, want 0 in 50 or more", d.Upkeep.Repairs, len(w.Exec.Runs()))
		}
		l.Stop()
		w.Check()
	})
}

// accounted checks that the status has a session or a reason for each of the first open issues.
func accounted(t *testing.T, w *simtest.World, l *simtest.Life, n int64) {
	t.Helper()
	d := l.Document()
	said := map[int64]int{}
	for _, x := range d.Sessions {
		said[x.Number]++
	}
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		isNow := strings.HasPrefix(q.Why, "starts now: ") || q.Why == threads.MergedNow
		if q.Why == "" || q.Code == "" && !isNow {
			t.Errorf("a queued item has no reason: %+v", q)
		}
		if q.Kind == agents.KindIssue {
			said[q.Number]++
		}
	}
	for i := int64(1); i <= n; i++ {
		if !w.Forge.Get(i).Closed && said[i] != 1 {
			t.Errorf("the status lists #%d %d times, want 1", i, said[i])
		}
	}
}

// The status is complete also between two scans, while sessions start and end, and while a thread that was parked
// starts a single session as a probe.
func TestG6_EveryIssueIsInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		w.Config.Forge.MaxUnreviewed = 100
		began := time.Now()
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			if job.Kind == agents.KindIssue && time.Since(began) < time.Minute {
				return simtest.Script{Takes: time.Second, Outcome: agents.Outcome{
					Result: agents.Limited, Claimed: true, Reason: "limit", RetryAt: began.Add(5 * time.Minute),
				}}
			}
			return w.Work(job, n)
		}
		issues(w, 3) // without backlog
		for range 5 {
			w.Forge.Issue("work")
		}
		w.Forge.Edit(w.Forge.Issue("convoy", 1, 4), func(is *forge.Issue) { is.Labels = []string{forge.LabelConvoy} })
		l := w.Start()
		w.Until(time.Minute, "the first scan", func() bool { return len(l.Document().Unqueued) > 0 })
		step := simtest.Size(100*time.Millisecond, 710*time.Millisecond)
		for range 20 * time.Minute / step {
			accounted(t, w, l, 9)
			time.Sleep(step)
		}
		time.Sleep(time.Second) // the first merge is at 20 minutes and some calls
		var unqueued []string
		for _, q := range l.Document().Unqueued {
			unqueued = append(unqueued, fmt.Sprint("#", q.Number, " ", q.Code, ": ", q.Why))
		}
		want := "#1 not-backlog: not labelled backlog; #2 not-backlog: not labelled backlog; #3 not-backlog: not labelled " +
			"backlog; #9 convoy: a convoy, 1 of 2 members closed"
		if got := strings.Join(unqueued, "; "); got != want {
			t.Errorf("got unqueued %q, want %q", got, want)
		}
		l.Stop()
		w.Check()
	})
}

// Every open issue without a session has a printable reason.
func TestG6_EveryReasonIsPrintable(t *testing.T) {
	quiet(t, func(w *simtest.World) { w.Config.Threads[1].Slots, w.Config.Threads[1].MaxSessions = 1, 1 },
		func(t *testing.T, w *simtest.World, l *simtest.Life) {
			runs := w.Forge.Issue("runs")
			for _, change := range []func(is *forge.Issue){
				func(is *forge.Issue) { is.Labels = nil },
				func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelBlocked) },
				func(is *forge.Issue) { is.Labels = with(is.Labels, "skill/rust") },
				func(is *forge.Issue) { is.Assignees = []string{"ada"} },
				func(is *forge.Issue) { is.Assignees = []string{"dev-qwen"} },
				func(is *forge.Issue) { is.Blockers = []forge.Blocker{{Ref: simtest.Ref(runs)}} },
				func(is *forge.Issue) { is.BlockersKnown = false },
				func(is *forge.Issue) { is.Labels = []string{forge.LabelConvoy} },
				func(*forge.Issue) {},
			} {
				w.Forge.Edit(w.Forge.Issue("x"), change)
			}
			sling(t, l, `{"ref":"1"}`)
			before := w.Forge.Requests()
			for n := int64(1); n <= 10; n++ {
				ex := explain(t, l, n)
				if ex.Verdict == "" || ex.Code == "" || (ex.Code == threads.HasSession) != (n == 1) ||
					strings.Contains(ex.Verdict, string(ex.Code)+"\n") {
					t.Errorf("why %d: got %+v", n, ex)
				}
				for _, s := range ex.Steps {
					if !s.OK && s.Why == "" {
						t.Errorf("why %d: rule %q refuses without a reason", n, s.Rule)
					}
				}
			}
			accounted(t, w, l, 10)
			if n := w.Forge.Requests() - before; n != 0 {
				t.Errorf("why made %d requests to the forge, want 0", n)
			}
			if ex := explain(t, l, 10); ex.Code != threads.NoSlot && ex.Code != threads.AgentBusy {
				t.Errorf("why of an issue that waits for a slot: got %s", ex.Verdict)
			}
		})
}
