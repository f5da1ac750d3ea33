package simtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// withCLIs makes the roles of a world those of the built-in program, whose sessions take an hour and hear a message
// after ten seconds.
func withCLIs(w *World) {
	idle(w)
	w.Config.Roles = slices.Clone(w.Config.Roles)
	for i := range w.Config.Roles {
		w.Config.Roles[i].CLI = "claude"
	}
	w.Exec.Hears = 10 * time.Second
}

// toldTo returns the answer to a tell as it is now.
func (w *World) toldTo(n, id int64) string {
	kept, _ := w.Forge.CommentsSet()
	return kept[fmt.Sprintf("#%d command-%d", n, id)]
}

// untilTold waits for an answer to a tell.
func (w *World) untilTold(n, id int64, want string) {
	w.T.Helper()
	w.Until(10*time.Minute, want, func() bool { return strings.Contains(w.toldTo(n, id), want) })
}

// shown returns what show says of an issue.
func (l *Life) shown(n int64) (d control.ItemDocument) {
	l.w.T.Helper()
	l.get(fmt.Sprint("/v1/show?ref=", n), &d)
	return d
}

// get reads a document of the control API.
func (l *Life) get(path string, document any) {
	l.w.T.Helper()
	answer := httptest.NewRecorder()
	l.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	if err := json.Unmarshal(answer.Body.Bytes(), document); err != nil {
		l.w.T.Errorf("%s: %v: %s", path, err, answer.Body)
	}
}

// run returns the newest run.
func (w *World) run() Run {
	runs := w.Exec.Runs()
	return runs[len(runs)-1]
}

// Two messages of one second are heard in their order, without their secrets, on the slot that the session has. The one
// answer to each says when, and the receipt, show and the journal's past have them. A sixth is refused.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		withCLIs(w)
		w.Exec.Script = func(agents.Job, int) Script { return Script{Takes: 20 * time.Minute} }
		l, n := w.Start(), w.Forge.Issue("one")
		w.Until(time.Minute, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		slot := l.Document().Sessions[0].Slot
		a := w.Forge.Command(n, "johba", "/disinto tell use tabs, not token-of-dev-coder")
		b := w.Forge.Command(n, "johba", "/disinto tell\nand **c.txt**\n\n@everyone")
		w.untilTold(n, a, "heard by "+w.run().Job.Agent+", ")
		w.untilTold(n, b, "heard by "+w.run().Job.Agent+", ")
		want := []string{"use tabs, not [secret]", "and **c.txt**\n\n@everyone"}
		if got := w.Exec.Inbox(w.run().Job.RunID); !slices.Equal(got, want) {
			t.Errorf("got the inbox %q, want %q", got, want)
		}
		if got := w.toldTo(n, b); !strings.HasPrefix(got, "```text\n/disinto tell, by johba\n") {
			t.Errorf("got the answer %s", got)
		}
		if d := l.Document(); len(d.Sessions) != 1 || d.Sessions[0].Slot != slot || len(w.Exec.Runs()) != 1 {
			t.Errorf("the session moved or began again: %+v", d.Sessions)
		}
		for i := range 3 {
			id := w.Forge.Command(n, "johba", fmt.Sprint("/disinto tell more ", i))
			w.untilTold(n, id, "heard by ")
		}
		w.untilTold(n, w.Forge.Command(n, "johba", "/disinto tell too much"), "has been told 5 times")
		if d := l.shown(n); len(d.Running) != 1 || len(d.Running[0].Told) != 5 || d.Running[0].Told[4].Heard.IsZero() {
			t.Errorf("show has %+v", d.Running)
		}
		w.Until(time.Hour, "the end", func() bool { return !w.Exec.Runs()[0].End.IsZero() })
		time.Sleep(time.Second)
		if d := l.shown(n); len(d.Sessions) != 1 || d.Sessions[0].Heard != 5 {
			t.Errorf("show has the past %+v", d.Sessions)
		}
		l.Stop()
		w.Check()
		r := receiptsOf(t, w)[0]
		if len(r.Told) != 5 || r.Told[0].Text != want[0] || r.Told[0].By != "johba" || r.Told[0].Heard.IsZero() {
			t.Errorf("the receipt has %+v", r.Told)
		}
	})
}

// Who cannot be told anything, and why; the words say what helps.
func TestNotTold(t *testing.T) {
	none := func(*World) {}
	tests := []struct {
		name   string
		before func(*World)
		text   string
		want   string
	}{
		{
			"no session", func(w *World) { w.Config.Agents = w.Config.Agents[2:] }, "x",
			"no session writes for it now; an ordinary",
		},
		{"no text", none, "", "there is no text"},
		{"too long", none, strings.Repeat("ä", 2049), "the text is longer than 4096 bytes"},
		{"another command", none, "x\n/disinto cancel", "the text has another command"},
		{"another machine", func(w *World) { w.Elsewhere() }, "x", "runs on another machine; an ordinary"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				withCLIs(w)
				tt.before(w)
				l, n := w.Start(), w.Forge.Issue("one")
				time.Sleep(time.Minute)
				id := w.Forge.Command(n, "johba", "/disinto tell "+tt.text)
				w.untilTold(n, id, tt.want)
				for _, r := range w.Exec.Runs() {
					if got := w.Exec.Inbox(r.Job.RunID); len(got) > 0 {
						t.Errorf("got the inbox %q", got)
					}
				}
				l.Stop()
				if w.Engine != nil {
					w.Engine.End()
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// A review is told nothing, and the session that writes for the issue of a pull request is.
func TestReviewIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		withCLIs(w)
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Takes = 10 * time.Minute
			if job.Kind == agents.KindReview {
				s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			}
			return s
		}
		l, n := w.Start(), w.Forge.Issue("one")
		newest := func(kind agents.Kind) func() bool {
			return func() bool { runs := w.Exec.Runs(); return len(runs) > 0 && w.run().Job.Kind == kind }
		}
		w.Until(time.Hour, "a review", newest(agents.KindReview))
		pull := w.run().Job.Number
		w.untilTold(pull, w.Forge.Command(pull, "johba", "/disinto tell x"), "no session writes for it now")
		w.Until(time.Hour, "rework", newest(agents.KindRework))
		w.untilTold(n, w.Forge.Command(n, "johba", "/disinto tell use tabs"), "heard by ")
		if got := w.Exec.Inbox(w.run().Job.RunID); !slices.Equal(got, []string{"use tabs"}) {
			t.Errorf("rework was told %q", got)
		}
		l.Stop()
	})
}

// What a session does not hear before its end goes to the next one of the issue, which hears it once.
func TestToldAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		withCLIs(w)
		w.Exec.Hears = 0
		w.Exec.Script = func(_ agents.Job, n int) Script {
			return Script{Takes: 5 * time.Minute, Outcome: agents.Outcome{Result: agents.Failed, Reason: "boom", Claimed: true}}
		}
		l, n := w.Start(), w.Forge.Issue("one")
		w.Until(time.Minute, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		id := w.Forge.Command(n, "johba", "/disinto tell use tabs")
		w.untilTold(n, id, "told "+w.run().Job.Agent+", which hears it after its next finished tool call")
		w.untilTold(n, id, "ended before it heard this: the next session on it does")
		w.Exec.Hears = time.Second
		w.Until(time.Hour, "another session", func() bool { return len(w.Exec.Runs()) == 2 })
		w.untilTold(n, id, "heard by "+w.run().Job.Agent)
		if got := w.Exec.Inbox(w.run().Job.RunID); !slices.Equal(got, []string{"use tabs"}) {
			t.Errorf("the next session was told %q", got)
		}
		w.Until(3*time.Hour, "a third session", func() bool { return len(w.Exec.Runs()) == 3 })
		time.Sleep(time.Minute)
		if got := w.Exec.Inbox(w.run().Job.RunID); len(got) > 0 {
			t.Errorf("it was told again: %q", got)
		}
		l.Stop()
	})
}

// A program that reads its inbox itself has it at once.
func TestToldProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		idle(w)
		l, n := w.Start(), w.Forge.Issue("one")
		w.Until(time.Minute, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		w.untilTold(n, w.Forge.Command(n, "johba", "/disinto tell use tabs"), "in the inbox of "+w.run().Job.Agent+", ")
		if got := variable(w.run().Job, "DISINTO_INBOX"); !strings.HasSuffix(got, w.run().Job.RunID+".inbox") {
			t.Errorf("got DISINTO_INBOX=%s", got)
		}
		l.Stop()
	})
}

// However a supervisor is killed, also before and after each record of the journal, a session that outlives it is told
// each message once, and its author knows.
func TestToldAndKilled(t *testing.T) {
	before := 0 // records before the command
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		withCLIs(w)
		w.Outlive()
		l := w.Start(func(l *Life) { l.Meters.Synced = func(time.Duration) { before++ } })
		w.Forge.Issue("one")
		time.Sleep(4 * time.Minute)
		l.Kill()
		l.Bury()
		w.Shims.End()
		time.Sleep(time.Minute)
	})
	for call, calls := range map[string]int{"take": 1, "tell": 1, "keep": 2, "synced": 5} {
		for n := 1; n <= calls; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/after=%v", call, n, after), func(t *testing.T) {
					nth := n
					if call == "synced" {
						nth += before
					}
					synctest.Test(t, func(t *testing.T) { toldAndKilled(t, call, nth, after) })
				})
			}
		}
	}
}

func toldAndKilled(t *testing.T, call string, n int, after bool) {
	w := New(t)
	withCLIs(w)
	w.Outlive()
	l := w.Start(KillAt(call, n, after))
	issue := w.Forge.Issue("one")
	time.Sleep(4 * time.Minute)
	id := w.Forge.Command(issue, "johba", "/disinto tell use tabs")
	select {
	case <-l.Killed:
		l.Bury()
	case <-time.After(20 * time.Minute):
		t.Fatalf("%s was called fewer than %d times", call, n)
	}
	l = w.Start()
	interrupted := false
	w.Until(10*time.Minute, "an answer", func() bool {
		interrupted = strings.Contains(w.toldTo(issue, id), "does not repeat it")
		return interrupted || strings.Contains(w.toldTo(issue, id), "heard by ")
	})
	got := w.Exec.Inbox(w.Exec.Runs()[0].Job.RunID)
	if want := []string{"use tabs"}; !interrupted && !slices.Equal(got, want) || interrupted && len(got) > 0 {
		t.Errorf("got the inbox %q and the answer %s", got, w.toldTo(issue, id))
	}
	if len(w.Exec.Runs()) != 1 {
		t.Errorf("got %d runs", len(w.Exec.Runs()))
	}
	l.Stop()
	w.Shims.End()
	time.Sleep(time.Minute)
}
