package simtest

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A role runs at its times, once for all times that no supervisor ran, and when a person asks for it. Virtual time
// begins at midnight UTC.
func TestCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		nightly, err := agents.NewCalendar("0 3 * * *", "UTC", 0)
		if err != nil {
			t.Fatal(err)
		}
		w.Config.Agents[1].Roles = append(w.Config.Agents[1].Roles, "planner")
		w.Config.Roles = append(w.Config.Roles, agents.Role{
			Name: "planner", On: agents.OnSchedule, Calendar: nightly, Priority: 5, Command: []string{"plan"},
			Timeout: time.Hour, Stall: time.Hour,
		})
		l := w.Start()
		runs := func() (hours []string) {
			for _, r := range w.Exec.RunsOf(agents.KindSchedule, 0) {
				hours = append(hours, r.Begin.UTC().Format("2 15h"))
			}
			return hours
		}
		want := func(hours string) {
			t.Helper()
			if got := strings.Join(runs(), ", "); got != hours {
				t.Errorf("the role ran at %q, want %q", got, hours)
			}
		}
		day := func(hours time.Duration) { time.Sleep(hours * time.Hour) }
		day(2)
		want("")
		day(26)
		want("1 03h, 2 03h")
		l.Stop()
		day(56)
		l = w.Start()
		day(1)
		want("1 03h, 2 03h, 4 12h")
		if log := w.Log.String(); !strings.Contains(log, "missed since then: 1 more run") {
			t.Errorf("no line about the missed run in\n%s", log)
		}
		answer := httptest.NewRecorder()
		l.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "/v1/sling", strings.NewReader(`{"ref":"planner"}`)))
		if !strings.Contains(answer.Body.String(), `"role":"planner"`) {
			t.Errorf("run now: got %d %s", answer.Code, answer.Body)
		}
		day(1)
		want("1 03h, 2 03h, 4 12h, 4 13h")
		day(20)
		want("1 03h, 2 03h, 4 12h, 4 13h, 5 03h")
		l.Stop()
		w.Check()
	})
}

// A role that fails five times in a row needs a person, and rests longer each time.
func TestFailingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Agents[1].Roles = append(w.Config.Agents[1].Roles, "sweeper")
		w.Config.Roles = append(w.Config.Roles, agents.Role{
			Name: "sweeper", On: agents.OnSchedule, Every: 5 * time.Minute, Priority: 5, Command: []string{"sweep"},
			Timeout: time.Hour, Stall: time.Hour,
		})
		broken := true
		w.Exec.Script = func(job agents.Job, n int) Script {
			if s := w.Work(job, n); job.Kind != agents.KindSchedule || !broken {
				return s
			}
			return Script{Outcome: agents.Outcome{Result: agents.Failed, Reason: "no broom"}}
		}
		l := w.Start()
		alarms := func() (all string) {
			for _, a := range l.Document().Alarms {
				all += a.Words
			}
			return all
		}
		time.Sleep(2 * time.Hour)
		if n, got := len(w.Exec.RunsOf(agents.KindSchedule, 0)), alarms(); n != 4 || got != "" {
			t.Errorf("after two hours: got %d runs, alarms %q, want 4 and none", n, got)
		}
		time.Sleep(time.Hour)
		const want = "sweeper on johba/harb failed 5 times in a row, last: no broom: see disinto logs "
		if got := alarms(); !strings.Contains(got, want) {
			t.Errorf("after the fifth failure: got alarms %q, want %q", got, want)
		}
		broken = false
		answer := httptest.NewRecorder()
		l.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "/v1/sling", strings.NewReader(`{"ref":"sweeper"}`)))
		time.Sleep(10 * time.Minute)
		if got := alarms(); got != "" {
			t.Errorf("after a good run: got alarms %q, want none", got)
		}
		l.Stop()
		w.Check()
	})
}
