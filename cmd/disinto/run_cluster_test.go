package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents/nomad/fakenomad"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/control"
)

// nodeTask is a task of the fake Nomad.
type nodeTask struct {
	child *process.Child

	mu    sync.Mutex // guards the fields below
	ended bool
}

// startTask starts a task as raw_exec does: without this process's environment and descriptors.
func startTask(t *testing.T) func(fakenomad.Command) (fakenomad.Process, error) {
	reaper := oneReaper(t)
	return func(c fakenomad.Command) (fakenomad.Process, error) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		child, err := reaper.Start(c.Path, append([]string{c.Path}, c.Args...), &syscall.ProcAttr{
			Env:   append(c.Env, "GORACE=atexit_sleep_ms=0"),
			Files: []uintptr{null.Fd(), c.Out.Fd(), os.Stderr.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		return &nodeTask{child: child}, err
	}
}

func (t *nodeTask) Signal(s os.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return os.ErrProcessDone
	}
	return syscall.Kill(t.child.PID, s.(syscall.Signal))
}

func (t *nodeTask) Kill() error { return t.Signal(syscall.SIGKILL) }

func (t *nodeTask) Wait() (code, signal int) {
	e := <-t.child.Exit()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if e.Status.Signaled() {
		return 128 + int(e.Status.Signal()), int(e.Status.Signal())
	}
	return e.Status.ExitStatus(), 0
}

// farm is a factory whose sessions run on a Nomad. Each session has its own issue, and writes to the issue's file
// when it starts and ends.
type farm struct {
	*soak
	fake   *fakenomad.Server // nil for a real Nomad
	nomad  *gateway
	forge  *gateway
	marks  string
	script string // the sessions' program
	extra  string // more lines of each [threads.X]
}

// onFarms runs a test with sessions on the fake Nomad, and on the real one at $NOMAD_ADDR.
func onFarms(t *testing.T, threads, issues int, test func(*farm)) {
	t.Parallel()
	for _, name := range []string{"fake", "real"} {
		t.Run(name, func(t *testing.T) {
			address := os.Getenv("NOMAD_ADDR")
			if name == "real" && address == "" {
				t.Skip("NOMAD_ADDR is not set")
			}
			t.Parallel()
			c := &farm{soak: newSoak(t, threads, issues, ""), marks: sharedDir(t), script: farmAgent}
			_ = os.Chmod(c.marks, 0o777)
			c.forge = newGateway(t, proxyTo(t, c.api.URL))
			if name == "fake" {
				c.fake = fakenomad.New(sharedDir(t), startTask(t))
				c.nomad = newGateway(t, c.fake)
				t.Cleanup(c.fake.Close)
			} else {
				c.nomad = newGateway(t, proxyTo(t, address))
			}
			test(c)
		})
	}
}

func proxyTo(t *testing.T, address string) http.Handler {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	return proxy
}

// sharedDir returns a folder that agents' accounts may enter.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	_ = os.Chmod(dir, 0o755)
	return dir
}

// farmAgent is the sessions' program. It works for $2 seconds, or until a file named go exists.
const farmAgent = `
echo "begin $DISINTO_RUN_ID $DISINTO_ATTEMPT" >>"$1/$DISINTO_NUMBER"
[ "$2" = go ] && { trap 'echo "heard $DISINTO_RUN_ID" >>"$1/$DISINTO_NUMBER"; exit 3' TERM
	while ! test -e "$1/go"; do test -d "$1" || exit 1; sleep 0.05; done; } || sleep "$2"
echo "end $DISINTO_RUN_ID" >>"$1/$DISINTO_NUMBER"
echo '{"outcome":"refused","reason":"marked"}' >"$DISINTO_RESULT"
`

// start starts a supervisor whose sessions take that many seconds, or wait for the file go.
func (c *farm) start(takes string) *running {
	c.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "[forge]\nurl = %q\ntoken = \"$FORGE_TOKEN\"\nrepos = [%q]\n\n", c.forge.server.URL, soakRepo)
	fmt.Fprintf(&b, "[factory]\nstate = %q\nstop_grace = \"2s\"\n%s\n", c.state, c.factory)
	fmt.Fprintf(&b, "[nomad]\naddress = %q\nprogram = %q\n\n", c.nomad.server.URL, executable(c.t))
	fmt.Fprintf(&b, "[roles.dev]\non = \"issue\"\nsandbox_write = [%q]\n", c.marks)
	fmt.Fprintf(&b, "command = [\"/bin/sh\", \"-c\", %q, \"agent\", %q, %q]\n", c.script, c.marks, takes)
	for i := range c.threads {
		fmt.Fprintf(&b, "\n[threads.t%02d]\nbackend = \"local\"\nagents = [\"dev-%02d\"]\ninterval = \"500ms\"\n", i, i)
		fmt.Fprintf(&b, "idle_interval = \"500ms\"\nexecutor = \"nomad\"\n%s\n", c.extra)
		fmt.Fprintf(&b, "[agents.dev-%02d]\nlimits = { memory = \"64M\" }\n", i)
	}
	if err := os.WriteFile(c.config, []byte(b.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return start(c.t, c.environ, executable(c.t), "run", "--yes", "--config", c.config)
}

// marked returns the lines that the sessions of an issue wrote.
func (c *farm) marked(number int) []string {
	text, _ := os.ReadFile(filepath.Join(c.marks, itoa(number)))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// runs counts the sessions that wrote a word.
func (c *farm) runs(word string) (n int) {
	files, _ := filepath.Glob(filepath.Join(c.marks, "[0-9]*"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		n += strings.Count(string(text), word+" ")
	}
	return n
}

func (c *farm) touch(name string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.marks, name), nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// past returns the sessions in the supervisor's history.
func (c *farm) past() (list []control.PastDocument) {
	c.t.Helper()
	got := disinto(c.t.Context(), nil, "history", "--json", "--state", c.state)
	var d control.HistoryDocument
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil {
		c.t.Fatalf("%v: %s%s", err, got.stdout, got.stderr)
	}
	return d.Sessions
}

// gateway is a proxy to a server. It kills the supervisor at one request, before or after the server handles it.
type gateway struct {
	server *httptest.Server
	to     http.Handler

	mu   sync.Mutex // guards the fields below
	fire *trigger   // nil for no trigger
}

// trigger selects the request at which the supervisor is killed. Gateways share one trigger.
type trigger struct {
	picks func(n int, r *http.Request) bool // n counts from 1
	after bool
	kill  func()

	mu    sync.Mutex // guards the fields below
	count int
	what  string // the request; empty until it comes
	done  chan struct{}
}

func newGateway(t *testing.T, to http.Handler) *gateway {
	t.Helper()
	g := &gateway{to: to}
	g.server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	return g
}

// arm sets the trigger.
func (g *gateway) arm(fire *trigger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fire = fire
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	fire := g.fire
	g.mu.Unlock()
	if fire == nil || !fire.hit(r) {
		g.to.ServeHTTP(w, r)
		return
	}
	if fire.after {
		g.to.ServeHTTP(httptest.NewRecorder(), r)
	}
	fire.kill()
	close(fire.done)
	panic(http.ErrAbortHandler)
}

// hit reports whether the trigger fires at a request. Reads of the forge do not count: they are many and change
// nothing. Queries that wait for news do not count either.
func (f *trigger) hit(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	read := r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/")
	if f.what != "" || read || r.URL.Query().Has("index") || r.URL.Query().Has("follow") {
		return false
	}
	f.count++
	if !f.picks(f.count, r) {
		return false
	}
	path := strings.NewReplacer("/api/v1/", "", "/v1/", "nomad: ").Replace(r.URL.Path)
	f.what = r.Method + " " + numbers.ReplaceAllString(path, "*")
	return true
}

// numbers matches path segments that contain a number, such as a run id.
var numbers = regexp.MustCompile(`[^/]*[0-9][^/]*`)

// orders returns the paths of the Nomad variables of this factory's sessions.
func (c *farm) orders() (paths []string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.state, "instance"))
	if err != nil {
		c.t.Fatal(err)
	}
	var list []struct{ Path string }
	c.call(http.MethodGet, "/vars?prefix=nomad/jobs/disinto-"+strings.TrimSpace(string(text)), nil, &list)
	for _, v := range list {
		paths = append(paths, v.Path)
	}
	return paths
}

// call sends a person's request to Nomad.
func (c *farm) call(method, path string, in, out any) {
	c.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.nomad.server.URL+"/v1"+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || json.Unmarshal(text, out) != nil {
		c.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
}
