package supervisor_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// wantConvoy checks a convoy's state and the member counts that are not zero.
func wantConvoy(t *testing.T, l *simtest.Life, n int64, want string) {
	t.Helper()
	c := convoy(t, l, n)
	var parts []string
	for _, s := range []threads.MemberState{"done", "failed", "cancelled", "running", "ready", "blocked"} {
		if c.Counts[s] > 0 {
			parts = append(parts, fmt.Sprint(c.Counts[s], " ", s))
		}
	}
	if got := string(c.State) + ": " + strings.Join(parts, ", "); got != want {
		t.Errorf("got convoy %q, want %q", got, want)
	}
}

func convoy(t *testing.T, l *simtest.Life, n int64) threads.Convoy {
	t.Helper()
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest("GET", fmt.Sprintf("/v1/convoys?ref=%d", n), nil))
	var d control.Convoys
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || len(d.Convoys) != 1 {
		t.Fatalf("/v1/convoys of #%d: %v in %s", n, err, w.Body)
	}
	return d.Convoys[0]
}

// issues files n issues without backlog.
func issues(w *simtest.World, n int) {
	for i := range n {
		w.Forge.Edit(w.Forge.Issue(string(rune('A'+i))), func(is *forge.Issue) { is.Labels = nil })
	}
}

// assigned counts the issues among the first n with an agent.
func assigned(w *simtest.World, n int64) (count int) {
	for i := int64(1); i <= n; i++ {
		if len(w.Forge.Get(i).Assignees) > 0 {
			count++
		}
	}
	return count
}

// workers returns the agents that had a session on an issue, and the number of those sessions.
func workers(w *simtest.World) (names []string, sessions int) {
	for _, r := range w.Exec.Runs() {
		if r.Job.Kind == agents.KindIssue {
			names = append(names, r.Job.Agent)
		}
	}
	sessions = len(names)
	slices.Sort(names)
	return slices.Compact(names), sessions
}

func TestB1_Serial(t *testing.T) {
	quiet(t, third, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 5)
		told(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3","4","5"],"chain":true}`,
			"johba/harb#6: convoy of 5 made")
		time.Sleep(time.Second)
		if got := assigned(w, 5); got != 1 || len(w.Forge.Get(1).Assignees) != 1 {
			t.Errorf("got %d issues assigned at once, want only #1", got)
		}
		wantConvoy(t, l, 6, "started: 1 running, 4 blocked")
		most := 0
		w.Until(3*time.Hour, "all merged and the convoy closed", func() bool {
			most = max(most, assigned(w, 5))
			return w.Forge.Done()
		})
		names, sessions := workers(w)
		if most != 1 || len(names) != 1 || sessions != 5 {
			t.Errorf("got at most %d assigned at a time, agents %v, %d sessions, want 1, 1 and 5", most, names, sessions)
		}
		for _, r := range w.Exec.Runs() {
			if r.Job.Kind == agents.KindIssue && !slices.Contains(r.Job.Env, "DISINTO_SLOT=0") {
				t.Errorf("#%d ran in another slot than 0", r.Job.Number)
			}
		}
		writes := w.Forge.Writes()
		if last := writes[len(writes)-2:]; !slices.Equal(last, []string{"comment #6 convoy-over-6", "close #6"}) {
			t.Errorf("got last writes %q, want a comment on the convoy and its close", last)
		}
		want := "This convoy is done: 5 of 5 members are merged.\n\n- #1 by dev-coder, merged as #7"
		if c := w.Forge.Comments(); len(c) != 1 || !strings.HasPrefix(c[0].Body, want) {
			t.Errorf("got comments %+v, want one with %q", c, want)
		}
		wantConvoy(t, l, 6, "done: 5 done")
	})
}

func TestB2_Parallel(t *testing.T) {
	quiet(t, third, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 3)
		told(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3"]}`, "johba/harb#4: convoy of 3 made")
		time.Sleep(time.Second)
		if got := assigned(w, 3); got != 2 { // there are two slots
			t.Errorf("got %d issues assigned within a tick, want 2", got)
		}
		wantConvoy(t, l, 4, "started: 2 running, 1 ready")
	})
}

func TestB3_Diamond(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Exec.Script = func(job agents.Job, n int) simtest.Script { // A takes longer than B
			s := w.Work(job, n)
			if job.Number == 1 {
				s.Takes *= 2
			}
			return s
		}
		a, b := w.Forge.Issue("A"), w.Forge.Issue("B")
		c := w.Forge.Issue("C", a, b)
		told(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3"]}`, "johba/harb#4: convoy of 3 made")
		for !w.Forge.Get(a).Closed || !w.Forge.Get(b).Closed {
			if len(w.Forge.Get(c).Assignees) > 0 {
				t.Fatal("C was assigned while a blocker was open")
			}
			time.Sleep(100 * time.Millisecond)
		}
		closed := time.Now()
		w.Until(time.Minute, "C is assigned", func() bool { return len(w.Forge.Get(c).Assignees) > 0 })
		if took := time.Since(closed); took > 2*time.Second {
			t.Errorf("C was assigned %s after its last blocker closed, want at most 2 s", took)
		}
	})
}

func TestB4_Staged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		issues(w, 2)
		l := w.Start()
		time.Sleep(time.Minute)
		told(t, l, "/v1/convoy", `{"title":"T","members":["1","2"],"chain":true,"staged":true}`,
			"johba/harb#3: convoy of 2 made (staged: nothing starts until disinto batch start 3)")
		time.Sleep(100 * 30 * time.Second)
		wantRuns(t, w, "")
		wantConvoy(t, l, 3, "staged: 2 blocked")
		told(t, l, "/v1/convoy/start", `{"ref":"3"}`, "johba/harb#3: started")
		time.Sleep(time.Second)
		wantRuns(t, w, "issue #1")
		told(t, l, "/v1/convoy/start", `{"ref":"3"}`, "johba/harb#3:  (started already)")
		told(t, l, "/v1/convoy/start", `{"ref":"1"}`, "409 cannot start johba/harb#1: it is not a convoy")
		w.Until(2*time.Hour, "done", w.Forge.Done)
		told(t, l, "/v1/convoy/start", `{"ref":"3"}`, "409 cannot start johba/harb#3: it is over")
		l.Stop()
		w.Check()
	})
}

// A person starts a convoy on the forge by removing the label staged.
func TestB4_StartedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Usual()
		issues(w, 1)
		l := w.Start()
		time.Sleep(time.Minute)
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1"],"staged":true}`)
		time.Sleep(time.Minute)
		wantRuns(t, w, "")
		w.Forge.Edit(2, func(is *forge.Issue) { is.Labels = []string{forge.LabelConvoy} })
		time.Sleep(31 * time.Second)
		wantRuns(t, w, "issue #1")
		l.Stop()
	})
}

func TestB5_Circles(t *testing.T) {
	quiet(t, func(w *simtest.World) { issues(w, 4) }, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		depend := func(n int64, on ...int64) {
			w.Forge.Edit(n, func(is *forge.Issue) {
				is.Blockers = nil
				for _, b := range on {
					is.Blockers = append(is.Blockers, forge.Blocker{Ref: simtest.Ref(b)})
				}
			})
		}
		before := len(w.Forge.Writes())
		for _, tt := range []struct {
			name string
			ties map[int64]int64
			want string
		}{
			{"itself", map[int64]int64{2: 2}, "#2 -> #2"},
			{"a pair with the chain", map[int64]int64{1: 2}, "#1 -> #2 -> #1"},
			{"three, one outside", map[int64]int64{1: 4, 4: 3}, "#1 -> #4 -> #3 -> #2 -> #1"},
		} {
			for n := int64(1); n <= 4; n++ {
				depend(n)
			}
			for n, on := range tt.ties {
				depend(n, on)
			}
			told(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3"],"chain":true}`,
				"409 cannot make the convoy, issues would wait for each other: "+tt.want)
		}
		if after := w.Forge.Writes(); len(after) != before {
			t.Errorf("refused convoys wrote %q, want nothing", after[before:])
		}
		// A cycle that a person created starts nothing, and people get one comment.
		for n, on := range map[int64]int64{1: 2, 2: 3, 3: 1, 4: 4} {
			depend(n, on)
			w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = []string{forge.LabelBacklog} })
		}
		time.Sleep(5 * time.Hour)
		wantRuns(t, w, "")
		wantHeld(t, l, "#1 blocker-cycle, #2 blocker-cycle, #3 blocker-cycle, #4 blocks-itself")
		told := slices.Sorted(slices.Values(w.Forge.Writes()[before:]))
		want := "comment #1 circle-johba/harb/1.johba/harb/2.johba/harb/3.johba/harb/1, comment #4 blocks-itself"
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("got comments %s, want %s", got, want)
		}
	})
}

func TestB6_FailClosed(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Edit(w.Forge.Issue("one"), func(is *forge.Issue) { is.BlockersKnown = false })
		if r := sling(t, l, `{"ref":"1"}`); r.Agent != "" || r.Code != threads.BlockersUnknown ||
			r.Why != "blockers unknown" {
			t.Errorf("got report %+v, want blockers unknown", r)
		}
		w.Forge.Edit(1, func(is *forge.Issue) { is.BlockersKnown = true })
		if r := sling(t, l, `{"ref":"1"}`); r.Agent == "" {
			t.Errorf("got report %+v, want a session", r)
		}
	})
}

func TestB7_FailedAndCancelled(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		failed := w.Forge.Issue("fails")
		w.Forge.Issue("waits for it", failed)
		w.Forge.Edit(failed, func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelBlocked) })
		other := w.Forge.Issue("another")
		w.Forge.Issue("waits for that", other)
		w.Forge.Edit(other, func(is *forge.Issue) { is.Assignees = []string{"ada"} })
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3","4"]}`)
		time.Sleep(time.Minute)
		wantConvoy(t, l, 5, "started: 1 failed, 3 blocked")
		told(t, l, "/v1/cancel", `{"ref":"3"}`, "johba/harb#3: labelled cancelled")
		time.Sleep(simtest.Size(3*time.Hour, 70*time.Minute))
		wantRuns(t, w, "")
		wantMarks(t, w, 2, "backlog")
		wantMarks(t, w, 4, "backlog needs-human")
		if c := w.Forge.Comments(); len(c) != 1 || !strings.HasPrefix(c[0].Body, "This depends on #3, which was cancelled") {
			t.Errorf("got comments %+v, want one about the cancelled #3", c)
		}
		wantConvoy(t, l, 5, "started: 2 failed, 1 cancelled, 1 blocked")
		// The label stays off once a person has removed it.
		w.Forge.Edit(4, func(is *forge.Issue) { is.Labels = []string{forge.LabelBacklog} })
		time.Sleep(simtest.Size(3*time.Hour, 70*time.Minute))
		wantMarks(t, w, 4, "backlog")
		wantRuns(t, w, "")
	})
}

func with(list []string, s string) []string {
	list = append(slices.Clone(list), s)
	slices.Sort(list)
	return list
}

func TestB8_Unmerged(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		one := w.Forge.Issue("one")
		w.Forge.Edit(one, func(is *forge.Issue) { is.Assignees = []string{"ada"} })
		pull := w.Forge.Open(one, "dev-qwen")
		w.Forge.EditPull(pull, func(p *forge.Pull) { p.Draft = true }) // a draft is not reviewed
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1"]}`)
		w.Forge.EditPull(pull, func(p *forge.Pull) { p.Closed, p.Ended, p.ClosedBy = true, time.Now(), "ada" })
		w.Forge.Edit(one, func(is *forge.Issue) { is.Closed, is.Ended = true, time.Now() })
		time.Sleep(2 * time.Hour)
		if is := w.Forge.Get(3); is.Closed || !is.Has(forge.LabelNeedsHuman) {
			t.Errorf("the convoy of a rejected member: got %+v, want it open with needs-human", is)
		}
		if c := w.Forge.Comments(); len(c) != 1 || !strings.Contains(c[0].Body, "#1 without a merge") {
			t.Errorf("got comments %+v, want one about #1", c)
		}
	})
}

func TestB9_DependencyAdded(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Forge.Edit(w.Forge.Issue("hers"), func(is *forge.Issue) { is.Assignees = []string{"ada"} })
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		block := func(n int64) {
			w.Forge.Edit(n, func(is *forge.Issue) { is.Blockers = []forge.Blocker{{Ref: simtest.Ref(1)}} })
		}
		w.Forge.Issue("ready")
		block(2)
		if r := sling(t, l, `{"ref":"2"}`); r.Code != threads.BlockerOpen {
			t.Errorf("sling of a blocked issue: got %+v", r)
		}
		w.Forge.Issue("begun")
		if r := sling(t, l, `{"ref":"3"}`); r.Agent == "" {
			t.Errorf("sling of a free issue: got %+v, want a session", r)
		}
		block(3)
		time.Sleep(5 * time.Minute)
		wantRuns(t, w, "issue #3")
	})
}

func TestB10_Priority(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Config.Threads[1].Slots, w.Config.Threads[1].MaxSessions = 1, 1
		w.Config.Forge.MaxUnreviewed = 100
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		for _, p := range []string{"priority/9", "", "", "priority/3", "priority"} {
			n := w.Forge.Issue("x" + p)
			w.Forge.Edit(n, func(is *forge.Issue) {
				is.Labels = nil
				if p != "" {
					is.Labels = []string{p}
				}
			})
			time.Sleep(time.Second)
		}
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3","4","5"]}`)
		w.Until(3*time.Hour, "done", w.Forge.Done)
		var order []int64
		for _, r := range w.Exec.Runs() {
			if r.Job.Kind == agents.KindIssue {
				order = append(order, r.Job.Number)
			}
		}
		if got := fmt.Sprint(order); got != "[5 4 2 3 1]" {
			t.Errorf("got order %s, want [5 4 2 3 1]", got)
		}
	})
}

// thousand returns the number of random cases: 1,000 in make check, 10 in make test.
func thousand() int { return simtest.Size(1000, 10) }

// inWorlds plays a thousand cases, several in each world: every case makes its world larger.
func inWorlds(t *testing.T, play func(t *testing.T, random *rand.Rand, cases int)) {
	const each = 10
	for seed := range uint64(thousand() / each) {
		synctest.Test(t, func(t *testing.T) { play(t, rand.New(rand.NewPCG(1, seed)), each) })
	}
}

func TestC1_WithinATick(t *testing.T) {
	inWorlds(t, func(t *testing.T, random *rand.Rand, cases int) {
		w := simtest.New(t)
		w.Usual()
		w.Config.Forge.MaxUnreviewed = 1 << 20
		w.Exec.Script = func(job agents.Job, _ int) simtest.Script {
			return simtest.Script{
				Takes: time.Second,
				Do:    func() { w.Forge.Edit(job.Number, func(is *forge.Issue) { is.Closed = true }) },
			}
		}
		l := w.Start()
		for range cases {
			blocker := w.Forge.Issue("blocker")
			w.Forge.Edit(blocker, func(is *forge.Issue) { is.Assignees = []string{"ada"} })
			blocked := w.Forge.Issue("blocked", blocker)
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Minute))))
			if n := len(w.Exec.RunsOf(agents.KindIssue, blocked)); n > 0 {
				t.Fatalf("#%d was started while it was blocked", blocked)
			}
			w.Forge.Edit(blocker, func(is *forge.Issue) { is.Closed = true })
			closed := time.Now()
			time.Sleep(32 * time.Second)
			all := w.Exec.RunsOf(agents.KindIssue, blocked)
			claimed := w.Config.Threads[1].IdleInterval + 500*time.Millisecond
			if len(all) != 1 || all[0].Begin.Sub(closed) > claimed {
				t.Fatalf("#%d was ready at %s: got %d sessions, want 1 within a tick: %s", blocked, closed, len(all), runs(w))
			}
		}
		l.Stop()
		w.Check()
	})
}

func TestC2_FromIdle(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		started := func(what string, n int) {
			t.Helper()
			time.Sleep(time.Second)
			if got := len(w.Exec.Runs()); got != n {
				t.Errorf("%s: got %d sessions after a second, want %d", what, got, n)
			}
		}
		w.Forge.Issue("slung")
		sling(t, l, `{"ref":"1"}`)
		started("sling", 1)
		w.Forge.Edit(w.Forge.Issue("member"), func(is *forge.Issue) { is.Labels = nil })
		tell(t, l, "/v1/convoy", `{"title":"T","members":["2"],"staged":true}`)
		started("a staged convoy", 1)
		tell(t, l, "/v1/convoy/start", `{"ref":"3"}`)
		started("convoy start", 2)
	})
}

func TestC4_FreedSlot(t *testing.T) {
	quiet(t, third, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		issues(w, 3)
		tell(t, l, "/v1/convoy", `{"title":"T","members":["1","2","3"]}`)
		w.Until(time.Hour, "the third begins", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 3)) == 1 })
		if wait := w.Exec.RunsOf(agents.KindIssue, 3)[0].Begin.Sub(w.Exec.Runs()[0].End); wait > time.Second {
			t.Errorf("the third session started %s after a slot was free, want at most 1 s", wait)
		}
	})
}
