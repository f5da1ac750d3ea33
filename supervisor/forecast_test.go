package supervisor_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// A forecast of an item starts from the present. The forecast of the queue is made once a minute if something has
// changed, and the status has it.
func TestForecast(t *testing.T) {
	var mu sync.Mutex
	var all []supervisor.Foresight
	asked := func() []supervisor.Foresight {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
	foresee := func(l *simtest.Life) {
		l.Foresee = func(_ context.Context, q supervisor.Foresight) (*control.Forecast, error) {
			f := &control.Forecast{Items: []control.Expected{}}
			q.View(func(s threads.Snapshot) { f.At, f.Runs = s.Now, len(s.Facts.Issues) })
			mu.Lock()
			defer mu.Unlock()
			all = append(all, q)
			return f, nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		hourly(w)
		l := w.Start(foresee)
		ask := func(path string) (int, string) {
			answer := httptest.NewRecorder()
			l.Handler().ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
			return answer.Code, answer.Body.String()
		}
		w.Forge.Issue("one")
		w.Until(time.Hour, "it runs", func() bool { return len(l.Document().Sessions) > 0 })
		if code, text := ask("/v1/forecast?ref=1"); code != 200 || !strings.Contains(text, `"runs":1`) ||
			!strings.Contains(text, `"why":{`) {
			t.Errorf("the forecast of an issue: got %d %s", code, text)
		}
		if q := last(asked()); len(q.Refs) != 1 || q.Refs[0] != (forge.Ref{Repo: w.Config.Forge.Repos[0], Number: 1}) {
			t.Errorf("Foresee got refs %+v, want #1", q.Refs)
		}
		for path, want := range map[string]int{"/v1/forecast?ref=99": 404, "/v1/forecast?ref=x": 400} {
			if code, text := ask(path); code != want {
				t.Errorf("%s: got %d %s, want %d", path, code, text, want)
			}
		}
		w.Until(6*time.Hour, "it is merged", w.Forge.Done)
		time.Sleep(3 * time.Minute)
		n, at := len(asked()), l.Document().Forecast.At
		if code, text := ask("/v1/forecast?ref=1"); code != 200 || !strings.Contains(text, `"code":"closed"`) ||
			len(asked()) != n {
			t.Errorf("the forecast of a closed issue: got %d %s", code, text)
		}
		time.Sleep(9 * time.Minute)
		if n := len(asked()) - n; n != 1 || !l.Document().Forecast.At.After(at) {
			t.Errorf("got %d forecasts in nine minutes without a change, want 1", n)
		}
		q := last(asked())
		if len(q.Refs) != 0 || q.Items == 0 || len(q.Past) != 2 || len(q.Timeline.Merges) != 1 {
			t.Errorf("for the forecast of the queue Foresee got %+v", q)
		}
		if code, text := ask("/v1/forecast"); code != 200 || !strings.Contains(text, `"items":[]`) {
			t.Errorf("the forecast of the queue: got %d %s", code, text)
		}
		l.Stop()
		l = w.Start()
		time.Sleep(time.Minute)
		if code, text := ask("/v1/forecast?ref=1"); code != 404 || !strings.Contains(text, "no forecasts") {
			t.Errorf("without Foresee: got %d %s, want 404", code, text)
		}
		l.Stop()
		w.Check()
	})
}

func last(list []supervisor.Foresight) supervisor.Foresight { return list[len(list)-1] }
