package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// Three supervisors, each with a state directory and an agent, share one forge. The first is the hub and reads the
// others through a real sshd. The key of a fourth host is unknown. check reports the same hosts. An issue moves to
// the idle host, which starts it. At every moment each issue has one assignee.
//
// In make check a fifth host hangs, which costs each cycle its ten seconds. The hub is killed in the middle of a
// move, with the label written but not the assignee, and the next hub completes the move. Then the busy host is
// stopped.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.ssh.serve("stranger", exportOf(f.state("spark")))
	f.strange = []string{"stranger"}
	if storms() {
		f.ssh.serve("stuck", "echo $$ >>"+f.ssh.dir+"/stuck.pid; exec sleep 600")
		f.strange = append(f.strange, "stuck")
	}
	hub, iris := f.begin()
	check := startDisinto(t, f.environ, "check", "--config", filepath.Join(f.dir, "hub.toml"))
	f.checkDryRun(f.rebalance("--dry-run"))
	f.checkStatus()
	if code := check.wait(); code != exitFailed {
		t.Errorf("check: got exit code %d", code)
	}
	f.checkCheck(check.read(check.stdout))

	if storms() {
		defer func(asked chan struct{}) { <-asked }(f.kill(hub))
		f.gate.arm(nil)
		f.start("hub", "iris", "spark")
	} else if c := f.rebalance(); len(c.Moves) != 1 || c.Moves[0].State != fleet.MoveDone {
		t.Errorf("got the moves %+v", c.Moves)
	}
	d := status(t, f.state("spark"), "spark works", working)
	moved := []int{int(d.Sessions[0].Number)}
	labelled, sparks, irises := f.stolen(), f.assigned("dev-spark"), f.assigned("dev-iris")
	if !slices.Equal(moved, labelled) || !slices.Equal(moved, sparks) || len(irises) != threads.StealBusy+1 {
		t.Errorf("spark works on %v; got labelled %v, assigned to spark %v, to iris %v", moved, labelled, sparks,
			irises)
	}
	if storms() {
		f.hang(iris)
	}
	f.checkJournal()
}

// begin starts the hosts. Seven issues wait for iris, spark is idle, and the hub's own agent is paused.
func (f *testFleet) begin() (hub, iris *running) {
	f.t.Helper()
	f.ssh.serve("iris", exportOf(f.state("iris")))
	f.ssh.serve("spark", exportOf(f.state("spark")))
	f.pin("dev-iris", threads.StealBusy+2) // it works on one, and one more may move
	iris = f.start("iris")
	f.start("spark")
	hub = f.start("hub", append([]string{"iris", "spark"}, f.strange...)...)
	f.ready("hub")
	f.command("hub", "pause", "dev-hub")
	f.eventuallyExports("iris", `"state":"active"`)
	f.eventuallyExports("spark", `"idle":true`)
	return hub, iris
}

// kill kills the hub after the first write of a move. asked is closed when the command that requested the move has
// ended. That is some seconds later, when the next hub may already run.
func (f *testFleet) kill(hub *running) (asked chan struct{}) {
	f.t.Helper()
	f.gate.arm(func() { hub.signal(syscall.SIGKILL) })
	asked = make(chan struct{})
	go func() {
		defer close(asked)
		disinto(f.t.Context(), nil, "fleet", "rebalance", "--state", f.state("hub"))
	}()
	<-f.gate.killed
	hub.wait()
	f.t.Logf("killed after %q", f.gate.seen)
	if labelled, moved := f.stolen(), f.assigned("dev-spark"); len(labelled) != 1 || len(moved) > 0 {
		f.t.Errorf("at the kill: got labelled issues %v and moved issues %v, want one labelled and none moved",
			labelled, moved)
	}
	return asked
}

// hang stops iris, the busy host, and later continues it. Its waiting issues are moved away while its status is
// fresh, but not once the status is old. When iris continues, it leaves the moved issues alone.
func (f *testFleet) hang(iris *running) {
	f.t.Helper()
	iris.signal(syscall.SIGSTOP)
	f.t.Cleanup(func() { iris.signal(syscall.SIGCONT) })
	f.command("hub", "resume", "dev-hub")
	status(f.t, f.state("hub"), "dev-hub is idle", func(d *control.Document) bool {
		return len(d.Agents) == 1 && d.Agents[0].State == "idle"
	})
	f.pin("dev-iris", 1)
	if c := f.rebalance(); len(c.Moves) != 1 || c.Moves[0].From != "iris/dev-iris" || c.Moves[0].To != "dev-hub" {
		f.t.Errorf("from a host that hangs: got the moves %+v", c.Moves)
	}
	lost := int(status(f.t, f.state("hub"), "the hub works", working).Sessions[0].Number)

	f.age("iris", 3*time.Minute) // in place of waiting three minutes
	c := f.rebalance("--dry-run")
	if len(c.Unknown) != 1 || !strings.HasPrefix(c.Unknown[0], "iris: its status is 3m") || len(c.Moves) > 0 {
		f.t.Errorf("a host that hangs for three minutes: got unknown %q, moves %+v", c.Unknown, c.Moves)
	}

	iris.signal(syscall.SIGCONT)
	was := status(f.t, f.state("iris"), "iris works", working).Sessions[0].Number
	f.command("iris", "cancel", strconv.FormatInt(was, 10))
	d := status(f.t, f.state("iris"), "iris works on something else", func(d *control.Document) bool {
		return working(d) && d.Sessions[0].Number != was
	})
	if now := int(d.Sessions[0].Number); now == lost || !slices.Contains(f.assigned("dev-hub"), lost) {
		f.t.Errorf("iris works on #%d, after losing #%d; the hub has %v", now, lost, f.assigned("dev-hub"))
	}
}

// age makes a host's status as old as if its supervisor had been stopped for that time.
func (f *testFleet) age(host string, by time.Duration) {
	f.t.Helper()
	path := filepath.Join(f.state(host), fleet.FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		f.t.Fatal(err)
	}
	d["updated_at"] = time.Now().Add(-by)
	if text, err = json.Marshal(d); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// command runs a command on a host's supervisor.
func (f *testFleet) command(host string, args ...string) {
	f.t.Helper()
	if got := disinto(f.t.Context(), nil, append(args, "--state", f.state(host))...); got.code != exitDone {
		f.t.Fatalf("%v: got exit code %d: %s", args, got.code, got.stderr)
	}
}

// checkCheck checks what check reports about the same hosts.
func (f *testFleet) checkCheck(said string) {
	f.t.Helper()
	parts := []string{
		"ok     fleet     iris: its key is known, and it reports 1 agent", "ok     fleet     spark: its key",
		"wrong  fleet     stranger: ssh: exit status 255: ", "; connect to it once by hand",
	}
	if f.stuck() {
		parts = append(parts, "wrong  fleet     stuck: no answer within 10s; check that it is up")
	}
	for _, part := range parts {
		if !strings.Contains(said, part) {
			f.t.Errorf("check lacks %q:\n%s", part, said)
		}
	}
}

// checkDryRun checks the planned moves and the hosts that take no part.
func (f *testFleet) checkDryRun(c *fleet.Cycle) {
	f.t.Helper()
	calls := 2 + len(f.strange)
	if len(c.Moves) != 1 || len(c.Stays) != threads.StealBusy || c.Calls != calls || !c.DryRun {
		f.t.Errorf("got %d moves after %d calls, want one after %d: %+v", len(c.Moves), c.Calls, calls, c)
	}
	for _, m := range c.Moves {
		if m.From != "iris/dev-iris" || m.To != "spark/dev-spark" || m.State != fleet.MovePlanned ||
			!strings.Contains(m.Why, "has 6 waiting") {
			f.t.Errorf("got the move %+v", m)
		}
	}
	if len(c.Unknown) != len(f.strange) || !strings.HasPrefix(c.Unknown[0], "stranger: ssh: exit status 255: ") ||
		f.stuck() && c.Unknown[1] != "stuck: no answer within 10s" {
		f.t.Errorf("got unknown hosts %q", c.Unknown)
	}
	if got := f.assigned("dev-spark"); len(got) > 0 {
		f.t.Errorf("after a dry run: got moved issues %v", got)
	}
}

// checkStatus checks fleet status.
func (f *testFleet) checkStatus() {
	f.t.Helper()
	got := disinto(f.t.Context(), nil, "fleet", "status", "--state", f.state("hub"))
	for _, part := range []string{
		"(this)    dev-hub    dev         0        gated: dev-hub is paused", "iris      dev-iris   dev",
		"active: fleet/work#", "spark     dev-spark  dev", "unknown: ssh: exit status 255",
		"iris/dev-iris -> spark/dev-spark", fmt.Sprint(2+len(f.strange)) + " calls in", "dry run", "2 more issues stay",
	} {
		if !strings.Contains(got.stdout, part) {
			f.t.Errorf("fleet status lacks %q:\n%s", part, got.stdout)
		}
	}
	f.t.Logf("fleet status\n%s", got.stdout)
	var s fleet.Status
	raw := disinto(f.t.Context(), nil, "fleet", "status", "--json", "--state", f.state("hub"))
	err := json.Unmarshal([]byte(raw.stdout), &s)
	if err != nil || !s.Hub || len(s.Hosts) != 3+len(f.strange) || len(s.Cycles) != 1 {
		f.t.Errorf("--json: got %v, %s", err, raw.stdout)
	}
}

// checkJournal checks that no issue was started on two hosts.
func (f *testFleet) checkJournal() {
	f.t.Helper()
	began := make(map[string]string)
	for _, host := range []string{"hub", "iris", "spark"} {
		text, err := os.ReadFile(filepath.Join(f.state(host), "journal.jsonl"))
		if err != nil {
			f.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var r struct {
				Start, Open *struct{ Item struct{ Ref string } }
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				f.t.Fatal(err)
			}
			if r.Start == nil {
				continue
			}
			if other := began[r.Start.Item.Ref]; other != "" && other != host {
				f.t.Errorf("%s was started by %s and by %s", r.Start.Item.Ref, other, host)
			}
			began[r.Start.Item.Ref] = host
		}
	}
}

// testFleet is a forge with a repository, an sshd and the hosts.
type testFleet struct {
	t       *testing.T
	dir     string
	api     rest.API
	labels  []int64 // of issues that move without a skill label
	gate    *gate   // between the hub and the forge
	gateURL string
	ssh     *testSSH
	environ []string
	strange []string // hosts that do not answer
}

// stuck reports whether a host hangs.
func (f *testFleet) stuck() bool { return slices.Contains(f.strange, "stuck") }

func newTestFleet(t *testing.T) *testFleet {
	t.Helper()
	ssh := newTestSSH(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	local, err := localforge.New(localforge.Options{Dir: t.TempDir(), Run: forgeGit(oneReaper(t), os.Environ())})
	must(err)
	t.Cleanup(local.Close)
	server := httptest.NewServer(local)
	t.Cleanup(server.Close)
	must(local.AddUser("fleet", "", true))
	token, err := local.AddToken("fleet")
	must(err)
	must(local.AddRepo(t.Context(), "fleet", "work", map[string]string{"README.md": "# work\n"}))
	f := &testFleet{
		t: t, dir: t.TempDir(), api: rest.API{URL: server.URL, Token: token}, ssh: ssh,
		gate: &gate{
			forge: local, token: token, who: "supervisor", how: "write", at: 2, after: true, killed: make(chan struct{}),
		},
		environ: []string{"FORGE_TOKEN=" + token, "PATH=" + ssh.dir + ":" + os.Getenv("PATH")},
	}
	gated := httptest.NewServer(f.gate)
	t.Cleanup(gated.Close)
	f.gateURL = gated.URL
	for _, host := range []string{"hub", "iris", "spark"} {
		agent := "dev-" + host
		must(local.AddUser(agent, "", false))
		must(local.AddCollaborator("fleet", "work", agent, "write"))
		token, err := local.AddToken(agent)
		must(err)
		f.environ = append(f.environ, agents.TokenVar(agent)+"="+token)
	}
	for _, name := range []string{forge.LabelBacklog, fmt.Sprintf("priority/%d", threads.StealAnyPriority)} {
		var label struct{ ID int64 }
		must(f.api.Post(t.Context(), "/repos/fleet/work/labels", map[string]any{"name": name, "color": "#ffffff"}, &label))
		f.labels = append(f.labels, label.ID)
	}
	return f
}

func (f *testFleet) state(host string) string { return filepath.Join(f.dir, host) }

// pin creates issues that are assigned to an agent.
func (f *testFleet) pin(agent string, n int) {
	f.t.Helper()
	for i := range n {
		issue := map[string]any{"title": fmt.Sprint(agent, " ", i), "labels": f.labels, "assignees": []string{agent}}
		if err := f.api.Post(f.t.Context(), "/repos/fleet/work/issues", issue, nil); err != nil {
			f.t.Fatal(err)
		}
	}
}

// listed returns the open issues that were created for iris, and checks that each has one assignee.
func (f *testFleet) listed() map[int]fleetIssue {
	f.t.Helper()
	var issues []fleetIssue
	if err := f.api.Get(f.t.Context(), "/repos/fleet/work/issues?state=open&limit=50", &issues); err != nil {
		f.t.Fatal(err)
	}
	all := make(map[int]fleetIssue)
	for _, is := range issues {
		if !strings.HasPrefix(is.Title, "dev-iris") {
			continue
		}
		if slices.ContainsFunc(is.Labels, func(l struct{ Name string }) bool { return l.Name == forge.LabelCancelled }) {
			continue
		}
		if len(is.Assignees) != 1 {
			f.t.Errorf("#%d: got assignees %v, want one", is.Number, is.Assignees)
			continue
		}
		all[is.Number] = is
	}
	return all
}

type fleetIssue struct {
	Number    int
	Title     string
	Labels    []struct{ Name string }
	Assignees []struct{ Login string }
}

// assigned returns the numbers of an agent's issues.
func (f *testFleet) assigned(agent string) []int {
	f.t.Helper()
	all := f.listed()
	maps.DeleteFunc(all, func(_ int, is fleetIssue) bool { return is.Assignees[0].Login != agent })
	return slices.Sorted(maps.Keys(all))
}

// stolen returns the issues that carry the label of a steal from iris.
func (f *testFleet) stolen() []int {
	f.t.Helper()
	all := f.listed()
	maps.DeleteFunc(all, func(_ int, is fleetIssue) bool {
		return !slices.ContainsFunc(is.Labels,
			func(l struct{ Name string }) bool { return l.Name == forge.StolenFrom("iris") })
	})
	return slices.Sorted(maps.Keys(all))
}

// config writes a host's factory.toml. A host with others is the hub.
func (f *testFleet) config(host string, others ...string) (path string) {
	f.t.Helper()
	url := f.api.URL
	if host == "hub" {
		url = f.gateURL
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[forge]\nurl = %q\ntoken = \"$FORGE_TOKEN\"\nrepos = [\"fleet/work\"]\nbots = [", url)
	for _, other := range []string{"hub", "iris", "spark"} {
		if other != host {
			fmt.Fprintf(&b, "\"dev-%s\", ", other)
		}
	}
	fmt.Fprintf(&b, "]\n[factory]\nstate = %q\nmin_free_memory = \"0\"\nmin_free_disk = \"0\"\n", f.state(host))
	fmt.Fprintf(&b, "[roles.dev]\non = \"issue\"\ncommand = [\"sleep\", \"1000\"]\n")
	fmt.Fprintf(&b, "[threads.t]\nbackend = \"local\"\ninterval = \"500ms\"\nidle_interval = \"1s\"\n")
	fmt.Fprintf(&b, "agents = [\"dev-%s\"]\n", host)
	if len(others) > 0 {
		b.WriteString("[fleet]\nhub = true\n")
	}
	for _, other := range others {
		place := f.ssh.user + "@" + other
		if other == "iris" { // found by its name in the ssh configuration
			place = other
		}
		fmt.Fprintf(&b, "[[fleet.hosts]]\nname = %q\nssh = %q\n", other, place)
	}
	path = filepath.Join(f.dir, host+".toml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// start starts a host. The first time its journal says that its agent has been idle for long enough.
func (f *testFleet) start(host string, others ...string) *running {
	f.t.Helper()
	if err := os.Mkdir(f.state(host), 0o700); err == nil {
		now := time.Now().UTC()
		line := fmt.Sprintf("{\"at\":%q,\"agent\":{\"name\":\"dev-%s\",\"idle_since\":%q}}\n", now.Format(time.RFC3339), host,
			now.Add(-threads.StealIdle).Format(time.RFC3339))
		if err := os.WriteFile(filepath.Join(f.state(host), "journal.jsonl"), []byte(line), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	return startDisinto(f.t, f.environ, "run", "--yes", "--config", f.config(host, others...))
}

func (f *testFleet) ready(host string) {
	f.t.Helper()
	status(f.t, f.state(host), host+" has read the forge", func(d *control.Document) bool { return d.Forge.OK })
}

func (f *testFleet) rebalance(flags ...string) *fleet.Cycle {
	f.t.Helper()
	args := append([]string{"fleet", "rebalance", "--json", "--state", f.state("hub")}, flags...)
	got := disinto(f.t.Context(), nil, args...)
	var c fleet.Cycle
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.code != exitDone {
		f.t.Fatalf("fleet rebalance: got exit code %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	return &c
}

// eventuallyExports waits until a host's export contains a text.
func (f *testFleet) eventuallyExports(host, what string) {
	f.t.Helper()
	eventually(f.t, host+" exports "+what, func() bool {
		got := disinto(f.t.Context(), nil, "fleet", "export", "--state", f.state(host))
		return got.code == exitDone && strings.Contains(got.stdout, what)
	})
}

// testSSH is an sshd on loopback with a key per host. As in production, each key may run only its host's command.
type testSSH struct {
	t    *testing.T
	dir  string // also has the ssh that the hub runs
	user string
	port string
}

func newTestSSH(t *testing.T) *testSSH {
	t.Helper()
	sshd, err := process.Lookup("sshd", "", []string{"PATH=/usr/sbin:/usr/local/sbin:" + os.Getenv("PATH")})
	if err != nil {
		t.Skip("needs OpenSSH's sshd: ", err)
	}
	me, err := user.Current()
	if err != nil {
		t.Skip("needs a user with a name: ", err)
	}
	if os.Geteuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755) // sshd run by root needs it
	}
	_, port, err := net.SplitHostPort(deadAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &testSSH{t: t, dir: t.TempDir(), user: me.Username, port: port}
	s.keygen("hostkey")
	public, err := os.ReadFile(filepath.Join(s.dir, "hostkey.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("known_hosts", "known "+string(public), 0o600)
	s.write("authorized_keys", "", 0o600)
	s.write("ssh_config", "", 0o600)
	s.write("ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s/ssh_config \"$@\"\n", s.program("ssh"), s.dir), 0o700)
	s.write("sshd_config", fmt.Sprintf("ListenAddress 127.0.0.1\nPort %s\n"+
		"HostKey %[2]s/hostkey\nAuthorizedKeysFile %[2]s/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\n"+
		"PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n", s.port, s.dir), 0o600)
	var words bytes.Buffer
	test := process.Cmd{Argv: []string{sshd, "-t", "-f", s.dir + "/sshd_config"}, Stderr: &words}
	if err := oneReaper(t).Run(t.Context(), test); err != nil {
		t.Skipf("needs an sshd that runs here: %v: %s", err, words.String())
	}
	start(t, nil, sshd, "-D", "-e", "-f", s.dir+"/sshd_config")
	t.Cleanup(func() {
		text, _ := os.ReadFile(s.dir + "/stuck.pid")
		for word := range strings.FieldsSeq(string(text)) { // a pid for each connection
			if pid, err := strconv.Atoi(word); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return s
}

// serve makes a host run a command, whatever the client requests. A stranger's key stays unknown.
func (s *testSSH) serve(host, command string) {
	s.t.Helper()
	s.keygen(host)
	public, err := os.ReadFile(filepath.Join(s.dir, host+".pub"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.add("authorized_keys", fmt.Sprintf("restrict,command=%q %s", command, public))
	alias := "known"
	if host == "stranger" {
		alias = host
	}
	s.add("ssh_config", fmt.Sprintf("Host %s\n  HostName 127.0.0.1\n  Port %s\n  HostKeyAlias %s\n"+
		"  User "+s.user+"\n  IdentityFile %s/%s\n  IdentitiesOnly yes\n  UserKnownHostsFile %[4]s/known_hosts\n"+
		"  GlobalKnownHostsFile /dev/null\n", host, s.port, alias, s.dir, host))
}

func exportOf(state string) string {
	self, _ := os.Executable()
	return self + " fleet export --state " + state
}

func (s *testSSH) keygen(name string) {
	s.t.Helper()
	argv := []string{s.program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, name)}
	if err := oneReaper(s.t).Run(s.t.Context(), process.Cmd{Argv: argv}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testSSH) program(name string) string {
	s.t.Helper()
	path, err := process.Lookup(name, "", os.Environ())
	if err != nil {
		s.t.Skip("needs OpenSSH's client: ", err)
	}
	return path
}

func (s *testSSH) write(name, text string, mode os.FileMode) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testSSH) add(name, text string) {
	s.t.Helper()
	old, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(name, string(old)+text, 0o600)
}
