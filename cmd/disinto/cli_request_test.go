package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// serveSocket serves on the control socket of a new state directory.
func serveSocket(t *testing.T, handler http.Handler) (state string) {
	t.Helper()
	state = t.TempDir()
	l, err := net.Listen("unix", filepath.Join(state, "disinto.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return state
}

// obedient is a supervisor that gives every command the same answer. told returns the command's request.
func obedient(t *testing.T, status int, answer string) (state string, told func() string) {
	t.Helper()
	heard := make(chan string, 1)
	state = serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		heard <- fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("Content-Type"), " ", string(body))
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	return state, func() string {
		select {
		case s := <-heard:
			return s
		default:
			return "nothing"
		}
	}
}

// Each command sends the supervisor its request.
func TestOrders(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"pause"}, `POST /v1/pause application/json {"name":""}`},
		{[]string{"pause", "llama"}, `POST /v1/pause application/json {"name":"llama"}`},
		{[]string{"drain", "--then-stop", "--yes"}, `POST /v1/drain application/json {"then_stop":true}`},
		{[]string{"cancel", "12"}, `POST /v1/cancel application/json {"ref":"12"}`},
		{[]string{"retry", "#12"}, `POST /v1/retry application/json {"ref":"#12"}`},
		{[]string{"release", "a/b#12"}, `POST /v1/release application/json {"ref":"a/b#12"}`},
		{[]string{"approve", "12"}, `POST /v1/approve application/json {"ref":"12"}`},
		{[]string{"start", "llama"}, `POST /v1/start application/json {"service":"llama"}`},
		{[]string{"batch", "start", "12"}, `POST /v1/convoy/start application/json {"ref":"12"}`},
		{[]string{"convoy", "start", "12"}, `POST /v1/convoy/start application/json {"ref":"12"}`},
		{[]string{"convoy", "cancel", "12"}, `POST /v1/convoy/cancel application/json {"ref":"12"}`},
		{
			[]string{"convoy", "cancel", "12", "--drain", "--close"},
			`POST /v1/convoy/cancel application/json {"ref":"12","drain":true,"close":true}`,
		},
		{
			[]string{"convoy", "create", "--title", "T", "1", "a/b#2", "--chain", "--staged"},
			`POST /v1/convoy application/json {"title":"T","members":["1","a/b#2"],"chain":true,"staged":true}`,
		},
		{[]string{"resume", "dev-qwen"}, `POST /v1/resume application/json {"name":"dev-qwen"}`},
	} {
		state, told := obedient(t, 200, `{"subject":"x","did":["done"],"note":"","pending":""}`)
		got := disinto(t.Context(), nil, append(tt.args, "--state", state)...)
		if got.code != exitDone || got.stdout != "x: done\n" || got.stderr != "" {
			t.Errorf("%v: got exit code %d, stdout %q, stderr %q", tt.args, got.code, got.stdout, got.stderr)
		}
		if said := told(); said != tt.want {
			t.Errorf("%v: the supervisor got %s, want %s", tt.args, said, tt.want)
		}
	}
}

// Each answer has its output and its exit code.
func TestOrderAnswers(t *testing.T) {
	for _, tt := range []struct {
		name           string
		status         int
		answer         string
		code           int
		stdout, stderr string
	}{
		{"several things", 200, `{"subject":"a/b#1","did":["one","two"]}`, exitDone, "a/b#1: one, two\n", ""},
		{"nothing", 200, `{"subject":"a/b#1","did":[]}`, exitDone, "a/b#1: nothing to do\n", ""},
		{"only a note", 200, `{"subject":"a/b#1","note":"closed"}`, exitDone, "a/b#1: closed\n", ""},
		{"a note", 200, `{"subject":"a/b#1","did":["one"],"note":"two"}`, exitDone, "a/b#1: one; two\n", ""},
		{
			"not all of it yet", 200, `{"subject":"a/b#1","did":["one"],"pending":"the label follows"}`, exitNotNow,
			"a/b#1: one; the label follows\n", "",
		},
		{"escape sequences", 200, `{"subject":"a/b#1","did":["\u001b[31mred"]}`, exitDone, "a/b#1: [31mred\n", ""},
		{"wrong usage", 400, `{"error":"cannot read x"}`, exitUsage, "", "disinto: cannot read x\n"},
		{"no such thing", 404, `{"error":"no thread x"}`, exitFailed, "", "disinto: no thread x\n"},
		{"not now", 503, `{"error":"not now: it stops"}`, exitNotNow, "", "disinto: not now: it stops\n"},
		{
			"not a supervisor", 200, "hello", exitFailed, "",
			"disinto: cannot understand the supervisor's answer: invalid character 'h' looking for beginning of value\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, _ := obedient(t, tt.status, tt.answer)
			got := disinto(t.Context(), nil, "pause", "--state", state)
			if got.code != tt.code || got.stdout != tt.stdout || got.stderr != tt.stderr {
				t.Errorf("got exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
			}
		})
	}
	state, _ := obedient(t, 404, "404 page not found\n")
	got := disinto(t.Context(), nil, "pause", "--state", state)
	if want := "disinto: the supervisor on " + state + " does not know this command (404 page not found): " +
		"it is older than this disinto\n"; got.code != exitFailed || got.stderr != want {
		t.Errorf("an older supervisor: got exit code %d, stderr %q", got.code, got.stderr)
	}
	room := httptest.NewServer(http.NotFoundHandler())
	defer room.Close()
	got = disinto(t.Context(), []string{"DISINTO_TOKEN=a-token-that-is-long-enough"}, "status", "--address", room.URL)
	if got.code != exitFailed || !strings.HasPrefix(got.stderr, "disinto: "+room.URL+" is not the control API, or ") {
		t.Errorf("the control room's address: got exit code %d, stderr %q", got.code, got.stderr)
	}
	got = disinto(t.Context(), nil, "pause", "--state", t.TempDir())
	if got.code != exitFailed || got.stdout != "" {
		t.Errorf("without a supervisor: got exit code %d, stdout %q", got.code, got.stdout)
	}
}

func TestOrderJSON(t *testing.T) {
	state, _ := obedient(t, 200, `{"subject":"x","did":["done"],"pending":"more","later":1}`)
	got := disinto(t.Context(), nil, "resume", "--json", "--state", state)
	want := "{\n  \"subject\": \"x\",\n  \"did\": [\n    \"done\"\n  ],\n  \"pending\": \"more\",\n  \"later\": 1\n}\n"
	if got.code != exitNotNow || got.stdout != want {
		t.Errorf("got exit code %d, stdout %q", got.code, got.stdout)
	}
}

// A name that no service has is the name of a role.
func TestStartRole(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{
		"/v1/sling": `{"repo": "johba/harb", "agent": "gardener", "thread": "llama", "role": "gardener"}`,
	})
	got := disinto(t.Context(), nil, "start", "gardener", "--state", state)
	if got.code != exitDone || !strings.Contains(got.stdout, "gardener is on it") {
		t.Errorf("got exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	nobody := serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/start" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	got = disinto(t.Context(), nil, "start", "nothing", "--state", nobody)
	if got.code != exitFailed || !strings.Contains(got.stderr, "no service or scheduled role has that name") {
		t.Errorf("a name of nothing: got exit code %d, stderr %q", got.code, got.stderr)
	}
}
