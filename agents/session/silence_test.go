package session

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A CLI that waits in silence for its model is ended a minute after the first probe that found the backend down, also
// on a local thread. While it runs a tool, speaks, or the backend may be up, it is not.
func TestSilentCLI(t *testing.T) {
	const minutes = 10
	answer := `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Hm."}]}}`
	tool := `{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}`
	tests := []struct {
		name  string
		local bool
		down  func(after time.Duration) bool
		says  string
		every time.Duration // between events; 0 means one at the start
		ended time.Duration // 0 means never
	}{
		{"down from the start", true, always, "", 0, probeEvery + downTime},
		{"down on an API", false, always, "", 0, probeEvery + downTime},
		{"up on a local thread", true, never, "", 0, 0},
		{"up on an API", false, never, "", 0, firstAnswer},
		{"up on an API, after an answer", false, never, answer, 0, nextAnswer},
		{
			"down after a while", true, func(at time.Duration) bool { return at > 3*time.Minute }, answer, 0,
			3*time.Minute + probeEvery + downTime,
		},
		{"computes nothing", true, never, answer, 0, probeEvery + idleTime},
		{"restarts", true, func(at time.Duration) bool { return at < 40*time.Second }, answer, 0, 0},
		{"runs a tool", false, always, tool, 0, 0},
		{"speaks", true, always, answer, 10 * time.Second, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{Program: &Program{CLI: "claude", Now: time.Now}, work: work{Local: tt.local}}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				began := time.Now()
				s := r.listen(ctx, cancel, func(context.Context) error {
					switch {
					case tt.down(time.Since(began)):
						return errors.New("refused")
					case tt.name == "computes nothing":
						return errIdle
					}
					return nil
				})
				defer s.timer.Stop()
				said := &report{}
				for end := began.Add(2 * minutes * time.Minute); time.Now().Before(end) && ctx.Err() == nil; {
					if tt.says != "" && (tt.every > 0 || time.Now().Equal(began)) {
						said.add(claude{}, []byte(tt.says), time.Now())
						s.event(said)
					}
					select {
					case <-ctx.Done():
					case <-time.After(max(tt.every, time.Second)):
					}
				}
				if ctx.Err() == nil {
					if tt.ended != 0 {
						t.Errorf("never ended, want after %s", tt.ended)
					}
					return
				}
				if took := time.Since(began); took != tt.ended {
					t.Errorf("ended after %s, want %s: %v", took, tt.ended, context.Cause(ctx))
				}
			})
		})
	}
}

func always(time.Duration) bool { return true }
func never(time.Duration) bool  { return false }

// A CLI is ended soon after its last event, also while it waits for a background task if the agent has handed in its
// answer. An agent without an answer may wait for its tests. The end of a task begins another turn.
func TestLastWord(t *testing.T) {
	tasks := `{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b"}]}`
	result := `{"type":"result","subtype":"success","is_error":false,"result":"I wait."}`
	answer := `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Hm."}]}}`
	tests := []struct {
		name   string
		says   []string
		answer bool
		ended  time.Duration
	}{
		{"nothing in the background", []string{result}, false, lastWord},
		{"tests in the background", []string{tasks, result}, false, lastTask},
		{"a server in the background", []string{tasks, result}, true, lastWord},
		{"another turn", []string{answer, tasks, result, `{"type":"system","subtype":"init"}`}, true, nextAnswer},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := &run{Program: &Program{CLI: "claude", Now: time.Now}, work: work{Workspace: t.TempDir()}}
			if tt.answer {
				if err := os.WriteFile(r.answerPath(), []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s, began, said := r.listen(ctx, cancel, nil), time.Now(), &report{}
			defer s.timer.Stop()
			for _, line := range tt.says {
				said.add(claude{}, []byte(line), time.Now())
				s.event(said)
			}
			<-ctx.Done()
			if took := time.Since(began); took != tt.ended {
				t.Errorf("%s: ended after %s, want %s", tt.name, took, tt.ended)
			}
		})
	}
}

// A backend is down if it refuses or resets connections, or answers with a server's error. One that wants a key, or is
// slow, may be up.
func TestProbe(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string // part of the error; empty means that it may be up
	}{
		{"up", func(http.ResponseWriter, *http.Request) {}, ""},
		{"wants a key", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, ""},
		{"no list of models", http.NotFound, ""},
		{
			"overloaded", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
			"the backend answers 503",
		},
		{"resets", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "the backend does not answer"},
		{"gone", nil, "connection refused"},
	}
	for _, tt := range tests {
		server := httptest.NewServer(tt.answer)
		if tt.answer == nil {
			server.Close()
		}
		for _, c := range []*call{
			{BaseURL: server.URL}, {BaseURL: server.URL + "/v1"}, {environ: []string{"ANTHROPIC_BASE_URL=" + server.URL}},
		} {
			err := c.probe()(t.Context())
			if got := err != nil; got != (tt.want != "") || got && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
			}
		}
		if tt.answer != nil {
			server.Close()
		}
	}
	for answer, want := range map[string]error{
		`[{"id":0,"is_processing":false},{"id":1,"is_processing":false}]`: errIdle,
		`[{"id":0,"is_processing":false},{"id":1,"is_processing":true}]`:  nil,
		`{"error":"slots are off"}`:                                       nil,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(answer))
		}))
		if err := (&call{BaseURL: server.URL, Local: true}).probe()(t.Context()); !errors.Is(err, want) {
			t.Errorf("a server with the slots %s: got %v, want %v", answer, err, want)
		}
		if err := (&call{BaseURL: server.URL}).probe()(t.Context()); err != nil {
			t.Errorf("an API is asked for slots: %v", err)
		}
		server.Close()
	}
	if (&call{environ: []string{"PATH=/bin"}}).probe() != nil {
		t.Error("it probes an address that it does not know")
	}
}

// A run that its silence ended is backend-down, with the words of the probe.
func TestSilenceIsNoAttempt(t *testing.T) {
	r, _ := fakeRun(t, "claude", func(func(string) bool, string) {})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&silentError{"the backend answers 503, and claude retries in silence"})
	_, out := r.runCLI(ctx, &call{Session: newID()}, "do it")
	if out.Result != agents.BackendDown || !strings.HasPrefix(out.Reason, "claude: the backend answers 503") {
		t.Errorf("%+v", out)
	}
}

// TestRealCLIsEndSoon ends every real CLI within two minutes if its backend resets all connections. qwen went on for
// more than five.
func TestRealCLIsEndSoon(t *testing.T) {
	bin := os.Getenv(clisVar)
	if bin == "" {
		t.Skipf("$%s names no folder with the real CLIs: make agents-e2e installs them", clisVar)
	}
	for _, cli := range agents.CLINames() {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				panic(http.ErrAbortHandler)
			}))
			defer server.Close()
			r := realRun(t, cli, bin, server.URL)
			began := time.Now()
			_, err := r.runPrompt(t.Context(), "Do what you are told.")
			if out := r.outcomeOf(err); out.Result != agents.BackendDown {
				t.Errorf("%+v", out)
			}
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("took %s", took)
			} else {
				t.Logf("%v after %s", err, took)
			}
		})
	}
}
