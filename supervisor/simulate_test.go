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

// A simulation gets the journal's sessions of the requested days, runs alone, and is cut after ten seconds.
func TestSimulateOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		hourly(w)
		l := w.Start()
		post := func(path, body string) (int, string) {
			answer := httptest.NewRecorder()
			l.Handler().ServeHTTP(answer, httptest.NewRequest("POST", path, strings.NewReader(body)))
			return answer.Code, answer.Body.String()
		}
		ask := func(body string) (int, string) { return post("/v1/simulate", body) }
		if code, text := ask(`{}`); code != 404 || !strings.Contains(text, "no simulator") {
			t.Errorf("without a simulator: got %d %s, want 404", code, text)
		}
		w.Forge.Issue("one")
		w.Until(6*time.Hour, "it is merged", w.Forge.Done)
		l.Stop()
		time.Sleep(25 * time.Hour)
		l = w.Start()
		w.Forge.Issue("two")
		w.Until(6*time.Hour, "that, too", w.Forge.Done)
		var got supervisor.WhatIf
		l.Simulate = func(_ context.Context, q supervisor.WhatIf) (*control.Simulation, error) {
			got = q
			return &control.Simulation{Days: q.Ask.Days}, nil
		}
		if code, text := ask(`{}`); code != 200 || !strings.Contains(text, `"days":7`) || len(got.Past) != 4 ||
			len(got.Timeline.Merges) != 2 {
			t.Errorf("a week: got %d %s, %d sessions, %d merges", code, text, len(got.Past), len(got.Timeline.Merges))
		}
		if code, _ := ask(`{"days":1,"slots":{"llama":2}}`); code != 200 || len(got.Past) != 2 ||
			got.Ask.Slots["llama"] != 2 || got.Config != w.Config {
			t.Errorf("a day: got %d, request %+v", code, got.Ask)
		}
		for _, body := range []string{`{"days":31}`, `{"days":-1}`, `{"without":"dev-qwen"}`, `{"slot":1}`} {
			if code, text := ask(body); code != 400 {
				t.Errorf("simulate %s: got %d %s, want 400", body, code, text)
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
			t.Errorf("a second simulation: got %d %s, want 503", code, text)
		}
		if err := <-ended; err != nil || time.Since(took) != 10*time.Second {
			t.Errorf("the simulation took %s, want 10 s: %v", time.Since(took), err)
		}
		adviseOne(t, l, post)
		l.Simulate = func(context.Context, supervisor.WhatIf) (*control.Simulation, error) { return nil, nil }
		if code, _ := ask(`{}`); code != 200 {
			t.Errorf("the next simulation: got %d, want 200", code)
		}
		wantReplay(t, l)
		l.Stop()
		w.Check()
	})
}

// adviseOne requests an advice: it gets a month by default, runs alone, and is cut after a minute.
func adviseOne(t *testing.T, l *simtest.Life, post func(path, body string) (int, string)) {
	if code, text := post("/v1/advise", `{}`); code != 404 || !strings.Contains(text, "no simulator") {
		t.Errorf("without a simulator: got %d %s, want 404", code, text)
	}
	var got supervisor.WhatIf
	l.Advise = func(_ context.Context, q supervisor.WhatIf) (*control.Advice, error) {
		got = q
		return &control.Advice{Days: q.Ask.Days}, nil
	}
	if code, text := post("/v1/advise", `{}`); code != 200 || !strings.Contains(text, `"days":30`) ||
		len(got.Past) != 4 || len(got.Facts.Repos) == 0 {
		t.Errorf("a month: got %d %s, %d sessions, facts %+v", code, text, len(got.Past), got.Facts)
	}
	for _, body := range []string{`{"days":31}`, `{"days":-1}`, `{"day":1}`} {
		if code, text := post("/v1/advise", body); code != 400 {
			t.Errorf("advise %s: got %d %s, want 400", body, code, text)
		}
	}
	took, ended := time.Now(), make(chan int)
	l.Advise = func(ctx context.Context, _ supervisor.WhatIf) (*control.Advice, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	go func() {
		code, _ := post("/v1/advise", `{}`)
		ended <- code
	}()
	synctest.Wait()
	if code, text := post("/v1/simulate", `{}`); code != 503 || !strings.Contains(text, "another simulation runs") {
		t.Errorf("a simulation during an advice: got %d %s, want 503", code, text)
	}
	if code := <-ended; code == 200 || time.Since(took) != time.Minute {
		t.Errorf("the advice: got %d after %s, want a refusal after 1 min", code, time.Since(took))
	}
}
