package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

var update = supervisor.Update

// golden fails the test if a text differs from its file in any byte.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// Programs read these documents: no field may change its name, place or form. Each file has the document twice: with
// every field filled, and empty, which shows which fields are omitted.
func TestDocuments(t *testing.T) {
	for name, document := range map[string]any{
		"state":          control.Document{},
		"report":         control.Report{},
		"sling":          control.SlingReport{},
		"convoys":        control.Convoys{},
		"why":            threads.Explanation{},
		"fleet":          fleet.Status{},
		"fleet-file":     fleet.Document{},
		"fleet-export":   fleet.Export{},
		"event-session":  control.SessionDocument{},
		"event-ended":    control.RecentDocument{},
		"event-held":     control.QueueDocument{},
		"event-ref":      control.RefData{},
		"life":           control.ItemDocument{},
		"history":        control.HistoryDocument{},
		"record":         control.RecordDocument{},
		"ask-item":       control.ItemRequest{},
		"ask-pause":      control.PauseRequest{},
		"ask-service":    control.ServiceRequest{},
		"ask-sling":      control.SlingRequest{},
		"ask-convoy":     control.ConvoyRequest{},
		"ask-cancel":     control.ConvoyCancelRequest{},
		"ask-rebalance":  control.RebalanceRequest{},
		"ask-upgrade":    control.UpgradeRequest{},
		"forecast":       control.Forecast{},
		"fleet-cycle":    fleet.Cycle{},
		"fleet-one-host": fleet.HostStatus{},
	} {
		filled := reflect.New(reflect.TypeOf(document)).Elem()
		n := 0
		fill(filled, name, &n)
		var text bytes.Buffer
		for _, v := range []any{filled.Interface(), document} {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Indent(&text, raw, "", " "); err != nil {
				t.Fatal(err)
			}
			text.WriteByte('\n')
		}
		golden(t, "documents/"+name+".json", text.Bytes())
	}
}

// fill gives every field a different value; a text gets its field's name.
func fill(v reflect.Value, name string, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), name, n)
		fill(v.Index(1), name, n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name, n)
		fill(value, name, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2030, 1, 2, 3, 4, *n, 500e6, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i), f.Name, n)
			}
		}
	default:
		panic("no value for a " + v.Type().String())
	}
}

// transcript records each request to a supervisor and its answer, without the fields that differ from run to run.
type transcript struct {
	t    *testing.T
	l    *simtest.Life
	text strings.Builder
}

// ask makes a request one second after the last one, so that everything that the last one started has ended.
func (s *transcript) ask(method, path, body string) {
	time.Sleep(time.Second)
	w := httptest.NewRecorder()
	s.l.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	fmt.Fprintf(&s.text, "%s %s %s\n", method, path, body)
	s.answer(w, w.Body.String())
}

func (s *transcript) answer(w *httptest.ResponseRecorder, body string) {
	fmt.Fprintf(&s.text, "%d %s\n%s\n", w.Code, w.Header().Get("Content-Type"), s.steady(body))
}

var (
	runWord = regexp.MustCompile(`"run(_id)?":"[^"]*"`)
	pidWord = regexp.MustCompile(`"pid":\d+`)
	logWord = regexp.MustCompile(`/logs/([a-z-]+)/[^"]*\.log`)
	seconds = regexp.MustCompile(`(T\d\d:\d\d):[\d.]+Z`) // they show which of two goroutines asked the forge first
	counted = regexp.MustCompile(`"requests":\d+`)
	hashed  = regexp.MustCompile(`"receipt":"[0-9a-f]{64}"`)
	lasted  = regexp.MustCompile(`"(minutes|busy)":[\d.]+`)
)

func (s *transcript) steady(text string) string {
	text = runWord.ReplaceAllString(text, `"run$1":"RUN"`)
	text = pidWord.ReplaceAllString(text, `"pid":1`)
	text = logWord.ReplaceAllString(text, "/logs/$1/RUN.log")
	text = seconds.ReplaceAllString(text, "${1}:00Z")
	text = lasted.ReplaceAllString(text, `"$1":1`)
	text = hashed.ReplaceAllString(text, `"receipt":"SHA256"`)
	text = counted.ReplaceAllString(text, `"requests":1`)
	return strings.ReplaceAll(text, s.l.StateDir, "STATE")
}

// firsts returns the first event of each type: this test does not check their number and order.
func firsts(stream string) string {
	var kept strings.Builder
	for _, e := range strings.SplitAfter(stream, "\n\n") {
		kind, _, _ := strings.Cut(e, "\n")
		if !strings.Contains(kept.String(), kind+"\n") {
			kept.WriteString(e)
		}
	}
	return kept.String()
}

// The control API's answers, from the first moment of a factory to an issue that was cancelled, retried and merged.
func TestAnswers(t *testing.T) {
	skilled := func(w *simtest.World) {
		w.Config.Agent("dev-qwen").Skills = []string{"go"}
		w.Exec.Script = func(job agents.Job, n int) simtest.Script { // two that end at once open either pull request first
			s := w.Work(job, n)
			if job.Agent == "dev-qwen" {
				s.Takes += time.Minute
			}
			return s
		}
	}
	quiet(t, skilled, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		s := &transcript{t: t, l: l}
		ctx, hangUp := context.WithCancel(t.Context())
		heard, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			l.Handler().ServeHTTP(heard, httptest.NewRequestWithContext(ctx, "GET", "/v1/events", nil))
		}()
		s.ask("GET", "/healthz", "")
		s.ask("GET", "/v1/state", "")
		w.Forge.Issue("one")
		w.Forge.Issue("two", 1)
		s.ask("POST", "/v1/sling", `{"ref":"2"}`)
		s.ask("POST", "/v1/sling", `{"ref":"1"}`)
		s.ask("GET", "/v1/why?ref=2", "")
		s.ask("POST", "/v1/pause", `{"name":"llama"}`)
		s.ask("GET", "/v1/state", "")
		s.ask("GET", "/v1/fleet", "")
		s.refusals()
		s.ask("POST", "/v1/cancel", `{"ref":"1"}`)
		s.ask("POST", "/v1/cancel", `{"ref":"1"}`)
		s.ask("POST", "/v1/resume", `{}`)
		s.ask("POST", "/v1/resume", `{"name":"llama"}`)
		s.ask("POST", "/v1/release", `{"ref":"1"}`)
		s.ask("POST", "/v1/retry", `{"ref":"1"}`)
		s.convoy()
		w.Until(6*time.Hour, "the first is merged", func() bool { return w.Forge.Get(1).Closed })
		s.ask("POST", "/v1/retry", `{"ref":"2"}`)
		w.Until(6*time.Hour, "all are merged", func() bool { return w.Forge.Get(2).Closed && w.Forge.Get(3).Closed })
		time.Sleep(time.Minute)
		s.ask("GET", "/v1/state", "")
		s.ask("GET", "/v1/convoys?ref=5", "")
		for _, path := range []string{
			"/v1/why?ref=2", "/v1/why?ref=llama", "/v1/why?ref=dev-qwen", "/v1/show?ref=2", "/v1/show?ref=99",
			"/v1/history?agent=dev-qwen", "/v1/history?since=yesterday",
			"/v1/history?outcome=mood", "/v1/report?by=agent&by=day",
			"/v1/report?since=1d", "/v1/report?thread=llama", "/v1/report?by=mood", "/v1/report?since=long",
		} {
			s.ask("GET", path, "")
		}
		hangUp()
		<-done
		s.text.WriteString("GET /v1/events\n")
		s.answer(heard, firsts(heard.Body.String()))
		// At the same moment the issue waits for its cancelled blocker and is labelled: the first scan may show either.
		text := strings.ReplaceAll(s.text.String(), `"a person","code":"blocker-cancelled"`, `"a person","code":"label"`)
		golden(t, "documents/answers.txt", []byte(text))
	})
}

// convoy creates a convoy of existing issues, and one of issues that it files.
func (s *transcript) convoy() {
	s.ask("POST", "/v1/sling", `{"title":"three","body":"text","skills":["go"],"depends_on":["1"]}`)
	s.ask("POST", "/v1/convoy", `{"title":"all","members":["1","3"],"staged":true}`)
	s.ask("POST", "/v1/convoy", `{"plan":{"Title":"more","Tasks":[{"ID":"a","Title":"four"}]}}`)
	s.ask("GET", "/v1/convoys", "")
	s.ask("POST", "/v1/convoy/start", `{"ref":"4"}`)
	s.ask("POST", "/v1/convoy/start", `{"ref":"4"}`)
	s.ask("GET", "/v1/convoys?ref=4", "")
	s.ask("POST", "/v1/convoy/cancel", `{"ref":"6"}`)
}

// refusals makes requests that are refused.
func (s *transcript) refusals() {
	for _, asked := range [][2]string{
		{"/v1/sling", `{}`},
		{"/v1/sling", `{"ref":"1","title":"x"}`},
		{"/v1/sling", `{"ref":"99"}`},
		{"/v1/sling", `{"ref":"a/b#1"}`},
		{"/v1/sling", `{"ref":"one"}`},
		{"/v1/sling", `{"title":"x","role":"nobody"}`},
		{"/v1/pause", `{"name":"nobody"}`},
		{"/v1/resume", `{"name":"nobody"}`},
		{"/v1/cancel", `{"nam":"x"}`},
		{"/v1/cancel", `{"ref"`},
		{"/v1/retry", `{"ref":"99"}`},
		{"/v1/release", `{"ref":"99"}`},
		{"/v1/convoy", `{}`},
		{"/v1/convoy/start", `{"ref":"1"}`},
		{"/v1/convoy/cancel", `{"ref":"1"}`},
		{"/v1/fleet/rebalance", `{}`},
		{"/v1/fleet/rebalance", `{"dry_run":true}`},
	} {
		s.ask("POST", asked[0], asked[1])
	}
	for _, path := range []string{
		"/v1/why?ref=one", "/v1/why?ref=99", "/v1/log?of=nobody", "/v1/log?of=99", "/v1/convoys?ref=1",
		"/v1/nothing", "/v1/sling",
	} {
		s.ask("GET", path, "")
	}
}
