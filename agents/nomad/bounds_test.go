package nomad

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

// TestAnswers: no answer of a server takes more memory than its bound, and no error quotes more than a line of it.
func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"too long", func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer/1024 + 1 {
				_, _ = w.Write(make([]byte, 1024))
			}
		}, fmt.Sprintf("it is longer than %d bytes", maxAnswer)},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "invalid character"},
		{"an error with escapes", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("\x1b[2Jno\n" + strings.Repeat("x", 10_000)))
		}, "Nomad answers 403:  [2Jno x"},
		{"another address", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the client followed a redirect, with the token")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "Nomad answers 307"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			c := newClient(func() Config { return Config{Address: server.URL, Token: "hunter2hunter2"} })
			_, _, err := c.listJobs(t.Context(), jobPrefix, 0)
			words := fmt.Sprint(err)
			if !strings.Contains(strings.ReplaceAll(words, "  ", " "), strings.ReplaceAll(tt.want, "  ", " ")) {
				t.Errorf("the error is %.400q, want %q in it", words, tt.want)
			}
			if len(words) > 2*maxWords || strings.Contains(words, "hunter2") || strings.Contains(words, "\x1b") {
				t.Errorf("the error %.1000q is too long, or contains a secret or an escape", words)
			}
		})
	}
}

// TestLongDocument: a document that exceeds the bound is not read.
func TestLongDocument(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"Outcome":{"Result":"done","Tail":"` + strings.Repeat("x", maxDocument) + `"}}`))
	}))
	defer server.Close()
	c := newClient(func() Config { return Config{Address: server.URL} })
	if d, err := c.getDocument(t.Context(), "alloc"); d != nil || err == nil {
		t.Errorf("getDocument = %+v, %v, want an error", d, err)
	}
}

// TestLongLog: a log is read up to its limit.
func TestLongLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			_, _ = w.Write(make([]byte, 1024))
		}
	}))
	defer server.Close()
	var text strings.Builder
	l := &logReader{client: newClient(func() Config { return Config{Address: server.URL} }), out: &text, most: 10_000}
	if err := l.read(t.Context(), false); err != nil || text.Len() != 10_000 {
		t.Errorf("read %d bytes, %v, want 10000", text.Len(), err)
	}
}

// TestNoServer: without a server the executor reports an error, but declares no session lost.
func TestNoServer(t *testing.T) {
	e := &Executor{Config: func() Config { return Config{} }}
	if runs, err := e.Unreported(t.Context(), "i1"); runs != nil || err == nil {
		t.Errorf("Unreported = %q, %v, want an error", runs, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	out := make(chan agents.Outcome, 1)
	go func() { out <- e.Run(ctx, agents.Job{RunID: "i1-1"}, nil) }()
	select {
	case o := <-out:
		t.Errorf("Run returned %+v without an answer", o)
	case <-time.After(300 * time.Millisecond):
	}
	cancel(agents.ErrDetached)
	if o := <-out; o.Result != agents.Lost {
		t.Errorf("Run after a detach returned %+v, want lost", o)
	}
}

// hostile are documents that session-run never writes.
var hostile = []string{
	`{"Outcome":{"Result":"done","Usage":{"input_tokens":-5,"cost_usd":1e300}}}`,
	`{"Outcome":{"Result":"failed","Reason":"\u001b[2J\nx","SessionID":"-rf"}}`,
	`{"Outcome":{"Result":"splendid"}}`, `{"Outcome":{"Result":""}}`, `[]`, `{"Started":{"Sandbox":"\u001b"}}`,
	`{"Outcome":{"Result":"question","Words":"a\u0000b"}}`, `{"Outcome":{"Result":"done","CPU":-1,"MaxRSS":-1}}`,
	`{"Outcome":{"Result":"done","Digest":"../x","Seen":{"programs":{"count":-1,"names":["\u001b"]}}}}`,
}

// FuzzDocument: a decoded document is printable, bounded and has a known result; any other is refused.
func FuzzDocument(f *testing.F) {
	for _, text := range hostile {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDocument(text)
		if err != nil {
			return
		}
		if d.Usage != d.Usage.Bounded() {
			t.Errorf("the usage %+v is out of bounds", d.Usage)
		}
		o := d.Outcome
		if o == nil {
			return
		}
		if resultOf(codeOf(o.Result)) != o.Result || o.Result != agents.Done && o.Reason == "" {
			t.Errorf("the outcome %+v has an unknown result or no reason", o)
		}
		if o.Reason != oneLine(o.Reason) || o.Words != agents.ManyLines(o.Words) || o.Tail != agents.ManyLines(o.Tail) {
			t.Errorf("not printable: %+v", o)
		}
		if o.Usage != o.Usage.Bounded() || o.CPU < 0 || o.MaxRSS < 0 ||
			o.SessionID != "" && !agents.ValidSessionID(o.SessionID) {
			t.Errorf("not bounded: %+v", o)
		}
		if !reflect.DeepEqual(o.Seen, o.Seen.Bounded()) || o.Digest != "" && !agents.ValidDigest(o.Digest) {
			t.Errorf("not bounded: %+v, %q", o.Seen, o.Digest)
		}
	})
}

// FuzzOrder: an order is decoded as it was encoded, or refused.
func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"Format":1,"Job":{"RunID":"i-1","Command":["a"]},"Secrets":["A=b"]}`))
	f.Add([]byte(`{"Format":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parseOrder(text)
		if err != nil {
			return
		}
		written, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseOrder(written); err != nil || !cmp.Equal(o.Job.RunID, again.Job.RunID) {
			t.Errorf("decoded again: %v, %+v, want %+v", err, again, o)
		}
	})
}

// TestCodes: each result has its own exit code, which nothing else uses.
func TestCodes(t *testing.T) {
	for _, result := range []agents.Result{
		agents.Done, agents.Refused, agents.Question, agents.Planned, agents.Failed, agents.NoProgress, agents.Limited,
		agents.BackendDown, agents.Unanswered, agents.Killed, agents.Looped, agents.OverBudget, agents.PushRefused,
		agents.TooBig, agents.SetupFailed,
	} {
		if !result.Claimable() || resultOf(codeOf(result)) != result {
			t.Errorf("%s, which a program can report, has no code", result)
		}
	}
	for i, row := range codes {
		if resultOf(codeOf(row.result)) != row.result {
			t.Errorf("%s does not have its own code", row.result)
		}
		for _, other := range codes[:i] {
			if other.code == row.code {
				t.Errorf("%s and %s have the code %d", row.result, other.result, row.code)
			}
		}
		if row.code == 2 || row.code >= 124 {
			t.Errorf("%s has the code %d, which Go or a shell uses", row.result, row.code)
		}
	}
}

// TestKilled: a SIGKILL counts as an attempt only if memory ran out at the session's own limit.
func TestKilled(t *testing.T) {
	for _, tt := range []struct {
		starved string
		want    agents.Result
		words   string
	}{
		{"true", agents.Failed, "killed by SIGKILL on box1/12345678: out of memory, its limit is 64M"},
		{"false", agents.Killed, "session-run was killed by SIGKILL on box1/12345678, and Nomad reports no lack of memory"},
	} {
		a := &allocation{
			ID: "12345678-9", NodeName: "box1", ClientStatus: "failed", DesiredStatus: "run",
			TaskStates: map[string]*taskState{taskName: {Events: []taskEvent{
				{Type: "Started"},
				{Type: "Terminated", Details: map[string]string{"exit_code": "137", "signal": "9", "oom_killed": tt.starved}},
			}}},
		}
		j := &agents.Job{Limits: agents.Limits{Memory: 64 << 20}}
		if o := judge(a, nil, false, j); o.Result != tt.want || o.Reason != tt.words {
			t.Errorf("oom_killed %s: got %s, %q, want %s, %q", tt.starved, o.Result, o.Reason, tt.want, tt.words)
		}
		killed := agents.Outcome{Result: agents.Killed, Signal: "SIGKILL", Reason: "killed by SIGKILL"}
		if o := addStarved(killed, 1, j); o.Result != agents.Failed || !strings.Contains(o.Reason, "its limit is 64M") {
			t.Errorf("at its limit of memory: got %s, %q, want failed", o.Result, o.Reason)
		}
		if o := addStarved(killed, 0, j); o.Result != agents.Killed {
			t.Errorf("below its limit of memory: got %s, want killed", o.Result)
		}
	}
}

// TestJob: the job's description makes Nomad start a session once and leave its node alone.
func TestJob(t *testing.T) {
	o := newOrder(agents.Job{
		RunID: "i-1", Instance: "i", Agent: "dev", Repo: "o/r", Number: 7, Claim: "c0ffee", Place: "box2/1234",
		Timeout: time.Hour, Grace: 7 * time.Second, Limits: agents.Limits{Memory: 64 << 20},
		Nodes: []agents.NodeRule{{Attribute: "meta.llama", Value: "box2"}}, Secrets: []string{"FORGE_TOKEN=hunter2"},
	}, "", time.Unix(0, 0))
	text, err := json.Marshal(describe(jobID("i-1"), o, Config{Volume: "disinto", Namespace: "n"}))
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Fatalf("%s, %v", text, err)
	}
	for _, want := range []string{
		`"ID":"disinto-i-1"`, `"Attempts":0,"Mode":"fail"`, `"Attempts":0,"Unlimited":false`,
		`"LostAfter":7367000000000,"Reconcile":"keep_original","Replace":false`, `"KillTimeout":17000000000`,
		`"LTarget":"${meta.llama}","Operand":"=","RTarget":"box2"`, `"RTarget":"box2","Weight":100`, `"MemoryMB":112`,
		`"disinto_claim":"c0ffee"`, `"disinto_item":"o/r#7"`, `"Source":"disinto","Type":"host"`, `"Namespace":"n"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("missing %s in %s", want, text)
		}
	}
}

// TestCheckVersion: versions are compared by their numbers.
func TestCheckVersion(t *testing.T) {
	for version, want := range map[string]bool{
		"1.7.9": true, "1.8.0": false, "1.10.2": false, "2.0.6-dev": false, "0.12.1": true, "x": false, "": false,
	} {
		if tooOld(version) != want {
			t.Errorf("old(%q) = %v", version, !want)
		}
	}
}

// TestCheck: all problems of a cluster are reported at once.
func TestCheck(t *testing.T) {
	f := newFake(t)
	nowhere := []agents.NodeRule{{Attribute: "meta.llama", Value: "box9"}}
	needs := []agents.Job{
		{Agent: "dev-a", Thread: "far"},
		{Agent: "dev-b", Thread: "box", Nodes: nowhere},
		{Agent: "dev-c", Thread: "box", Nodes: nowhere},
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Address: f.server.URL, Volume: "disinto", Program: self}
	about, problems := Check(t.Context(), cfg, needs)
	if want := f.server.URL + ": 2 of 2 nodes take sessions"; about != want {
		t.Errorf("Check describes the cluster as %q, want %q", about, want)
	}
	want := []string{"thread box, dev-b and dev-c: no node takes it: 2 without ${meta.llama} = box9"}
	if diff := cmp.Diff(want, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	f.DropVolume("box1")
	rights := []string{
		"list-jobs", "variables read", "variables write", "variables destroy", "read-job",
		"host_volume write",
	}
	f.Deny(rights...)
	_, problems = Check(t.Context(), cfg, needs[:1])
	want = []string{
		"node box1 has no host volume disinto, so it takes no session",
	}
	const at, refused = " of variables at nomad/jobs/disinto-*", ": Nomad answers 403: Permission denied"
	for _, right := range []string{
		"list-jobs", "read" + at, "write" + at, "destroy" + at, `host_volume "disinto" { policy = "write" }`,
		"read-job",
	} {
		want = append(want, "the token of [nomad] lacks the right "+right+refused)
	}
	if diff := cmp.Diff(want, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	f.Deny("submit-job")
	cfg.Volume = ""
	_, problems = Check(t.Context(), cfg, needs[:1])
	want = []string{"the token of [nomad] lacks the right submit-job" + refused}
	if diff := cmp.Diff(want, lines(problems)); diff != "" {
		t.Errorf("without submit-job (-want +got):\n%s", diff)
	}
	if written := f.Written(); len(written) > 0 {
		t.Errorf("Check wrote %q", written)
	}
}

// TestCheckKillTime: a grace that nodes cut short is reported, with the value that it needs.
func TestCheckKillTime(t *testing.T) {
	f := newFake(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Address: f.server.URL, Program: self}
	check := func(grace time.Duration, want ...string) {
		t.Helper()
		about, problems := Check(t.Context(), cfg, []agents.Job{{Grace: grace}})
		if diff := cmp.Diff(want, lines(problems)); diff != "" || strings.Contains(about, "max_kill") {
			t.Errorf("grace %s: %q, problems (-want +got):\n%s", grace, about, diff)
		}
	}
	check(20 * time.Second)
	const cut = ` kills a session 30s after TERM (max_kill_timeout of its client), and stop_grace = "25s" needs 35s`
	check(25*time.Second, "node box1"+cut, "node box2"+cut)
	f.SetMaxKill("35s")
	check(25 * time.Second)
	f.Deny("agent read")
	about, problems := Check(t.Context(), cfg, []agents.Job{{Grace: 25 * time.Second}})
	if len(problems) > 0 || !strings.Contains(about, `; stop_grace needs max_kill_timeout = "35s", which node box2 does `+
		"not tell: the token of [nomad] lacks the right agent read") {
		t.Errorf("without the right agent read: got %q, %q", about, lines(problems))
	}
}

func lines(problems []error) (list []string) {
	for _, err := range problems {
		list = append(list, err.Error())
	}
	return list
}
