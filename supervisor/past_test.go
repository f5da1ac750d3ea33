package supervisor_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// The answer of a past time has the same heading as one of now, and says that an item was merged.
func TestWhyAtHeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		l := w.Start()
		ask := func(said, at string) (ex threads.Explanation) {
			t.Helper()
			rec := httptest.NewRecorder()
			query := url.Values{"ref": {said}, "at": {at}}
			l.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/v1/why?"+query.Encode(), nil))
			if err := json.Unmarshal(rec.Body.Bytes(), &ex); err != nil || rec.Code != 200 {
				t.Fatalf("why %s at %s: %v in the answer %s", said, at, err, rec.Body)
			}
			return ex
		}
		time.Sleep(time.Minute)
		early := time.Now().Format(time.RFC3339)
		w.Until(6*time.Hour, "it is merged", w.Forge.Done)
		time.Sleep(10 * time.Minute)
		late := time.Now().Format(time.RFC3339)
		time.Sleep(time.Minute)
		for _, x := range []struct {
			said, at    string
			kind        agents.Kind
			title, says string
		}{
			{"1", early, agents.KindIssue, "one", "works on it"},
			{"1", late, agents.KindIssue, "one", "merged "},
			{"llama", early, "thread", "local, 2 slots", "sessions running"},
			{"dev-coder", late, "agent", "dev on llama", "idle"},
		} {
			ex := ask(x.said, x.at)
			if ex.Kind != x.kind || ex.Title != x.title || !strings.Contains(ex.Verdict, x.says) {
				t.Errorf("%s at %s: got %s, %q, %q, want %s, %q, %q", x.said, x.at, ex.Kind, ex.Title, ex.Verdict, x.kind,
					x.title, x.says)
			}
		}
		l.Stop()
	})
}

// The status says what ended today, what each ended session was about, and since when everything is paused.
func TestStatusOfTheDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(6*time.Hour, "it is merged", w.Forge.Done)
		d := l.Document()
		if d.Today.Merged != 1 || d.Today.Sessions != len(d.Recent) || d.Today.Failed != 0 {
			t.Errorf("today: got %+v, want 1 merge and the %d sessions", d.Today, len(d.Recent))
		}
		for _, r := range d.Recent {
			if !strings.Contains(r.Title, "one") {
				t.Errorf("got the title %q, want that of the item", r.Title)
			}
		}
		if !d.PausedAt.IsZero() {
			t.Errorf("paused at %s, want never", d.PausedAt)
		}
		rec := httptest.NewRecorder()
		l.Handler().ServeHTTP(rec, httptest.NewRequest("POST", "/v1/pause", strings.NewReader("{}")))
		if d := l.Document(); !d.Paused || !d.PausedAt.Equal(time.Now()) {
			t.Errorf("paused %t at %s, want now", d.Paused, d.PausedAt)
		}
		time.Sleep(24 * time.Hour)
		if d := l.Document(); d.Today.Sessions != 0 || d.Today.Merged != 0 {
			t.Errorf("a day later: got %+v, want none", d.Today)
		}
		l.Stop()
	})
}
