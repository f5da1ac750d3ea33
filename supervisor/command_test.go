package supervisor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// tell sends a command over the control API and returns its answer as one line.
func tell(t *testing.T, l *simtest.Life, path, body string) string {
	t.Helper()
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
	if w.Code != 200 {
		var no struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &no); err != nil {
			t.Errorf("%s: %v in the answer %s", path, err, w.Body)
		}
		return fmt.Sprint(w.Code, " ", no.Error)
	}
	var r control.Report
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Errorf("%s: %v in the answer %s", path, err, w.Body)
	}
	line := r.Subject + ": " + strings.Join(r.Did, ", ")
	if r.Note != "" {
		line += " (" + r.Note + ")"
	}
	if r.Pending != "" {
		line += " [" + r.Pending + "]"
	}
	return line
}

// told fails the test if a command's answer is not want.
func told(t *testing.T, l *simtest.Life, path, body, want string) {
	t.Helper()
	if got := tell(t, l, path, body); got != want {
		t.Errorf("%s %s: got %q, want %q", path, body, got, want)
	}
}

// held returns the waiting items with their codes.
func held(l *simtest.Life) string {
	var codes []string
	for _, q := range l.Document().Queue {
		codes = append(codes, fmt.Sprintf("#%d %s", q.Number, q.Code))
	}
	return strings.Join(codes, ", ")
}

func wantHeld(t *testing.T, l *simtest.Life, want string) {
	t.Helper()
	if got := held(l); got != want {
		t.Errorf("got held %q, want %q", got, want)
	}
}

// wantReplay fails the test if a restart would change the ledger.
func wantReplay(t *testing.T, l *simtest.Life) {
	t.Helper()
	if diff, err := l.ReplayDiff(); diff != "" || err != nil {
		t.Errorf("ReplayDiff returned %v, and a restart would change the ledger:\n%s", err, diff)
	}
}

// A paused thread starts nothing, even after a restart; running sessions continue; resume starts the thread at once.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		l := w.Start()
		time.Sleep(time.Second)
		w.Forge.Issue("one")
		w.Until(4*time.Minute, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		told(t, l, "/v1/pause", `{"name":"llama"}`, "llama: paused")
		told(t, l, "/v1/pause", `{"name":"llama"}`, "llama:  (paused already)")
		w.Forge.Issue("two")
		time.Sleep(30 * time.Minute)
		// The running session continued, and its pull request was reviewed on the other thread and merged.
		if n := len(w.Exec.RunsOf(agents.KindIssue, 2)); n != 0 || !w.Forge.Get(1).Closed {
			t.Errorf("got %d sessions on a paused thread, want 0, and #1 closed: %+v", n, w.Forge.Get(1))
		}
		wantHeld(t, l, "#2 paused")
		if d := l.Document(); d.Paused || d.Threads[0].Paused || !d.Threads[1].Paused {
			t.Errorf("got paused %v, threads %+v, want only llama paused", d.Paused, d.Threads)
		}
		told(t, l, "/v1/pause", `{"name":"dev-coder","by":"ada","why":"edits the lock file"}`, "dev-coder: paused")
		said := time.Now().UTC().Format(time.RFC3339)
		told(t, l, "/v1/pause", `{}`, "everything: paused")
		told(t, l, "/v1/resume", `{"name":"llama"}`, "llama: resumed (everything is still paused: use disinto resume)")
		told(t, l, "/v1/pause", `{"name":"nobody"}`, "404 cannot pause nobody: no thread, agent or repository has that name")
		told(t, l, "/v1/pause", `{"name":"lama"}`,
			"404 cannot pause lama: no thread, agent or repository has that name, did you mean llama?")
		told(t, l, "/v1/pause", `{"name":"dev_codr"}`,
			"404 cannot pause dev_codr: no thread, agent or repository has that name, did you mean dev-coder?")
		told(t, l, "/v1/pause", `{"nam":"llama"}`, `400 cannot read the command: unknown field "nam"`)
		told(t, l, "/v1/pause", `{"name":`, `400 cannot read the command: unexpected EOF`)
		l.Stop()
		l = w.Start()
		time.Sleep(time.Hour)
		d := l.Document()
		why := "dev-coder is paused by ada since " + said + ": edits the lock file"
		if !d.Paused || !d.Threads[1].Paused || d.Agents[0].Why != why || d.Agents[1].Why != "" {
			t.Errorf("after a restart: got paused %v, threads %+v, agents %+v", d.Paused, d.Threads, d.Agents)
		}
		if n := len(w.Exec.Runs()); n != 2 {
			t.Errorf("got %d sessions while everything was paused, want 2", n)
		}
		began := time.Now()
		told(t, l, "/v1/resume", ``, "everything: resumed, agent dev-coder resumed")
		told(t, l, "/v1/resume", `{"name":"llama"}`, "llama:  (not paused)")
		told(t, l, "/v1/resume", `{"name":"nobody"}`, "404 cannot resume nobody: no thread, agent or repository has that name")
		w.Until(2*time.Second, "the session", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 2)) == 1 })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the session started %s after resume, want at most 2 s", took)
		}
		wantReplay(t, l)
		l.Stop()
		w.Check()
	})
}

// A paused repository starts nothing, even after a restart, and the status says so.
func TestPauseRepo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		l := w.Start()
		time.Sleep(time.Second)
		told(t, l, "/v1/pause", `{"name":"Johba/Harb"}`, "Johba/Harb: paused")
		told(t, l, "/v1/pause", `{"name":"johba/harb"}`, "johba/harb:  (paused already)")
		told(t, l, "/v1/pause", `{"name":"johba/hrb"}`,
			"404 cannot pause johba/hrb: no thread, agent or repository has that name, did you mean johba/harb?")
		w.Forge.Issue("one")
		paused := time.Now()
		l.Stop()
		l = w.Start()
		time.Sleep(time.Hour)
		wantHeld(t, l, "#1 paused")
		if d := l.Document(); d.Paused || len(d.Repos) != 1 || !d.Repos[0].Paused || d.Repos[0].PausedAt.After(paused) {
			t.Errorf("got paused %v, repositories %+v, want only johba/harb paused", d.Paused, d.Repos)
		}
		if n := len(w.Exec.RunsOf(agents.KindIssue, 1)); n != 0 {
			t.Errorf("got %d sessions in a paused repository, want 0", n)
		}
		told(t, l, "/v1/resume", `{"name":"johba/HARB"}`, "johba/HARB: resumed")
		w.Until(2*time.Second, "the session", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 1)) == 1 })
		wantReplay(t, l)
		l.Stop()
	})
}

// A pause that cannot be journalled is refused.
func TestPauseIsWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		l := w.Start()
		time.Sleep(time.Second)
		empty := l.FillDisk(t)
		if got := tell(t, l, "/v1/pause", `{}`); !strings.HasPrefix(got, "503 cannot write the journal") ||
			l.Document().Paused {
			t.Errorf("a pause on a full disk: got %q, paused %v, want a refusal", got, l.Document().Paused)
		}
		empty()
		told(t, l, "/v1/pause", `{}`, "everything: paused")
		l.Stop()
	})
}

// A command waits for the start of Run, and is refused without it, without a configuration, and after Run.
func TestCommandNotNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		s := &supervisor.Supervisor{Config: w.Config}
		if got := tell(t, &simtest.Life{Supervisor: s}, "/v1/pause",
			`{}`); got != "503 not now: the supervisor is still starting" {
			t.Errorf("before Run: got %q", got)
		}
		starting := w.Start()
		told(t, starting, "/v1/pause", `{}`, "everything: paused")
		starting.Stop()
		l := w.Start(func(l *simtest.Life) { l.Config, l.Forge = nil, nil })
		time.Sleep(time.Second)
		if got := tell(t, l, "/v1/pause", `{}`); got != "503 not now: there is no valid configuration" {
			t.Errorf("without a configuration: got %q", got)
		}
		l.Stop()
		if got := tell(t, l, "/v1/pause", `{}`); got != "503 not now: the supervisor stops" {
			t.Errorf("after Run: got %q", got)
		}
	})
}

// request is a cancel, for discard.
func request(body string) *http.Request {
	return httptest.NewRequest("POST", "/v1/cancel", strings.NewReader(body))
}

// discard ignores an answer.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
