package supervisor_test

import (
	"context"
	"encoding/json"
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
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// The tests named TestA1_... are the acceptance tests of lazy assignment, by letter: A sling, B convoys, C promptness,
// D the same agent again, E cancelling, F the safety net, G limits. Here they run the real supervisor in virtual time;
// cmd/disinto has the tests that need a forge and processes.

// asked sends a command and decodes its answer.
func asked(t *testing.T, l *simtest.Life, path, body string, answer any) (status int, refusal string) {
	t.Helper()
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
	if w.Code != 200 {
		var no struct{ Error string }
		_ = json.Unmarshal(w.Body.Bytes(), &no)
		return w.Code, no.Error
	}
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
		t.Errorf("%s %s: %v in the answer %s", path, body, err, w.Body)
	}
	return w.Code, ""
}

// sling slings an issue and checks that the answer comes within a second.
func sling(t *testing.T, l *simtest.Life, body string) control.SlingReport {
	t.Helper()
	began := time.Now()
	var r control.SlingReport
	if status, no := asked(t, l, "/v1/sling", body, &r); status != 200 {
		t.Errorf("sling %s: got %d %s, want 200", body, status, no)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("sling %s took %s, want at most 1 s", body, took)
	}
	return r
}

// hourly polls the forge once an hour, so that a poll cannot be the cause of a prompt start.
func hourly(w *simtest.World) {
	for i := range w.Config.Threads {
		w.Config.Threads[i].Interval, w.Config.Threads[i].IdleInterval = time.Hour, time.Hour
	}
}

// quiet runs a test on a supervisor that has been idle for a while and polls the forge once an hour.
func quiet(t *testing.T, prepare func(w *simtest.World), test func(t *testing.T, w *simtest.World, l *simtest.Life)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		hourly(w)
		if prepare != nil {
			prepare(w)
		}
		l := w.Start()
		time.Sleep(10 * time.Minute)
		test(t, w, l)
		wantReplay(t, l)
		l.Stop()
		w.Check()
	})
}

// third adds a third dev agent to two slots.
func third(w *simtest.World) {
	a := w.Config.Agents[0]
	a.Name, a.Login, a.Token = "dev-third", "dev-third", "token-of-dev-third"
	w.Config.Agents = slices.Insert(w.Config.Agents, 2, a)
	w.Config.Threads[1].Agents = append(slices.Clone(w.Config.Threads[1].Agents), a.Name)
	w.Forge.Tokens["token-of-dev-third"] = "dev-third"
}

func TestA1_Immediate(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Issue("one")
		r := sling(t, l, `{"ref":"1"}`)
		if r.Agent != "dev-coder" || r.State != threads.Running ||
			r.Line() != "dev-coder is on it: johba/harb#1, slot llama/0" {
			t.Errorf("got report %+v, want dev-coder at work in llama/0", r)
		}
		wantRuns(t, w, "issue #1")
		wantMarks(t, w, 1, "backlog in-progress dev-coder")
	})
}

func TestA2_SameCodePath(t *testing.T) {
	story := func(begin func(t *testing.T, w *simtest.World, l *simtest.Life)) (told []string) {
		quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
			events, leave := l.Events()
			defer leave()
			w.Forge.Issue("one")
			begin(t, w, l)
			w.Until(2*time.Hour, "merged", w.Forge.Done)
			for len(events) > 0 {
				e := <-events
				if d, ok := e.Data.(control.SessionDocument); ok {
					told = append(told, fmt.Sprint(e.Type, " ", d.Agent, " ", d.Thread, d.Slot, " ", d.Kind))
				} else if e.Type == control.EventEnded || e.Type == control.EventMerged {
					told = append(told, string(e.Type))
				}
			}
			told = append(told, w.Forge.Writes()...)
		})
		return told
	}
	slung := story(func(t *testing.T, _ *simtest.World, l *simtest.Life) { sling(t, l, `{"ref":"1"}`) })
	ticked := story(func(*testing.T, *simtest.World, *simtest.Life) {})
	if len(slung) < 5 || !slices.Equal(slung, ticked) {
		t.Errorf("writes by sling:\n%s\nby a tick:\n%s", strings.Join(slung, "\n"), strings.Join(ticked, "\n"))
	}
}

func TestA3_Blocked(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Forge.Edit(w.Forge.Issue("seven"), func(is *forge.Issue) { is.Assignees = []string{"ada"} })
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Issue("eight", 1)
		r := sling(t, l, `{"ref":"2"}`)
		if r.Agent != "" || r.Code != threads.BlockerOpen || r.Why != "blocked by johba/harb#1" || r.Position != 2 {
			t.Errorf("got report %+v, want blocked by #1, second in the queue", r)
		}
		wantRuns(t, w, "")
		wantMarks(t, w, 2, "backlog")
	})
}

func TestA4_Full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		hourly(w)
		third(w)
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		l := w.Start()
		time.Sleep(time.Minute)
		if got := len(w.Exec.Runs()); got != 2 {
			t.Fatalf("got sessions %s, want 2", runs(w))
		}
		w.Forge.Issue("nine")
		r := sling(t, l, `{"ref":"3"}`)
		const want = "no free slot on llama (2 of 2 taken): dev-coder johba/harb#"
		if r.Agent != "" || r.Code != threads.NoSlot || r.Position != 1 || !strings.HasPrefix(r.Why, want) {
			t.Errorf("got report %+v, want no free slot", r)
		}
		w.Until(20*time.Minute, "it starts", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 3)) == 1 })
		all := w.Exec.Runs()
		if wait := w.Exec.RunsOf(agents.KindIssue, 3)[0].Begin.Sub(all[0].End); all[0].End.IsZero() || wait > time.Second {
			t.Errorf("the session started %s after a slot was free, want at most 1 s", wait)
		}
		l.Stop()
		w.Check()
	})
}

func TestA5_Race(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Edit(w.Forge.Issue("seven"), func(is *forge.Issue) { is.Labels = nil })
		var all sync.WaitGroup
		answers := make([]control.SlingReport, 50)
		for i := range answers {
			all.Go(func() { answers[i] = sling(t, l, `{"ref":"1"}`) })
		}
		all.Wait()
		for i, r := range answers {
			if r.Agent != "dev-coder" {
				t.Errorf("answer %d: got %+v, want dev-coder", i, r)
			}
		}
		wantRuns(t, w, "issue #1")
	})
}

// stuck is an executor that cannot start programs.
type stuck struct{}

func (stuck) Run(context.Context, agents.Job, func(agents.Started)) agents.Outcome {
	return agents.Outcome{Result: agents.Failed, Claimed: true, Reason: "cannot start: no such file"}
}
func (stuck) Activity(string) (a agents.Activity, ok bool)         { return a, false }
func (stuck) Unreported(context.Context, string) ([]string, error) { return nil, nil }

func TestA6_StartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a missing program burns no attempt
		w := simtest.New(t)
		hourly(w)
		l := w.Start(func(l *simtest.Life) { l.Executor = stuck{} })
		time.Sleep(time.Minute)
		w.Forge.Issue("one")
		r := sling(t, l, `{"ref":"1"}`)
		if r.Agent != "" || r.Why == "" || r.Code == "" {
			t.Errorf("got report %+v, want a reason", r)
		}
		wantMarks(t, w, 1, "backlog")
		l.Stop()
	})
	synctest.Test(t, func(t *testing.T) { // a program that fails at once burns one, and the next comes after two minutes
		w := simtest.New(t)
		w.Exec.Script = func(agents.Job, int) simtest.Script {
			return simtest.Script{Outcome: agents.Outcome{Result: agents.Failed, Claimed: true, Reason: "exit 1"}}
		}
		l := w.Start()
		time.Sleep(time.Minute)
		w.Forge.Issue("one")
		sling(t, l, `{"ref":"1"}`)
		time.Sleep(time.Second)
		wantMarks(t, w, 1, "backlog")
		r := sling(t, l, `{"ref":"1"}`)
		if r.Agent != "" || r.Code != threads.CoolDown || !strings.HasPrefix(r.Why, "failed 1 of 5: exit 1; next try ") {
			t.Errorf("got report %+v, want a cool-down", r)
		}
		w.Until(5*time.Minute, "a second try", func() bool { return len(w.Exec.Runs()) == 2 })
		if all := w.Exec.Runs(); all[1].Begin.Sub(all[0].End) < 2*time.Minute {
			t.Errorf("the second attempt started after %s, want 2 min or more", all[1].Begin.Sub(all[0].End))
		}
		l.Stop()
	})
}

func TestA7_Refused(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Forge.Edit(w.Forge.Issue("closed"), func(is *forge.Issue) { is.Closed = true })
		w.Forge.Edit(w.Forge.Issue("convoy"), func(is *forge.Issue) { is.Labels = []string{"convoy"} })
		w.Forge.Edit(w.Forge.Issue("report"), func(is *forge.Issue) { is.Labels = []string{"bug-report"} })
		w.Forge.Edit(w.Forge.Issue("hers"), func(is *forge.Issue) { is.Assignees = []string{"ada"} })
		w.Forge.Open(w.Forge.Issue("in review"), "dev-elsewhere")
		w.Forge.EditPull(6, func(p *forge.Pull) { p.Draft = true })
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		before := w.Forge.Writes()
		for ref, want := range map[string]string{
			"1": "409 cannot start johba/harb#1: it is closed: reopen it first",
			"2": "409 cannot start johba/harb#2: it is a convoy: use disinto batch start 2",
			"3": "409 cannot start johba/harb#3: it is labelled bug-report: take that label off first",
			"4": "409 cannot start johba/harb#4: it is assigned to ada: unassign that account first",
			"6": "409 cannot start johba/harb#6: it is a pull request, which is reviewed and merged by itself",
			"9": "404 cannot start johba/harb#9: there is no such issue or pull request",
			"x": `400 cannot read "x" as an issue: write 12, #12 or owner/name#12`,
			"":  "400 cannot start: give either an issue or a title",
		} {
			var r control.SlingReport
			status, no := asked(t, l, "/v1/sling", fmt.Sprintf(`{"ref":%q}`, ref), &r)
			if got := fmt.Sprint(status, " ", no); got != want {
				t.Errorf("sling %q: got %s, want %s", ref, got, want)
			}
		}
		if r := sling(t, l, `{"ref":"5"}`); r.Code != threads.HasPull || r.Why != "waits for its pull request johba/harb#6" {
			t.Errorf("sling of an issue in review: got %+v", r)
		}
		if after := w.Forge.Writes(); !slices.Equal(before, after) {
			t.Errorf("refused slings wrote %q, want nothing", after[len(before):])
		}
	})
}

func TestA8_NoExtraWrites(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Forge.Edit(w.Forge.Issue("hers"), func(is *forge.Issue) { is.Assignees = []string{"ada"} })
		w.Forge.Edit(w.Forge.Issue("waits", 1), func(is *forge.Issue) { is.Labels = nil })
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		for range 3 {
			sling(t, l, `{"ref":"2"}`)
		}
		if got := strings.Join(w.Forge.Writes(), ", "); got != "label #2 backlog" {
			t.Errorf("got writes %s, want label #2 backlog", got)
		}
	})
}

// An issue that sling files has its dependencies before it has backlog.
func TestSlingFiles(t *testing.T) {
	quiet(t, func(w *simtest.World) {
		w.Config.Roles[0].Label = "code"
		w.Config.Agents[0].Skills = []string{"tea"}
		w.Forge.Edit(w.Forge.Issue("hers"), func(is *forge.Issue) { is.Assignees = []string{"ada"} })
	}, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		r := sling(t, l, `{"title":"Brew","body":"Hot.","role":"dev"}`)
		if r.Agent != "dev-coder" || !r.Filed || r.Number != 2 {
			t.Errorf("sling of a new issue: got %+v", r)
		}
		wantMarks(t, w, 2, "backlog code in-progress dev-coder")
		r = sling(t, l, `{"title":"Pour","role":"dev","skills":["tea"],"depends_on":["1","#2"]}`)
		if r.Agent != "" || r.Code != threads.BlockerOpen || r.Number != 3 {
			t.Errorf("sling of a new, blocked issue: got %+v", r)
		}
		if got := w.Forge.Writes(); !slices.Equal(got[len(got)-4:], []string{
			"file #3", "depend #3 #1", "depend #3 #2",
			"label #3 backlog",
		}) {
			t.Errorf("got writes %q", got)
		}
		wantMarks(t, w, 3, "backlog code skill/tea")
		n := len(w.Forge.Writes())
		for body, want := range map[string]string{
			`{"title":"x","depends_on":["99"]}`: "404 cannot depend on johba/harb#99: there is no such issue or pull request",
			`{"title":"x","role":"review"}`:     "409 the role review works on no issues",
			`{"title":"x","skills":["tae"]}`:    "404 no agent has the skill tae, did you mean tea?",
			`{"title":"x","role":"cook"}`:       "404 no agent has the role cook",
			`{"title":"x","repo":"a/b"}`:        "404 a/b is none of the repositories of this factory",
			`{"title":"x","ref":"1"}`:           "400 cannot start: give either an issue or a title",
		} {
			if status, no := asked(t, l, "/v1/sling", body, &r); fmt.Sprint(status, " ", no) != want {
				t.Errorf("sling %s: got %d %s, want %s", body, status, no, want)
			}
		}
		if len(w.Forge.Writes()) != n {
			t.Errorf("refused slings wrote %q, want nothing", w.Forge.Writes()[n:])
		}
	})
}

// explain requests GET /v1/why.
func explain(t *testing.T, l *simtest.Life, n int64) (ex threads.Explanation) {
	t.Helper()
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest("GET", fmt.Sprintf("/v1/why?ref=%d", n), nil))
	if err := json.Unmarshal(w.Body.Bytes(), &ex); err != nil || w.Code != 200 {
		t.Fatalf("why %d: %v in the answer %s", n, err, w.Body)
	}
	return ex
}

// A mistyped name of a scheduled role is no issue; the answer proposes the role.
func TestStartMistyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Config.Agents[1].Roles = append(w.Config.Agents[1].Roles, "gardener")
		w.Config.Roles = append(w.Config.Roles, agents.Role{
			Name: "gardener", On: agents.OnSchedule, Every: 6 * time.Hour, Priority: 5, Command: []string{"garden"},
			Timeout: time.Hour, Stall: time.Hour,
		})
		l := w.Start()
		time.Sleep(time.Second)
		want := `404 cannot start "gardner": it is neither an issue nor a scheduled role, did you mean gardener?`
		told(t, l, "/v1/sling", `{"ref":"gardner"}`, want)
		l.Stop()
	})
}
