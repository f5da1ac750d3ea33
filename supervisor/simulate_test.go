package supervisor_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// A simulation gets what the journal remembers of the days that are asked for, runs alone, and ends after ten seconds.
func TestSimulateOne(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		ask := func(body string) (int, string) {
			answer := httptest.NewRecorder()
			l.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "/v1/simulate", strings.NewReader(body)))
			return answer.Code, answer.Body.String()
		}
		if code, text := ask(`{}`); code != 404 || !strings.Contains(text, "no simulator") {
			t.Errorf("without a simulator: %d %s", code, text)
		}
		w.Forge.Issue("one")
		w.Until(6*time.Hour, "it is merged", w.Forge.Done)
		time.Sleep(25 * time.Hour)
		w.Forge.Issue("two")
		w.Until(6*time.Hour, "that, too", w.Forge.Done)
		var got supervisor.WhatIf
		l.Simulate = func(_ context.Context, q supervisor.WhatIf) (*control.Simulation, error) {
			got = q
			return &control.Simulation{Days: q.Ask.Days}, nil
		}
		if code, text := ask(`{}`); code != 200 || !strings.Contains(text, `"days":7`) || len(got.Past) != 4 ||
			len(got.Timeline.Merges) != 2 {
			t.Errorf("a week: %d %s of %d sessions and %d merges", code, text, len(got.Past), len(got.Timeline.Merges))
		}
		if code, _ := ask(`{"days":1,"slots":{"llama":2}}`); code != 200 || len(got.Past) != 2 ||
			got.Ask.Slots["llama"] != 2 || got.Config != w.Config {
			t.Errorf("a day: %d, %+v", code, got.Ask)
		}
		for _, body := range []string{`{"days":31}`, `{"days":-1}`, `{"without":"dev-qwen"}`, `{"slot":1}`} {
			if code, text := ask(body); code != 400 {
				t.Errorf("%s: %d %s", body, code, text)
			}
		}
		took, ended := time.Now(), make(chan error)
		l.Simulate = func(ctx context.Context, _ supervisor.WhatIf) (*control.Simulation, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		go func() {
			code, _ := ask(`{}`)
			ended <- map[int]error{503: nil, 200: errors.New("answered")}[code]
		}()
		synctest.Wait()
		if code, text := ask(`{}`); code != 503 || !strings.Contains(text, "another simulation runs") {
			t.Errorf("a second one: %d %s", code, text)
		}
		if err := <-ended; err != nil || time.Since(took) != 10*time.Second {
			t.Errorf("it took %s: %v", time.Since(took), err)
		}
		l.Simulate = func(context.Context, supervisor.WhatIf) (*control.Simulation, error) { return nil, nil }
		if code, _ := ask(`{}`); code != 200 {
			t.Errorf("the next one: %d", code)
		}
	})
}
