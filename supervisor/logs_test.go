package supervisor_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// writeLog appends to the log of a session.
func writeLog(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

// A log is followed to the end of its session, and its secrets are redacted, even one that is printed in two pieces.
// Among them is the password of the session's own proxy, also once the session has ended.
func TestLogFollows(t *testing.T) {
	s, w, _ := real(t, t.TempDir(), func(s *supervisor.Supervisor) {
		s.Environ = append(s.Environ, "OPENAI_API_KEY=sk-live-0123")
		for i := range s.Config.Roles {
			s.Config.Roles[i].Sandbox = agents.Sandbox{Mode: agents.SandboxAuto, Egress: []string{}}
		}
	})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	w.Exec.Script = func(job agents.Job, _ int) simtest.Script {
		password := agents.Getenv(job.Secrets, agents.ProxyPassword)
		if len(password) < 32 {
			t.Errorf("the password of its proxy is %q", password)
		}
		writeLog(t, job.LogPath, "I am token-of-disinto, sk-live-0123, "+password+" and token-of-dev-")
		return simtest.Script{Takes: time.Hour}
	}
	w.Forge.Issue("one")
	s.Reload(w.Config, nil) // wakes the loops
	eventually(t, "a session", func() bool { return len(s.Document().Sessions) == 1 && s.Document().Sessions[0].PID > 0 })
	path := w.Exec.Runs()[0].Job.LogPath
	eventually(t, "the status shows the line", func() bool {
		return s.Document().Sessions[0].LastLine == "I am [secret], [secret], [secret] and token-of-dev-"
	})
	resp, err := http.Get(server.URL + "/v1/log?of=dev-coder&follow=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	const first = "I am [secret], [secret], [secret] and "
	got := make([]byte, len(first))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != first {
		t.Fatalf("first read: got %q, %v, want %q", got, err, first)
	}
	writeLog(t, path, "coder.\n")
	if line, err := in.ReadString('\n'); line != "[secret].\n" || err != nil {
		t.Errorf("next line: got %q, %v, want the secret redacted", line, err)
	}
	writeLog(t, path, "the end")
	if status, body := post(t, server.URL+"/v1/cancel", `{"ref":"1"}`); status != http.StatusOK {
		t.Errorf("cancel: got %d %s, want 200", status, body)
	}
	if rest, err := io.ReadAll(in); string(rest) != "the end" || err != nil {
		t.Errorf("the rest: got %q, %v, want %q", rest, err, "the end")
	}
	const all = "I am [secret], [secret], [secret] and [secret].\nthe end"
	for _, of := range []string{"1", "%231", "johba/harb%231", "dev-coder", "1&follow=1"} {
		if status, body := fetch(t, server.URL+"/v1/log?of="+of); status != http.StatusOK || body != all {
			t.Errorf("the log of %s: got %d %q, want %q", of, status, body, all)
		}
	}
	for _, of := range []string{"", "2", "nobody", "../../etc", "dev-qwen"} {
		status, body := fetch(t, server.URL+"/v1/log?of="+of)
		if status != http.StatusNotFound || !strings.Contains(body, "cannot find a log of ") {
			t.Errorf("the log of %q: got %d %q, want 404", of, status, body)
		}
	}
}

func post(t *testing.T, url, body string) (status int, got string) {
	t.Helper()
	return read(t)(http.Post(url, "application/json", strings.NewReader(body)))
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	return read(t)(http.Get(url))
}

// read returns a response's status and body.
func read(t *testing.T) func(resp *http.Response, err error) (int, string) {
	return func(resp *http.Response, err error) (int, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
}

// FindLogs returns the newest session that printed anything. A number without a repository is enough if it is
// unambiguous.
func TestFindLog(t *testing.T) {
	dir := t.TempDir()
	journal := `{"at":"2026-01-01T09:00:00Z","recent":{"run_id":"r0","agent":"dev-a","repo":"o/r","number":1,"started_at":"2026-01-01T08:00:00Z"}}
{"at":"2026-01-01T09:00:00Z","open":{"run":"r1","thread":"t","agent":"dev-b","login":"b","role":"dev","item":{"kind":"issue","ref":"o/r#1"},"chain":"o/r#1","attempt":1}}
{"at":"2026-01-01T09:30:00Z","start":{"run":"r2","thread":"t","agent":"dev-a","login":"a","role":"dev","item":{"kind":"issue","ref":"o/r#2"},"chain":"o/r#2","attempt":1}}
{"at":"2026-01-01T10:00:00Z","start":{"run":"r3","thread":"t","agent":"dev-a","login":"a","role":"dev","item":{"kind":"issue","ref":"o/r#1"},"chain":"o/r#1","attempt":1}}
{"at":"2026-01-01T10:00:00Z","start":{"run":"r4","thread":"t","agent":"dev-c","login":"a","role":"dev","item":{"kind":"issue","ref":"p/q#2"},"chain":"p/q#2","attempt":1}}
{"at":"2026-01-01T11:00:00Z","start":{"run":"r5","thread":"t","agent":"dev-b","login":"b","role":"review","item":{"kind":"review","ref":"o/r#6"},"chain":"o/r#5","attempt":1}}
{"at":"2026-01-01T1`
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	// r3 printed nothing
	for _, log := range []string{"dev-a/r0", "dev-a/r2", "dev-b/r1", "dev-b/r5", "dev-c/r4"} {
		writeLog(t, filepath.Join(dir, "logs", log+".log"), "")
	}
	for _, tt := range []struct{ of, want string }{
		{"1", "r1"},
		{"o/r#1", "r1"},
		{"dev-a", "r2"},
		{"p/q#2", "r4"},
		{"5", "r5"}, // its pull request's review
		{"6", "r5"},
		{"2", "cannot tell which repository 2 is in: write owner/name#2"},
		{"3", "cannot find a log of 3: no session on it is remembered; disinto history lists the others; all logs are in " +
			filepath.Join(dir, "logs")},
		{"dev-x", "cannot find a log of dev-x: no session of an agent with this name is remembered, only of dev-a, dev-b, " +
			"dev-c, did you mean dev-a?; all logs are in " + filepath.Join(dir, "logs")},
	} {
		found, err := supervisor.FindLogs(dir, control.LogQuery{Of: tt.of})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = found.Shown[0].RunID
		}
		if got != tt.want {
			t.Errorf("FindLogs of %s: got %s, want %s", tt.of, got, tt.want)
		}
	}
	if _, err := supervisor.FindLogs(t.TempDir(), control.LogQuery{Of: "1"}); err == nil ||
		!strings.Contains(err.Error(), "no supervisor has worked in ") {
		t.Errorf("FindLogs without a journal: got %v", err)
	}
}

// A query selects among an item's sessions: the newest, one by its id, or all since a time. Each log has a heading
// with its session. A query may limit the lines.
func TestLogQuery(t *testing.T) {
	dir := t.TempDir()
	session := func(run string, hour int) string {
		at := fmt.Sprintf("2026-01-01T%02d:00:00Z", hour)
		writeLog(t, filepath.Join(dir, "logs", "dev-a", run+".log"), "first of "+run+"\nsecret-word and last of "+run+"\n")
		return `{"at":"` + at + `","past":{"agent":"dev-a","kind":"issue","ref":"o/r#1","chain":"o/r#1","start":"` + at +
			`","end":"` + at + `","run":"` + run + `"}}` + "\n"
	}
	journal := session("aa", 8) + session("ab", 9) + session("b", 10)
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	const heads = "==> dev-a, issue o/r#1, 2026-01-01T%s:00:00Z"
	head := func(hour, rest string) string { return fmt.Sprintf(heads, hour) + rest + "\n" }
	whole := func(run string) string { return "first of " + run + "\n[secret] and last of " + run + "\n" }
	for _, tt := range []struct {
		q    control.LogQuery
		want string
	}{
		{control.LogQuery{Of: "dev-a"}, whole("b")},
		{control.LogQuery{Of: "dev-a", Lines: 1}, "[secret] and last of b\n"},
		{control.LogQuery{Of: "dev-a", Lines: 2}, whole("b")},
		{control.LogQuery{Of: "dev-a", Lines: 99}, whole("b")},
		{
			control.LogQuery{Of: "1", Heads: true},
			head("08", ": disinto logs 1 --session aa") + head("09", ": disinto logs 1 --session ab") +
				head("10", " <==") + whole("b"),
		},
		{control.LogQuery{Of: "1", Session: "ab"}, whole("ab")},
		{control.LogQuery{Of: "1", Session: "a"}, whole("aa") + whole("ab")},
		{control.LogQuery{Of: "1", Session: "c"}, "cannot find session c of 1: disinto logs 1 lists its sessions"},
		{
			control.LogQuery{Of: "dev-a", Since: time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC), Lines: 1},
			"[secret] and last of ab\n[secret] and last of b\n",
		},
		{
			control.LogQuery{Of: "dev-a", Since: time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)},
			"no session of dev-a has begun since 2026-01-02T09:00:00Z",
		},
	} {
		found, err := supervisor.FindLogs(dir, tt.q)
		found.Secrets = []string{"secret-word"}
		var got strings.Builder
		if err == nil {
			err = found.Copy(t.Context(), &got, tt.q, nil)
		}
		if err != nil {
			got.WriteString(err.Error())
		}
		if got.String() != tt.want {
			t.Errorf("query %+v: got %q, want %q", tt.q, got.String(), tt.want)
		}
	}
}

// A follower of an idle agent waits for the agent's next session, and ends with it.
func TestLogWaits(t *testing.T) {
	s, w, _ := real(t, t.TempDir(), nil)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	n := 0
	w.Exec.Script = func(job agents.Job, _ int) simtest.Script {
		n++
		writeLog(t, job.LogPath, fmt.Sprintf("session %d\n", n))
		return simtest.Script{Takes: time.Millisecond, Outcome: agents.Outcome{Result: agents.Refused, Claimed: true}}
	}
	w.Forge.Issue("one")
	s.Reload(w.Config, nil) // wakes the loops
	eventually(t, "the end of a session", func() bool { return len(s.Document().Recent) == 1 })
	resp, err := http.Get(server.URL + "/v1/log?of=dev-coder&follow=1&lines=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for _, want := range []string{"session 1\n", "==> waits for the next session of dev-coder\n"} {
		if line, err := in.ReadString('\n'); line != want || err != nil {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
	}
	w.Forge.Issue("two")
	s.Reload(w.Config, nil)
	if rest, err := io.ReadAll(in); string(rest) != "session 2\n" || err != nil {
		t.Errorf("the rest: got %q, %v, want session 2", rest, err)
	}
}
