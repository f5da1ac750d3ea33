package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
)

// serviceFile writes a factory.toml with services. Its forge does not answer; services must still run.
func serviceFile(t *testing.T, state, services string) string {
	t.Helper()
	path := filepath.Join(state, "factory.toml")
	text := fmt.Sprintf(`
[forge]
url = "http://127.0.0.1:1"
token = "token-of-the-supervisor"
repos = ["o/r"]
[factory]
state = %q
stop_grace = "1s"
max_log = "64K"
[threads.llama]
backend = "local"
base_url = "http://localhost:1/v1"
agents = ["dev-qwen"]
[agents.dev-qwen]
token = "token-of-the-agent"
[roles.dev]
command = ["true"]
`, state) + services
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// service returns a service of a status; the zero value if it is missing.
func service(d *control.Document, name string) control.ServiceDocument {
	i := slices.IndexFunc(d.Services, func(x control.ServiceDocument) bool { return x.Name == name })
	if i < 0 {
		return control.ServiceDocument{}
	}
	return d.Services[i]
}

// isIn returns a condition: all named services are in a state.
func isIn(state string, names ...string) func(*control.Document) bool {
	return func(d *control.Document) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return service(d, name).State != state })
	}
}

// A supervisor that is PID 1 runs services beside the agents. One dies and is restarted with delays. One fills its
// log, which stays within its bound. One forks into new sessions and ignores TERM. An upgrade leaves them running.
// TERM to the supervisor ends all of them, and no process remains.
func TestServicesOfPID1(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	t.Parallel()
	state := t.TempDir()
	path := serviceFile(t, state, `
[services.dying]
command = ["sh", "-c", "echo I die of token-of-the-agent; exit 3"]
[services.loud]
command = ["sh", "-c", "yes 'a line that is repeated' | head -n 40000; echo done; exec sleep 1000"]
[services.stubborn]
command = ["sh", "-c", "trap '' TERM; setsid sh -c 'sleep 1000' & echo $$; wait; sleep 1000"]
before = [["sh", "-c", "echo prepared > prepared"], ["test", "-e", "prepared"]]
ready = ["test", "-e", "prepared"]
[services.last]
command = ["sh", "-c", "env; exec sleep 1000"]
needs = ["stubborn"]
`)
	r := start(t, []string{"FORGE_TOKEN=token-of-the-supervisor"},
		"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", executable(t), "run", "--yes", "--config", path)
	before := status(t, state, "services run", func(d *control.Document) bool {
		return isIn("ready", "loud", "stubborn", "last")(d) && service(d, "loud").LastLine == "done" &&
			service(d, "dying").Fails >= 3
	})
	if dying := service(before, "dying"); dying.LastLine != "I die of [secret]" || !dying.NeedsPerson {
		t.Errorf("service dying: got %+v, want the secret hidden, and a person needed", dying)
	}
	told := func(line string) bool { return strings.HasPrefix(line, "service dying failed ") }
	if !slices.ContainsFunc(before.Problems, told) {
		t.Errorf("got problems %q, want one about service dying", before.Problems)
	}
	if info, err := os.Stat(service(before, "loud").Log); err != nil || info.Size() > 64<<10 ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("the log of service loud: got %v, %v, want at most 64 KB, readable only by the owner", info, err)
	}
	for _, secret := range []string{"token-of-the-supervisor", "token-of-the-agent"} {
		if strings.Contains(r.read(service(before, "last").Log), secret) {
			t.Errorf("a service has the token %s", secret)
		}
	}
	after := before
	if storms() {
		after = upgradesServices(t, state, before)
	}
	got := disinto(t.Context(), nil, "restart", "loud", "--state", state)
	if got.stdout != fmt.Sprintf("loud: restarted; process %d is ended first\n", service(after, "loud").PID) {
		t.Errorf("restart: got %+v", got)
	}
	status(t, state, "service loud has a new process", func(d *control.Document) bool {
		x := service(d, "loud")
		return x.State == "ready" && x.PID != service(after, "loud").PID && x.Restarts == 1
	})
	if got := disinto(t.Context(), nil, "logs", "last", "--config", path); !strings.Contains(got.stdout,
		"DISINTO_SERVICE=last\n") {
		t.Errorf("logs last: got %+v", got)
	}
	if err := syscall.Kill(onlyChild(t, r), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	said := r.read(r.stderr)
	first, second := strings.Index(said, "service last has ended"), strings.Index(said, "service stubborn has ended")
	late := strings.Contains(said, "stopped before every service had ended") // on a very busy machine
	if !late && (first < 0 || second < first) {
		t.Errorf("want service last to end before stubborn:\n%s", said)
	}
	if left := mentions(t, state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
}

// A oneshot ends before what needs it starts. A service has its variables and directory, and its output also goes to
// the supervisor's stdout. A person stops one, and starts it again. The stop of the supervisor asks the base of two
// services that ignore TERM to end, by its own signal, before it is killed.
func TestServiceKeys(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	path := serviceFile(t, state, `
[services.base]
command = ["sh", "-c", "trap 'echo asked; exit 0' INT; echo up; while :; do sleep 0.05; done"]
stop_signal = "INT"
stdout = true
[services.migrate]
command = ["sh", "-c", "echo $GREETING token-of-the-agent > greeting; echo in $PWD"]
oneshot = true
needs = ["base"]
env = { GREETING = "hello" }
cwd = "`+state+`"
stdout = true
[services.deaf]
command = ["sh", "-c", "trap '' TERM; echo deaf token-of-the-agent; while :; do sleep 0.05; done"]
needs = ["migrate", "base"]
stdout = true
[services.deafer]
command = ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]
needs = ["deaf"]
`)
	r := startDisinto(t, nil, "run", "--yes", "--config", path)
	status(t, state, "the services run", func(d *control.Document) bool {
		return isIn("ready", "base", "deaf", "deafer")(d) && isIn("done", "migrate")(d)
	})
	if got := r.read(filepath.Join(state, "greeting")); got != "hello token-of-the-agent\n" {
		t.Errorf("the oneshot wrote %q", got)
	}
	for _, verb := range []string{"stop", "start"} {
		var got result
		if got = disinto(t.Context(), nil, verb, "base", "--state", state); got.code != exitDone {
			t.Errorf("%s: got %+v", verb, got)
		}
		want := map[string]string{"stop": "stopped", "start": "ready"}[verb]
		status(t, state, "service base is "+want, isIn(want, "base"))
	}
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	want := "base | up\nmigrate | in " + state + "\ndeaf | deaf [secret]\nbase | asked\nbase | up\nbase | asked\n"
	if got := r.read(r.stdout); got != want {
		t.Errorf("got stdout\n%s", got)
	}
	if left := mentions(t, state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
}

// upgradesServices upgrades a supervisor whose services continue.
func upgradesServices(t *testing.T, state string, before *control.Document) (after *control.Document) {
	t.Helper()
	if got := disinto(t.Context(), nil, "upgrade", "--state", state); got.code != exitDone {
		t.Fatalf("upgrade: got %+v", got)
	}
	after = status(t, state, "services run", isIn("ready", "loud", "stubborn", "last"))
	for _, name := range []string{"loud", "stubborn", "last"} {
		if was, is := service(before, name), service(after, name); is.PID != was.PID || is.Restarts != 0 ||
			after.Upgrades != 1 {
			t.Errorf("%s: got process %d before and %d after %d upgrades, %d restarts", name, was.PID, is.PID,
				after.Upgrades, is.Restarts)
		}
	}
	return after
}

// A killed supervisor leaves its services running. The next one ends them before it starts its own, so no service
// runs twice.
func TestServiceOfKilled(t *testing.T) {
	leftToStorms(t, "TestEndStale of agents/process")
	t.Parallel()
	state := t.TempDir()
	twice := filepath.Join(state, "twice")
	path := serviceFile(t, state, fmt.Sprintf(`
[services.only]
command = ["sh", "-c", '''
	trap "" TERM HUP
	[ -e ../pid ] && kill -0 $(cat ../pid) 2>/dev/null && echo "$(cat ../pid) and $$" >> %s
	echo $$ > ../pid
	sleep 1000''']
`, twice))
	args := []string{"run", "--yes", "--config", path}
	first := startDisinto(t, nil, args...)
	before := status(t, state, "the service runs", isIn("ready", "only"))
	first.signal(syscall.SIGKILL)
	first.wait()
	second := startDisinto(t, nil, args...)
	after := status(t, state, "the second supervisor's service runs", func(d *control.Document) bool {
		return d.PID == second.pid && isIn("ready", "only")(d) && first.read(filepath.Join(state, "services/only/pid")) ==
			itoa(service(d, "only").PID)+"\n"
	})
	if service(after, "only").PID == service(before, "only").PID {
		t.Errorf("the service still has process %d", service(after, "only").PID)
	}
	if exists(twice) {
		t.Errorf("two processes of the service ran at once: %s", first.read(twice))
	}
	second.signal(syscall.SIGTERM)
	if code := second.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// A service is ready if its address answers with success. A redirect does not count.
func TestAskReady(t *testing.T) {
	var answer atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/other")
		if r.URL.Path == "/other" {
			w.WriteHeader(http.StatusOK)
			return
		}
		w.WriteHeader(int(answer.Load()))
	}))
	defer srv.Close()
	for status, want := range map[int32]string{
		200: "<nil>", 204: "<nil>", 302: "it answers 302 Found", 503: "it answers 503 Service Unavailable",
	} {
		answer.Store(status)
		if got := fmt.Sprint(checkReady(t.Context(), srv.URL+"/health")); got != want {
			t.Errorf("status %d: got %s, want %s", status, got, want)
		}
	}
	got := fmt.Sprint(checkReady(t.Context(), "http://127.0.0.1:1/health"))
	if !strings.HasSuffix(got, "connection refused") || strings.Contains(got, "Get") {
		t.Errorf("no listener: got %s, want connection refused", got)
	}
}

// If a service accepts the connection but does not answer, the check ends after its timeout and reports that.
func TestAskHanging(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer srv.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("no answer within 5s"))
	defer cancel()
	if got := fmt.Sprint(checkReady(ctx, srv.URL)); got != "no answer within 5s" {
		t.Errorf("got %s", got)
	}
}

// check reports a missing program and a missing account, a port that two services use, and an account with which an
// agent could end a service.
func TestCheckServices(t *testing.T) {
	state := t.TempDir()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(state, "closed")
	text, plain := filepath.Join(state, "text"), filepath.Join(state, "plain")
	for path, mode := range map[string]os.FileMode{closed + "/tool": 0o755, text: 0o755, plain: 0o644} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("echo\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := serviceFile(t, state, `
[services.a]
command = ["sh", "--port", "8080"]
grace = "30s"
[services.b]
command = ["no-such-server"]
before = [["no-such-preparation"]]
ready = "http://localhost:8080/health"
[services.c]
command = ["true"]
user = "no-such-account"
[services.d]
command = ["`+text+`"]
[services.e]
command = ["`+closed+`/tool"]
user = "nobody"
[services.f]
command = ["`+plain+`"]
[services.g]
command = ["true"]
cwd = "/no/such/folder"
[services.h]
command = ["tool"]
env = { PATH = "`+closed+`" }
[services.i]
command = ["./tool"]
cwd = "`+closed+`"
`)
	stranger := "e: cannot run " + closed + "/tool: nobody may not enter /"
	if os.Geteuid() != 0 {
		stranger = "e: cannot run it as nobody: "
	}
	restored := findSandbox
	defer func() { findSandbox = restored }()
	const shared = "a: it shares the account of dev-qwen, which could end it"
	findSandbox = func() (process.Support, error) { return process.Support{Complete: true}, nil }
	args := []string{"check", "--offline", "--config", path}
	if got := disinto(t.Context(), os.Environ(), args...); strings.Contains(got.stdout, shared) {
		t.Errorf("with a complete sandbox: got %s", got.stdout)
	}
	findSandbox = func() (process.Support, error) { return process.Support{}, errors.New("none") }
	got := disinto(t.Context(), os.Environ(), "check", "--offline", "--config", path)
	for _, want := range []string{
		"b: cannot find no-such-server: ", "b: cannot find no-such-preparation: ",
		"b: port 8080 is also the port of service a",
		`c: cannot run it as no-such-account: no account "no-such-account" on this system`,
		shared,
		"d: cannot run " + text + ": " + text + " is neither a program nor a script that begins with #!",
		"f: cannot run " + plain + ": not executable; chmod +x " + plain,
		"a: its grace of 30s is longer than stop_grace: a stop of disinto does not wait so long",
		stranger, "g: cwd /no/such/folder is no folder",
		"h: cannot run tool: " + closed + "/tool is neither a program nor a script that begins with #!",
		"i: cannot run ./tool: " + closed + "/tool is neither a program nor a script that begins with #!",
	} {
		if !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), want) {
			t.Errorf("want %q in the output for %s:\n%s", want, me.Username, got.stdout)
		}
	}
	if got.code != exitFailed {
		t.Errorf("got exit code %d, want %d", got.code, exitFailed)
	}
}

// A backend that does not answer is not a problem if a service serves it.
func TestCheckServed(t *testing.T) {
	path := serviceFile(t, t.TempDir(), "[services.llama]\ncommand = [\"sh\", \"--port\", \"1\"]\n")
	got := disinto(t.Context(), os.Environ(), "check", "--config", path)
	words := strings.Join(strings.Fields(got.stdout), " ")
	if want := "does not answer now; service llama should serve it"; !strings.Contains(words, want) ||
		strings.Contains(words, "start it, or") {
		t.Errorf("want %q in the output:\n%s", want, got.stdout)
	}
}

// logs prints a service's log without a supervisor. A service name cannot name another file.
func TestServiceLogLeft(t *testing.T) {
	state := t.TempDir()
	path := serviceFile(t, state, "[services.a]\ncommand = [\"true\"]\n")
	log := supervisor.ServiceLog(state, "a")
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte("one\ntwo of token-of-the-agent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := disinto(t.Context(), nil, "logs", "a", "-n", strconv.Itoa(1), "--config",
		path); got.stdout != "two of [secret]\n" {
		t.Errorf("logs a: got %+v", got)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	got := disinto(t.Context(), nil, "logs", "a", "--follow", "--config", path)
	if want := "cannot find the log of service a: it has printed nothing yet, or nothing since its log " + log; got.code !=
		exitFailed || !strings.Contains(got.stderr, want) {
		t.Errorf("logs a, without a log: got %+v, want %q", got, want)
	}
	for _, name := range []string{"../services/a", "a/../a", "..", "."} {
		if got := disinto(t.Context(), nil, "logs", name, "--config", path); got.code != exitFailed || got.stdout != "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
