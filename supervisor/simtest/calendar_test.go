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
		if log := w.Log.String(); !strings.Contains(log, "this run serves 1 time after that too") {
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
