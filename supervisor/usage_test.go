package supervisor_test

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// Two sessions that each reported a cost of 1.7e308 dollars once made the sum infinite, which JSON cannot hold: the
// status was empty until midnight, and the journal could not be compacted.
func TestAbsurdUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			s.Outcome = agents.Outcome{Result: agents.Done, Usage: agents.Usage{
				InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, CostUSD: 1.7e308,
			}}
			return s
		}
		l := w.Start()
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		answer := httptest.NewRecorder()
		l.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/v1/state", nil))
		var d control.Document
		if err := json.Unmarshal(answer.Body.Bytes(), &d); err != nil || answer.Code != 200 || len(d.Agents) == 0 {
			t.Errorf("/v1/state: got %d, %v: %.200s", answer.Code, err, answer.Body)
		}
		for _, a := range d.Agents {
			if a.Spent.Tokens < 0 || a.Spent.USD < 0 || a.Spent.USD > 1e6 {
				t.Errorf("%s: got usage %+v, want at most $1e6", a.Name, a.Spent)
			}
		}
		l.Stop()
		again := w.Start() // the start compacts the journal
		time.Sleep(time.Minute)
		if problems := again.Document().Problems; len(problems) > 0 {
			t.Errorf("after a restart: got problems %q, want none", problems)
		}
		again.Stop()
	})
}
