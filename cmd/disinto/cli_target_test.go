package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const remoteToken = "a-token-of-the-address"

// remote is a supervisor that answers over TCP, as with [factory] listen: each request needs the token.
func remote(t *testing.T, h http.HandlerFunc) (address string) {
	t.Helper()
	config := &threads.Config{Factory: threads.Factory{Listen: "127.0.0.1:1", ListenToken: agents.Secret(remoteToken)}}
	server := httptest.NewServer(control.Guard(func() *threads.Config { return config }, h))
	t.Cleanup(server.Close)
	return server.URL
}

// Every command that calls a supervisor can call one at an address.
func TestAddress(t *testing.T) {
	address := remote(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.RequestURI() {
		case "GET /v1/state":
			fmt.Fprint(w, readTestdata(t, "status/busy.json"))
		case "GET /v1/log?heads=1&of=17":
			fmt.Fprint(w, "what it printed\n")
		case "POST /v1/sling":
			fmt.Fprint(w, `{"repo": "a/b", "number": 17, "agent": "dev-qwen", "slot": 1, "thread": "llama"}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	})
	token := "DISINTO_TOKEN=" + remoteToken
	shows(t, disinto(t.Context(), []string{token}, "status", "--address", address).stdout, "status/busy-pipe.txt")
	shows(t, disinto(t.Context(), []string{token, "DISINTO_ADDRESS=" + address + "/"}, "status").stdout,
		"status/busy-pipe.txt")
	if got := disinto(t.Context(), []string{token}, "logs", "17", "--address",
		strings.TrimPrefix(address, "http://")); got.stdout != "what it printed\n" {
		t.Errorf("logs: got %+v", got)
	}
	if got := disinto(t.Context(), []string{token}, "sling", "17", "--address", address); got.code != exitDone ||
		!strings.HasPrefix(got.stdout, "dev-qwen is on it") {
		t.Errorf("sling: got %+v", got)
	}
	for _, cmd := range everyCommand() {
		flags := cmd.Flags()
		if !cmd.Hidden && flags.Lookup("json") != nil && flags.Lookup("state") != nil && flags.Lookup("address") == nil &&
			!slices.Contains([]string{"check", "simulate", "verify"}, cmd.Name()) { // these call no supervisor
			t.Errorf("%s has no --address", cmd.CommandPath())
		}
	}
	// --state names a supervisor of this machine, and takes precedence over the address.
	environ := []string{token, "DISINTO_ADDRESS=" + address}
	got := disinto(t.Context(), environ, "status", "--state", t.TempDir())
	if !strings.Contains(got.stderr, "no supervisor runs") {
		t.Errorf("--state with $DISINTO_ADDRESS: got %+v", got)
	}
}

func TestAddressToken(t *testing.T) {
	address := remote(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version": "v9"}`) })
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := file("open", remoteToken, 0o644)
	tests := []struct {
		name    string
		environ []string
		args    []string
		code    int
		stderr  string
	}{
		{name: "file", args: []string{"--token-file", file("token", remoteToken+"\n", 0o600)}},
		{
			name: "file before variable", environ: []string{"DISINTO_TOKEN=wrong"},
			args: []string{"--token-file", file("token", remoteToken, 0o400)},
		},
		{
			name: "none", code: exitUsage,
			stderr: "there is no token for the supervisor's address: set $DISINTO_TOKEN or use --token-file FILE",
		},
		{
			name: "wrong", environ: []string{"DISINTO_TOKEN=wrong"}, code: exitFailed,
			stderr: "cannot answer without the token of [factory] listen_token: send Authorization: Bearer TOKEN",
		},
		{name: "open file", args: []string{"--token-file", open}, code: exitFailed, stderr: "cannot use " + open +
			": others can read it; chmod 600 " + open},
		{
			name: "a header in it", environ: []string{"DISINTO_TOKEN=secret-part\r\nHost: x"}, code: exitUsage,
			stderr: "$DISINTO_TOKEN is not a token: it contains white space or special characters, or is too long",
		},
		{
			name: "too long", environ: []string{"DISINTO_TOKEN=" + strings.Repeat("secret-part", 400)}, code: exitUsage,
			stderr: "$DISINTO_TOKEN is not a token: it contains white space or special characters, or is too long",
		},
	}
	for _, tt := range tests {
		got := disinto(t.Context(), tt.environ, append([]string{"status", "--json", "--address", address}, tt.args...)...)
		want := strings.TrimPrefix("disinto: "+tt.stderr+"\n", "disinto: \n")
		if got.code != tt.code || got.stderr != want {
			t.Errorf("%s: got exit code %d, stderr %q, want %q", tt.name, got.code, got.stderr, want)
		}
	}
	for address, want := range map[string]string{
		"ftp://x": "want host:port", "http://": "want host:port", "http://x/?a=b": "want host:port",
		"x y:1":                  "want host:port",
		"http://u:secret-part@x": "the URL contains a password",
	} {
		got := disinto(t.Context(), []string{"DISINTO_TOKEN=" + remoteToken}, "status", "--address", address)
		if got.code != exitUsage || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "secret-part") {
			t.Errorf("--address %s: got %+v", address, got)
		}
	}
}

// A stranger may own the address: the token goes to no other host, and an endless answer does not fill the memory.
func TestAddressOfStranger(t *testing.T) {
	var heard []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heard = append(heard, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	address := remote(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/state" {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return
		}
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for range 65 {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	})
	environ := []string{"DISINTO_TOKEN=" + remoteToken}
	got := disinto(t.Context(), environ, "status", "--address", address)
	if len(heard) > 0 || got.code != exitFailed {
		t.Errorf("a redirect was followed with %q: got %+v", heard, got)
	}
	if storms() { // it reads 64 MiB
		got = disinto(t.Context(), environ, "retry", "17", "--address", address) // its timeout is 2 minutes, not 5 s
		if want := "disinto: cannot read the supervisor's answer: it is longer than 64 MiB\n"; got.stderr != want {
			t.Errorf("a long answer: got %+v", got)
		}
	}
	other.Close()
	got = disinto(t.Context(), environ, "status", "--address", other.URL)
	if want := "disinto: cannot ask the supervisor at " + other.URL + ": dial tcp"; got.code != exitFailed ||
		!strings.HasPrefix(got.stderr, want) {
		t.Errorf("an address without a supervisor: got %+v", got)
	}
}

// Without --state, a command calls the account's own supervisor or else the machine's.
func TestAskedByOthers(t *testing.T) {
	dir, system := t.TempDir(), t.TempDir()
	local := filepath.Join(dir, localState)
	if got := supervisorIn(local, false, system); got != local {
		t.Errorf("without a supervisor: got %s", got)
	}
	if err := os.WriteFile(filepath.Join(system, control.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := supervisorIn(local, false, system); got != system {
		t.Errorf("got %s, want the machine's supervisor", got)
	}
	if got := supervisorIn(local, true, system); got != local {
		t.Errorf("with --state: got %s", got)
	}
	if err := os.Mkdir(local, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(local, control.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := supervisorIn(local, false, system); got != local {
		t.Errorf("got %s, want the account's own supervisor", got)
	}
}

// The error for a wrong flag value is never in the words of Go's libraries.
func TestFlagValues(t *testing.T) {
	for _, cmd := range everyCommand() {
		flags := cmd.Flags()
		flags.VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"x", "99999999999999999999", "-1.5e999"} {
				err := flags.Set(f.Name, value)
				if err == nil {
					continue
				}
				err = flags.Parse([]string{"--" + f.Name + "=" + value})
				text := flagProblem(flags, err)
				if strings.Contains(text, "strconv") || strings.Contains(text, "time:") {
					t.Errorf("%s: got %s", cmd.CommandPath(), text)
				}
			}
		})
	}
	got := disinto(t.Context(), nil, "simulate", "--days", "x")
	if want := "disinto: --days: \"x\", want a number (disinto help simulate)\n"; got.code != exitUsage ||
		got.stderr != want {
		t.Errorf("got %+v, want %q", got, want)
	}
}

func TestSpan(t *testing.T) {
	for said, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "7d": 7 * 24 * time.Hour,
		"1.5d": 36 * time.Hour,
	} {
		if got, err := control.Span(said); err != nil || got != want {
			t.Errorf("%s: got %s, %v", said, got, err)
		}
	}
	for _, said := range []string{"", "d", "0d", "-1h", "x", "x d", "999999999d", "99999999999999999999d"} {
		_, err := control.Span(said)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("cannot read %q as a time", said)) {
			t.Errorf("%q: got %v", said, err)
		}
	}
}
