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

// A forecast goes on from this moment, of the item that is asked about; that of the queue is made when something has
// changed, once a minute, and the status has it.
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
			t.Errorf("of an issue: %d %s", code, text)
		}
		if q := last(asked()); len(q.Refs) != 1 || q.Refs[0] != (forge.Ref{Repo: w.Config.Forge.Repos[0], Number: 1}) {
			t.Errorf("asked for %+v", q.Refs)
		}
		for path, want := range map[string]int{"/v1/forecast?ref=99": 404, "/v1/forecast?ref=x": 400} {
			if code, text := ask(path); code != want {
				t.Errorf("%s: %d %s", path, code, text)
			}
		}
		w.Until(6*time.Hour, "it is merged", w.Forge.Done)
		time.Sleep(3 * time.Minute)
		n, at := len(asked()), l.Document().Forecast.At
		if code, text := ask("/v1/forecast?ref=1"); code != 200 || !strings.Contains(text, `"code":"closed"`) ||
			len(asked()) != n {
			t.Errorf("of a closed issue: %d %s", code, text)
		}
		time.Sleep(9 * time.Minute)
		if n := len(asked()) - n; n != 1 || !l.Document().Forecast.At.After(at) {
			t.Errorf("%d forecasts in nine minutes in which nothing happened", n)
		}
		q := last(asked())
		if len(q.Refs) != 0 || q.Items == 0 || len(q.Past) != 2 || len(q.Timeline.Merges) != 1 {
			t.Errorf("of the queue: %+v", q)
		}
		if code, text := ask("/v1/forecast"); code != 200 || !strings.Contains(text, `"items":[]`) {
			t.Errorf("of the queue: %d %s", code, text)
		}
		l.Stop()
		l = w.Start()
		time.Sleep(time.Minute)
		if code, text := ask("/v1/forecast?ref=1"); code != 404 || !strings.Contains(text, "no forecasts") {
			t.Errorf("without forecasts: %d %s", code, text)
		}
		l.Stop()
		w.Check()
	})
}

func last(list []supervisor.Foresight) supervisor.Foresight { return list[len(list)-1] }
