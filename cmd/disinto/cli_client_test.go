package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// fakeSupervisor serves fixed answers on the control socket of a new state directory.
func fakeSupervisor(t *testing.T, answers map[string]string) (state string) {
	t.Helper()
	state = t.TempDir()
	l, err := net.Listen("unix", filepath.Join(state, "disinto.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.RequestURI()]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = fmt.Sprintf(`{"error": "cannot explain %s: nobody knows it"}`, r.URL.RequestURI())
		}
		fmt.Fprint(w, answer)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return state
}

// readTestdata reads a file of screen/testdata: a document or its golden text.
func readTestdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("screen", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// shows compares a command's output with a golden file of screen.
func shows(t *testing.T, got, name string) {
	t.Helper()
	if diff := cmp.Diff(readTestdata(t, name), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestStatus(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{"/v1/state": readTestdata(t, "status/busy.json")})
	for _, how := range [][]string{{"--state", state}, nil} {
		got := disinto(t.Context(), []string{"DISINTO_STATE_DIR=" + state}, append([]string{"status"}, how...)...)
		if got.code != exitDone || got.stderr != "" {
			t.Errorf("got exit code %d, stderr %q", got.code, got.stderr)
		}
		shows(t, got.stdout, "status/busy-pipe.txt")
	}
}

// status --json also prints fields that only a newer supervisor knows.
func TestStatusJSON(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{"/v1/state": `{"version":"v9","new_field":[1]}`})
	got := disinto(t.Context(), nil, "status", "--json", "--state", state)
	want := "{\n  \"version\": \"v9\",\n  \"new_field\": [\n    1\n  ]\n}\n"
	if got.code != exitDone || got.stdout != want {
		t.Errorf("got exit code %d, stdout %q, want %q", got.code, got.stdout, want)
	}
}

func TestConvoyList(t *testing.T) {
	answer := `{"convoys": [
		{"repo": "johba/harb", "number": 20, "title": "Sell by mail", "state": "running", "known": true,
			"members": [{}, {}, {}], "counts": {"done": 1, "running": 2}},
		{"repo": "johba/harb", "number": 31, "title": "A title that is so long that it does not fit beside the rest",
			"state": "staged", "known": false}]}`
	state := fakeSupervisor(t, map[string]string{"/v1/convoys": answer})
	got := disinto(t.Context(), nil, "convoy", "list", "--state", state)
	const long = "A title that is so long that it does not fit beside the rest"
	want := "CONVOY  TITLE" + strings.Repeat(" ", len(long)-len("TITLE")) + "  STATE\n" +
		"#20     Sell by mail" + strings.Repeat(" ", len(long)-len("Sell by mail")) +
		"  running, 3 members: 1 done, 2 running\n" +
		"#31     " + long + "  staged, its members are not read yet\n"
	if got.code != exitDone || got.stdout != want || got.stderr != "" {
		t.Errorf("got exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
	state = fakeSupervisor(t, map[string]string{"/v1/convoys": `{"convoys": []}`})
	if got := disinto(t.Context(), nil, "convoy", "list", "--state", state); got.stdout != "no open convoys\n" {
		t.Errorf("without convoys: got %q", got.stdout)
	}
}

// A health check asks whether a supervisor answers, not whether its forge is up.
func TestStatusWithForgeDown(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{"/v1/state": readTestdata(t, "status/trouble.json")})
	if got := disinto(t.Context(), nil, "status", "--state", state); got.code != exitDone {
		t.Errorf("got exit code %d, want 0", got.code)
	}
}

func TestStatusWithoutSupervisor(t *testing.T) {
	state := t.TempDir()
	said := "disinto: no supervisor runs in the state directory " + state +
		": start one with disinto run, or use --state\n"
	got := disinto(t.Context(), nil, "status", "--state", state)
	if got.code != exitFailed || got.stdout != "" || got.stderr != said {
		t.Errorf("in an empty directory: got exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	path := filepath.Join(state, "status.json")
	if err := os.WriteFile(path, []byte(readTestdata(t, "status/busy.json")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, noon, noon); err != nil {
		t.Fatal(err)
	}
	got = disinto(t.Context(), nil, "status", "--state", state)
	if got.code != exitFailed || got.stderr != said {
		t.Errorf("with a last state: got exit code %d, stderr %q", got.code, got.stderr)
	}
	shows(t, got.stdout, "status/busy-lost.txt")
	got = disinto(t.Context(), nil, "status", "--state", path)
	want := "disinto: cannot ask the supervisor on " + path +
		": not a directory: --state is the supervisor's state directory\n"
	if got.code != exitFailed || got.stderr != want {
		t.Errorf("with a file as --state: got exit code %d, stderr %q, want %q", got.code, got.stderr, want)
	}
}

// A supervisor that died leaves its socket. status reports that no supervisor runs.
func TestStatusWithDeadSocket(t *testing.T) {
	state := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(state, "disinto.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	got := disinto(t.Context(), nil, "status", "--state", state)
	if got.code != exitFailed || !strings.HasPrefix(got.stderr, "disinto: no supervisor runs in the state directory ") {
		t.Errorf("got exit code %d, stderr %q", got.code, got.stderr)
	}
}

func TestWhy(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{
		"/v1/why?ref=17": readTestdata(t, "why/cycle.json"),
		"/v1/why?ref=20": readTestdata(t, "why/pairing.json"),
	})
	for args, name := range map[string]string{"17": "cycle", "20": "pairing", "20 --all": "pairing-all"} {
		got := disinto(t.Context(), nil, append([]string{"why", "--state", state}, strings.Fields(args)...)...)
		if got.code != exitDone || got.stderr != "" {
			t.Errorf("why %s: got exit code %d, stderr %q", args, got.code, got.stderr)
		}
		shows(t, got.stdout, "why/"+name+"-pipe.txt")
	}
	past := fakeSupervisor(t, map[string]string{
		"/v1/why?at=2026-11-02T15%3A04%3A00Z&ref=20":   readTestdata(t, "why/past.json"),
		"/v1/why?at=2026-11-03T11%3A59%3A58.5Z&ref=20": readTestdata(t, "why/past.json"),
	})
	for _, at := range []string{"yesterday 15:04", "2026-11-02T15:04:00Z", "2026-11-03T11:59:58.5Z"} {
		got := disinto(t.Context(), nil, "why", "20", "--state", past, "--at", at)
		if got.code != exitDone || got.stderr != "" {
			t.Errorf("why --at %s: got exit code %d, stderr %q", at, got.code, got.stderr)
		}
		shows(t, got.stdout, "why/past-pipe.txt")
	}
	late := disinto(t.Context(), nil, "why", "20", "--state", past, "--at", "12:01")
	if late.code != exitUsage || late.stderr != "disinto: --at: 12:01 is in the future\n" {
		t.Errorf("why --at 12:01: got exit code %d, stderr %q", late.code, late.stderr)
	}
	// Only the supervisor knows the agents and threads, so the error for an unknown reference is the supervisor's.
	got := disinto(t.Context(), nil, "why", "99", "--state", state)
	if got.code != exitFailed || got.stderr != "disinto: cannot explain /v1/why?ref=99: nobody knows it\n" {
		t.Errorf("why 99: got exit code %d, stderr %q", got.code, got.stderr)
	}
	got = disinto(t.Context(), nil, "show", "twelve", "--state", state)
	if got.code != exitUsage ||
		got.stderr != "disinto: cannot read \"twelve\" as an issue: write 12, #12 or owner/name#12\n" {
		t.Errorf("show twelve: got exit code %d, stderr %q", got.code, got.stderr)
	}
}

// report counts the sessions that a supervisor remembers. Without a supervisor it reads the last one's journal.
func TestReport(t *testing.T) {
	since := url.QueryEscape(noon.Add(-7 * 24 * time.Hour).Format(time.RFC3339))
	state := fakeSupervisor(t, map[string]string{
		"/v1/report?by=model&since=" +
			since: `{"total":{"sessions":1},"groups":[{"by":"model","rows":[{"key":"qwen3.5","sessions":1}]}]}`,
	})
	got := disinto(t.Context(), nil, "report", "--by", "model", "--since", "7d", "--state", state)
	if !strings.Contains(got.stdout, "qwen3.5") {
		t.Errorf("got exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	left := t.TempDir()
	journal := `{"at":"2026-11-03T11:00:00Z","past":{"agent":"dev-old","kind":"issue","ref":"o/r#2","chain":"o/r#2",` +
		`"start":"2026-11-03T10:00:00Z","end":"2026-11-03T11:00:00Z","outcome":"done","model":"m"}}` + "\n" +
		`{"at":"2026-11-03T11:00:00Z","merged":{"ref":"o/r#3","chain":"o/r#2","when":"2026-11-03T11:00:00Z"}}` + "\n"
	if err := os.WriteFile(filepath.Join(left, "journal.jsonl"), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	got = disinto(t.Context(), nil, "report", "--csv", "--since", "10000d", "--state", left)
	if !strings.Contains(got.stdout, "agent,dev-old,1,0,0,0,60,,,1,60,,,0,,1,1,,0,0,0\n") ||
		got.stderr != "counts 1 session, from 2026-11-03 11:00 UTC on\n" {
		t.Errorf("without a supervisor: got exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	for _, bad := range [][]string{{"--by", "mood"}, {"--since", "yesterday"}, {"--csv", "--json"}} {
		if got := disinto(t.Context(), nil, append([]string{"report", "--state", left}, bad...)...); got.code != exitUsage {
			t.Errorf("%v: got exit code %d", bad, got.code)
		}
	}
}

// show and history print their documents. Without a supervisor, history reads the journal.
func TestLife(t *testing.T) {
	since := url.QueryEscape(noon.Add(-7 * 24 * time.Hour).Format(time.RFC3339))
	state := fakeSupervisor(t, map[string]string{
		"/v1/show?ref=12": readTestdata(t, "life/merged.json"),
		"/v1/history?agent=dev-qwen&since=" + since: readTestdata(t, "life/history.json"),
	})
	got := disinto(t.Context(), nil, "show", "12", "--state", state)
	shows(t, got.stdout, "life/merged-pipe.txt")
	got = disinto(t.Context(), nil, "history", "--agent", "dev-qwen", "--since", "7d", "--state", state)
	shows(t, got.stdout, "life/history-pipe.txt")
	left := t.TempDir()
	journal := `{"at":"2026-11-03T11:00:00Z","past":{"agent":"dev-old","kind":"issue","ref":"o/r#2","chain":"o/r#2",` +
		`"start":"2026-11-03T10:00:00Z","end":"2026-11-03T11:00:00Z","outcome":"failed","reason":"boom"}}` + "\n"
	if err := os.WriteFile(filepath.Join(left, "journal.jsonl"), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	offline := func(words string) result {
		return disinto(t.Context(), nil, append([]string{"history", "--state", left}, strings.Fields(words)...)...)
	}
	for words, want := range map[string]string{
		"": "dev-old  issue #2", "--outcome failed --repo O/R": "failed: boom",
		"--csv":          ",dev-old,,,,issue,o/r,2,,,0,failed,boom,",
		"--outcome done": "no session ended in that time\n", "--repo o/other": "no session ended in that time\n",
	} {
		got = offline(words)
		if !strings.Contains(got.stdout, want) {
			t.Errorf("without a supervisor, %s: got exit code %d, %q, %q", words, got.code, got.stdout, got.stderr)
		}
	}
	for _, bad := range []string{"--outcome mood", "--csv --json"} {
		if got := offline(bad); got.code != exitUsage {
			t.Errorf("%s: got exit code %d", bad, got.code)
		}
	}
	broken := t.TempDir()
	if err := os.Mkdir(filepath.Join(broken, "journal.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	got = disinto(t.Context(), nil, "history", "--state", broken)
	if got.code != exitFailed || !strings.Contains(got.stderr, "and the journal cannot be read: ") {
		t.Errorf("with a folder as journal: got exit code %d, %q", got.code, got.stderr)
	}
	for _, bad := range []string{"yesterday", "-1h", "0", "d", "1.5.2d"} {
		if got := disinto(t.Context(), nil, "history", "--since="+bad, "--state", left); got.code != exitUsage {
			t.Errorf("--since=%s: got exit code %d", bad, got.code)
		}
	}
}
