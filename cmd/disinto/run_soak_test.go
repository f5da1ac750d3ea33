package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const (
	soakRepo    = "soak/big"
	soakThreads = 20
	// soakWarm is the number of sessions before the first measurement of memory: heaps, caches and connections grow
	// at first.
	soakWarm = 200
	// soakGrowth is how much the supervisor may grow after that, in KiB. A thousand sessions that each leak a page
	// would be 4 MiB, and uncollected garbage is a few MiB.
	soakGrowth = 16 << 10
)

// soakAgent sleeps, leaves a process that escaped from its group and session, records in the ledger how it will end,
// and ends that way: with every possible exit status, and every tenth by a signal.
const soakAgent = `
(setsid sleep 1000 >/dev/null 2>&1 &)
sleep "$1"
code=$((DISINTO_NUMBER % 255 + 1)); [ $((DISINTO_NUMBER % 10)) = 0 ] && code=SIGKILL
echo "{\"outcome\":\"refused\",\"reason\":\"soaked\"}" >"$DISINTO_RESULT"
echo "$DISINTO_RUN_ID $DISINTO_NUMBER $code" >>"$2"
[ "$code" = SIGKILL ] && kill -KILL $$
exit $code
`

// A thousand sessions run through twenty threads of the binary of `make build`. Each exit status arrives once; no
// zombie, process, claim or occupied slot remains; memory, threads and descriptors do not grow. `make soak` runs it
// with sessions of a second. DISINTO_SOAK is the number of sessions, DISINTO_SOAK_TAKES their length, DISINTO_BINARY
// the program.
func TestSoak(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("DISINTO_SOAK"))
	if n == 0 {
		t.Skip("takes minutes: set DISINTO_SOAK to a number of sessions, or run make soak")
	}
	s := newSoak(t, soakThreads, n, cmp.Or(os.Getenv("DISINTO_SOAK_TAKES"), "0.05"))
	r := s.start()
	begin := time.Now()
	var warm, most vitals
	for done := 0; done < n; time.Sleep(200 * time.Millisecond) {
		done = s.look(r)
		now := vitalsOf(t, r.supervisor())
		most = most.max(now)
		if warm.rss == 0 && done >= min(soakWarm, n/2) {
			warm = now
		}
		if time.Since(begin) > 30*time.Minute {
			t.Fatalf("got %d of %d sessions in 30 minutes", done, n)
		}
	}
	took := time.Since(begin)
	status(t, s.state, "every issue waits for a person", func(d *control.Document) bool {
		busy := slices.ContainsFunc(d.Queue, func(q control.QueueDocument) bool { return q.Code != threads.SkipLabel })
		return len(d.Sessions) == 0 && !busy
	})
	last := vitalsOf(t, r.supervisor())
	s.checkRest(r, warm, last)
	t.Logf("%d sessions through %d threads in %s: %.1f/s", n, soakThreads, took.Round(time.Second),
		float64(n)/took.Seconds())
	t.Logf("after %d sessions: %s; at the end: %s; most: %s", min(soakWarm, n/2), warm, last, most)
	t.Logf("%d requests to the forge, %.1f per session; %.1f ms of processor time per session", s.requests,
		float64(s.requests)/float64(n),
		float64(last.cpu.Milliseconds())/float64(n))
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	s.checkBooks(n, r.read(filepath.Join(s.state, "journal.jsonl")))
	foretold(s)
	if left := mentions(t, s.state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
}

// soak is a forge with many issues, and a factory of many threads, each with one slot and one agent.
type soak struct {
	t        *testing.T
	threads  int
	takes    string // the seconds of a session
	api      rest.API
	label    int64
	state    string
	config   string
	ledger   string
	environ  []string
	requests int64
	parent   []string // a command line that runs the supervisor
	factory  string   // more lines of [factory]
	server   *httptest.Server
}

// hangUp ends the idle connections to the forge, which are no leak: until now their number depends on how many requests
// were made at once in the last 90 s. The forge keeps no connection from then on.
func (s *soak) hangUp() { s.server.Config.SetKeepAlivesEnabled(false) }

func newSoak(t *testing.T, threads, issues int, takes string) *soak {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := localforge.New(localforge.Options{Dir: t.TempDir(), Run: forgeGit(oneReaper(t), os.Environ())})
	must(err)
	server := httptest.NewServer(f)
	t.Cleanup(func() { server.Close(); f.Close() })
	must(f.AddUser("soak", "", true))
	token, err := f.AddToken("soak")
	must(err)
	must(f.AddRepo(t.Context(), "soak", "big", map[string]string{"README.md": "# big\n"}))
	dir := t.TempDir()
	s := &soak{
		t: t, threads: threads, takes: takes, api: rest.API{URL: server.URL, Token: token},
		state: filepath.Join(dir, "state"), config: filepath.Join(dir, "factory.toml"),
		ledger: filepath.Join(t.TempDir(), "ledger"), environ: []string{"FORGE_TOKEN=" + token}, server: server,
	}
	for i := range threads {
		agent := fmt.Sprintf("dev-%02d", i)
		must(f.AddUser(agent, "", false))
		must(f.AddCollaborator("soak", "big", agent, "write"))
		token, err := f.AddToken(agent)
		must(err)
		s.environ = append(s.environ, agents.TokenVar(agent)+"="+token)
	}
	var label struct{ ID int64 }
	must(s.api.Post(t.Context(), "/repos/"+soakRepo+"/labels", map[string]any{"name": "backlog", "color": "#ffffff"},
		&label))
	s.label = label.ID
	for i := range issues {
		s.file(i + 1)
	}
	return s
}

// file creates an issue with the label backlog.
func (s *soak) file(n int) {
	s.t.Helper()
	issue := map[string]any{"title": fmt.Sprint("issue ", n), "labels": []int64{s.label}}
	if err := s.api.Post(s.t.Context(), "/repos/"+soakRepo+"/issues", issue, nil); err != nil {
		s.t.Fatal(err)
	}
}

// start writes factory.toml and starts the supervisor.
func (s *soak) start() *running {
	s.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "[forge]\nurl = %q\ntoken = \"$FORGE_TOKEN\"\nrepos = [%q]\n\n[factory]\nstate = %q\n%s", s.api.URL,
		soakRepo, s.state, s.factory)
	fmt.Fprintf(&b, "\n[roles.dev]\non = \"issue\"\ncommand = [\"/bin/sh\", \"-c\", %q, \"soak\", %q, %q]\n"+
		"sandbox_write = [%q]\n", soakAgent,
		s.takes, s.ledger, filepath.Dir(s.ledger))
	for i := range s.threads {
		fmt.Fprintf(&b, "\n[threads.t%02d]\nbackend = \"local\"\nmax_concurrent = 1\nagents = [\"dev-%02d\"]\n", i, i)
	}
	if err := os.WriteFile(s.config, []byte(b.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	binary := os.Getenv("DISINTO_BINARY")
	if binary == "" {
		binary, _ = os.Executable()
	}
	r := start(s.t, s.environ, append(s.parent, binary, "run", "--yes", "--config", s.config)...)
	status(s.t, s.state, "the supervisor answers", func(*control.Document) bool { return true })
	return r
}

// look checks the invariants that hold at any time, and returns the number of sessions that ended.
func (s *soak) look(r *running) (done int) {
	s.t.Helper()
	d := status(s.t, s.state, "the supervisor answers", func(*control.Document) bool { return true })
	for _, thread := range d.Threads {
		if n := len(thread.Slots[0].Agents); n > 1 {
			s.t.Errorf("got %d agents in the slot of %s", n, thread.Name)
		}
	}
	if len(d.Sessions) > s.threads {
		s.t.Errorf("got %d sessions in %d slots", len(d.Sessions), s.threads)
	}
	if len(d.Problems) > 0 || d.Forge.Error != "" {
		s.t.Errorf("got problems %q, forge error %q", d.Problems, d.Forge.Error)
	}
	s.requests = d.Forge.Requests
	text, _ := os.ReadFile(filepath.Join(s.state, "journal.jsonl"))
	return bytes.Count(text, []byte(`"end":`))
}

// checkRest checks the supervisor after its work is done.
func (s *soak) checkRest(r *running, warm, last vitals) {
	s.t.Helper()
	if last.rss > warm.rss+soakGrowth {
		s.t.Errorf("the supervisor grew from %d to %d KiB", warm.rss, last.rss)
	}
	if last.fds > warm.fds {
		s.t.Errorf("got %d descriptors at rest, but %d while working", last.fds, warm.fds)
	}
	if last.children > 0 {
		s.t.Errorf("got %d children at rest, including zombies", last.children)
	}
	d := status(s.t, s.state, "the supervisor answers", func(*control.Document) bool { return true })
	for _, thread := range d.Threads {
		if len(thread.Slots[0].Agents) > 0 {
			s.t.Errorf("the slot of %s is occupied", thread.Name)
		}
	}
	eventually(s.t, "the last claims are released, a moment after their sessions", func() bool {
		var left []struct{ Number int }
		err := s.api.Get(s.t.Context(), "/repos/"+soakRepo+"/issues?state=all&labels=in-progress", &left)
		return err == nil && len(left) == 0
	})
}

// checkBooks compares the agents' ledger with the supervisor's journal: both have the same sessions with the same
// exit statuses, and each issue once.
func (s *soak) checkBooks(n int, journal string) {
	s.t.Helper()
	if begun, ended := s.checkRuns(n, journal); begun != n || ended != n {
		s.t.Errorf("got %d sessions begun and %d ended in the journal; want %d of each", begun, ended, n)
	}
}

// checkRuns does so for the sessions whose programs ran: a kill may have lost others before their programs began. It
// returns how many sessions began and ended.
func (s *soak) checkRuns(n int, journal string) (starts, ends int) {
	s.t.Helper()
	type end struct{ Run, Exit string }
	begun, ended := map[string]bool{}, map[string]string{}
	for line := range strings.Lines(journal) {
		var r struct{ Start, Open, End *end }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		switch {
		case r.Start != nil:
			begun[r.Start.Run] = true
		case r.Open != nil: // it ran when the journal was compacted
			begun[r.Open.Run] = true
		case r.End != nil && ended[r.End.Run] != "":
			s.t.Errorf("session %s ended twice", r.End.Run)
		case r.End != nil:
			ended[r.End.Run] = r.End.Exit
		}
	}
	ledger, err := os.ReadFile(s.ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	told, issues := 0, map[string]bool{}
	for line := range strings.Lines(string(ledger)) {
		f := strings.Fields(line)
		told++
		issues[f[1]] = true
		if ended[f[0]] != f[2] || !begun[f[0]] {
			s.t.Errorf("%s of #%s ended with %s, but the journal has %q", f[0], f[1], f[2], ended[f[0]])
		}
	}
	if told != n || len(issues) != n {
		s.t.Errorf("got %d sessions of %d issues in the ledger, want %d of each", told, len(issues), n)
	}
	return len(begun), len(ended)
}

// vitals are the resources of a process.
type vitals struct {
	rss, own, threads, fds, children int // rss and own in KiB; own without what the kernel can read again from a file
	cpu                              time.Duration
}

func (v vitals) String() string {
	return fmt.Sprintf("%.1f MiB, of which %.1f its own, %d threads, %d descriptors", float64(v.rss)/1024,
		float64(v.own)/1024, v.threads, v.fds)
}

func (v vitals) max(o vitals) vitals {
	return vitals{
		max(v.rss, o.rss), max(v.own, o.own), max(v.threads, o.threads), max(v.fds, o.fds), max(v.children, o.children),
		max(v.cpu, o.cpu),
	}
}

func vitalsOf(t *testing.T, pid int) (v vitals) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", pid)
	text, err := os.ReadFile(dir + "status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		number, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			v.rss = number
		case "RssAnon":
			v.own = number
		case "Threads":
			v.threads = number
		}
	}
	if fds, err := os.ReadDir(dir + "fd"); err == nil { // only root may read another account's
		v.fds = len(fds)
	}
	lists, _ := filepath.Glob(dir + "task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		v.children += len(strings.Fields(string(text)))
	}
	stat, _ := os.ReadFile(dir + "stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	if f := strings.Fields(rest); len(f) > 12 {
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		v.cpu = time.Duration(user+system) * (time.Second / 100) // a hundred ticks a second on every Linux
	}
	return v
}
