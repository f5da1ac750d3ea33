package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/logtime"
	"codeberg.org/johba/disinto/supervisor/control"
)

// lastLog returns a state directory that a supervisor left, with one session's log.
func lastLog(t *testing.T, text string) (state, path string) {
	t.Helper()
	state = t.TempDir()
	path = filepath.Join(state, "logs", "dev-qwen", "r1.log")
	journal := `{"at":"2026-01-01T10:00:00Z","start":{"run":"r1","thread":"llama","agent":"dev-qwen","login":"q","role":"dev",` +
		`"item":{"kind":"issue","ref":"johba/harb#17"},"chain":"johba/harb#17","attempt":1}}` + "\n"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{path: text, filepath.Join(state, "journal.jsonl"): journal} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return state, path
}

// Without a supervisor, logs prints the log on disk without secrets. -f does not wait, because nothing will follow.
func TestLogsWithoutSupervisor(t *testing.T) {
	state, path := lastLog(t, "\x1b[1mI am 0123456789abcdef\n")
	config := factoryFile(t, `[forge]
url = "http://forge"
token = "$FORGE_TOKEN"
repos = ["johba/harb"]
[threads.llama]
backend = "anthropic"
agents = ["dev-qwen"]
`)
	environ := []string{"FORGE_TOKEN=0123456789abcdef"}
	for _, args := range [][]string{{"dev-qwen"}, {"17"}, {"johba/harb#17", "-f"}} {
		got := disinto(t.Context(), environ, append([]string{"logs", "--state", state, "--config", config}, args...)...)
		// In a pipe, escape sequences stay.
		if got.code != exitDone || got.stdout != "\x1b[1mI am [secret]\n" || got.stderr != "" {
			t.Errorf("%v: got exit code %d, stdout %q, stderr %q", args, got.code, got.stdout, got.stderr)
		}
	}
	times := logtime.Open(path, 0)
	times.Add(0, time.Now().UTC())
	times.Close()
	got := disinto(t.Context(), environ, "logs", "17", "--times", "--state", state, "--config", config)
	if !regexp.MustCompile(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ \x1b\[1mI am \[secret\]\n$`).MatchString(got.stdout) {
		t.Errorf("with --times in a pipe: got %q", got.stdout)
	}
	for _, flag := range []string{"--times=false", "--lines=9"} {
		terminal, screen := pseudoTerminal(t, 80)
		c, person := testCLI(environ), reading(screen)
		c.stdout = terminal
		if code := c.run(t.Context(), []string{"logs", "17", flag, "--state", state, "--config", config}); code != exitDone {
			t.Errorf("on a terminal: got exit code %d", code)
		}
		person.sees(t, "I am [secret]\r\n")
		if got := regexp.MustCompile(`\d\d:\d\d:\d\d I am`).MatchString(person.text()); got != (flag != "--times=false") {
			t.Errorf("on a terminal with %s: got %q", flag, person.text())
		}
	}
	got = disinto(t.Context(), nil, "logs", "17", "--state", state, "--config", config)
	want := "disinto: cannot show " + path + ": without a valid configuration its secrets cannot be redacted: " +
		config + ":3: forge.token: $FORGE_TOKEN is not set\n"
	if got.code != exitFailed || got.stdout != "" || got.stderr != want {
		t.Errorf("without the secrets: got exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	got = disinto(t.Context(), environ, "logs", "18", "--state", state, "--config", config)
	if got.code != exitFailed || !strings.HasPrefix(got.stderr, "disinto: cannot find a log of 18: ") {
		t.Errorf("without a log: got exit code %d, stderr %q", got.code, got.stderr)
	}
}

// logs queries a running supervisor, because the supervisor knows all secrets and when the session ends.
func TestLogs(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{
		"/v1/log?of=dev-qwen":                                        "so it was\n",
		"/v1/log?follow=1&heads=1&of=johba%2Fharb%2317":              "so it is\n",
		"/v1/log?heads=1&lines=5&of=17&session=ab":                   "so it ended\n",
		"/v1/log?heads=1&of=dev-qwen&since=2026-11-02T12%3A00%3A00Z": "so it went\n",
	})
	for _, tt := range []struct{ args, want string }{
		{"dev-qwen", "so it was\n"},
		{"johba/harb#17 --follow", "so it is\n"},
		{"17 -n 5 --session ab", "so it ended\n"},
		{"dev-qwen --since 1d", "so it went\n"},
	} {
		got := disinto(t.Context(), nil, append([]string{"logs", "--state", state}, strings.Fields(tt.args)...)...)
		if got.code != exitDone || got.stdout != tt.want {
			t.Errorf("%s: got exit code %d, stdout %q, stderr %q", tt.args, got.code, got.stdout, got.stderr)
		}
	}
	if got := disinto(t.Context(), nil, "logs", "x", "--state", state); got.code != exitFailed ||
		!strings.Contains(got.stderr, "nobody knows it") {
		t.Errorf("without a log: got exit code %d, stderr %q", got.code, got.stderr)
	}
}

// A log that breaks off is an error, not the end of the log.
func TestLogBreaksOff(t *testing.T) {
	state := brokenSupervisor(t)
	var out bytes.Buffer
	err := control.NewClient(state).Copy(t.Context(), "/v1/log?of=1", &out)
	if err == nil || !strings.HasPrefix(err.Error(), "cannot follow the log: ") || out.String() != "half" {
		t.Errorf("got error %v after %q", err, out.String())
	}
}

// brokenSupervisor breaks off each answer.
func brokenSupervisor(t *testing.T) (state string) {
	t.Helper()
	return serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8")
		_, _ = w.Write([]byte("half"))
	}))
}
