package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// needNetwork skips a test where sessions get no network of their own.
func needNetwork(t *testing.T) {
	t.Helper()
	if err := sandboxNetwork(); err != nil {
		t.Skip(err)
	}
}

// inOwnNetwork is a session's program: it serves its name on port 3000, says so in the first file, and waits for the
// second, by which another session does. Then it asks port 3000, and a port that leads to the machine.
func inOwnNetwork(args []string) int {
	name, mine, others, led := args[0], args[1], args[2], args[3]
	serve := func(address string) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Println(err)
			return
		}
		go func() {
			_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
		}()
	}
	serve("127.0.0.1:3000")
	serve("[::1]:3000")
	_, err := net.ListenPacket("udp4", "127.0.0.1:3000")
	if err = errors.Join(err, os.WriteFile(mine, nil, 0o666)); err != nil {
		fmt.Println(err)
		return 3
	}
	for !exists(others) {
		time.Sleep(5 * time.Millisecond)
	}
	for _, address := range []string{"127.0.0.1:3000", "[::1]:3000", "127.0.0.1:" + led} {
		answer, err := http.Get("http://" + address)
		if err != nil {
			fmt.Println(err)
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		fmt.Printf("%s ", text)
	}
	inside, _ := os.Readlink("/proc/self/ns/net")
	fmt.Println(inside)
	return 0
}

// Two sessions serve port 3000 at once, and each reaches its own server and the machine's port that its sandbox has.
// Afterwards no process is in their networks.
func TestOwnNetwork(t *testing.T) {
	needNetwork(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "the machine")
		}))
	}()
	led := l.Addr().(*net.TCPAddr).Port
	shared := filepath.Dir(newJob(t, "").Dir) + "/shared"
	if err := errors.Join(os.Mkdir(shared, 0o777), os.Chmod(shared, 0o777)); err != nil {
		t.Fatal(err)
	}
	start := func(name, other, user string) <-chan agents.Outcome {
		job := sandboxed(t, "")
		job.Command = helperCommand("in-own-network", name, shared+"/"+name, shared+"/"+other, itoa(led))
		job.User, job.Sandbox.Write = user, []string{shared}
		job.Sandbox.OwnNetwork, job.Sandbox.Egress, job.Sandbox.Connect = true, []string{}, []int{led}
		over := make(chan agents.Outcome, 1)
		go func() { over <- (&Executor{Reaper: reaper}).Run(t.Context(), job, nil) }()
		return over
	}
	second := ""
	if os.Geteuid() == 0 {
		second = stranger
	}
	one, two := start("one", "two", ""), start("two", "one", second)
	for name, over := range map[string]<-chan agents.Outcome{"one": one, "two": two} {
		o := <-over
		_, inside, said := strings.Cut(o.Tail, name+" "+name+" the machine net:")
		if o.Result != agents.Done || !said {
			t.Errorf("%s: outcome %+v", name, o)
		}
		links, _ := filepath.Glob("/proc/[0-9]*/ns/net")
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && to == "net:"+strings.TrimSpace(inside) {
				t.Errorf("%s is still in the network of session %s", link, name)
			}
		}
	}
}

// Two sessions run the recipe of docs/operations.md at once: each has a database at the usual port.
func TestOwnNetworkDatabase(t *testing.T) {
	needNetwork(t)
	needRoot(t)
	if _, err := exec.LookPath("initdb"); err != nil {
		t.Skip(err)
	}
	over := make(chan agents.Outcome)
	for _, name := range []string{"one", "two"} {
		job := sandboxed(t, `initdb -D $TMPDIR/pg -U dev >/dev/null &&
			pg_ctl -D $TMPDIR/pg -l $TMPDIR/pg.log -o "-p 5432 -k ''" -w start >/dev/null &&
			createdb -h 127.0.0.1 -U dev `+name+` && psql -h 127.0.0.1 -U dev -Atc 'select current_database()' `+name)
		job.User, job.Sandbox.OwnNetwork, job.Sandbox.Egress = stranger, true, []string{}
		job.Env = append(job.Env, "PATH="+os.Getenv("PATH"))
		go func() { over <- (&Executor{Reaper: reaper}).Run(t.Context(), job, nil) }()
	}
	said := ""
	for range 2 {
		o := <-over
		said += o.Tail + "\n"
	}
	if !strings.Contains(said, "\none\n") || !strings.Contains(said, "\ntwo\n") {
		t.Error(said)
	}
}

// What a session leaves behind in its network is found.
func TestOwnNetworkLeftover(t *testing.T) {
	needNetwork(t)
	word := token()
	stubborn := `(setsid env -i sh -c 'trap "" TERM HUP; while :; do sleep 0.1; done' %s &); exit 5`
	job := sandboxed(t, fmt.Sprintf(stubborn, word))
	job.Sandbox.OwnNetwork, job.Sandbox.Egress = true, []string{}
	if o := runJob(t, job); o.ExitCode != 5 || !strings.Contains(o.Tail, "it has a network of its own") {
		t.Errorf("outcome %+v", o)
	}
	noneAlive(t, word)
}

// A session keeps its network when its supervisor is killed: the port that leads to the machine, and its proxy. The
// next supervisor knows its connections.
func TestOwnNetworkOutlives(t *testing.T) {
	needNetwork(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held, asked := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/held" {
				asked <- struct{}{}
				<-held
			}
		}))
	}()
	k := startKeeper(t, `until [ -e $T/go ]; do sleep 0.05; done
		for to in `+l.Addr().String()+` evil.example; do
			curl -s --noproxy 127.0.0.1 -o /dev/null -w '%{http_code} ' http://$to >>$T/work/codes
		done
		curl -s --noproxy 127.0.0.1 http://`+l.Addr().String()+`/held
		exit 6`, "started", keeperEgress+"="+l.Addr().String(), keeperNetwork+"=own")
	k.await()
	e, runs := k.next()
	if err := os.WriteFile(k.dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 {
		t.Fatalf("%v continue", runs)
	}
	go func() {
		<-asked
		eventually(t, "the connection is observed", func() bool {
			e.observer.mu.Lock()
			defer e.observer.mu.Unlock()
			for w := range e.observer.all {
				return slices.Contains(w.state().Hosts, l.Addr().String())
			}
			return false
		})
		close(held)
	}()
	o := k.finish(e)
	if codes := read(k.dir + "/work/codes"); codes != "200 403" {
		t.Errorf("curl got %q, want 200 and 403\n%s", codes, read(k.dir+"/log"))
	}
	want := agents.Refusals{{Host: "evil.example:80", Rule: "evil.example:80", Times: 1}}
	if !slices.Equal(o.Refused, want) || o.Seen == nil || !slices.Contains(o.Seen.Hosts.Names, l.Addr().String()) {
		t.Errorf("outcome %+v, want %v", o, want)
	}
}

// The password of a session's proxy is the one of its environment, and its output is shown without it.
func TestProxyPassword(t *testing.T) {
	job := sandboxed(t, `echo "$HTTPS_PROXY"
		[ "${HTTPS_PROXY#http://session:$DISINTO_PROXY_PASSWORD@}" != "$HTTPS_PROXY" ]`)
	job.Sandbox.Egress, job.Secrets = []string{}, []string{agents.ProxyPassword + "=0123456789abcdef"}
	if o := runJob(t, job); o.Result != agents.Done || !strings.Contains(o.Tail, "http://session:[secret]@127.0.0.1:") {
		t.Errorf("outcome %+v", o)
	}
}

// Where the machine gives no network, a session shares the machine's, with its egress held, and a strict one does not
// start.
func TestNetworkShared(t *testing.T) {
	old := sandboxNetwork
	defer func() { sandboxNetwork = old }()
	sandboxNetwork = func() error { return errors.New("the profile forbids it") }
	for mode, want := range map[agents.SandboxMode]string{
		agents.SandboxAuto:   "it shares this machine's network: the profile forbids it",
		agents.SandboxStrict: "this machine gives no network of its own: the profile forbids it",
	} {
		job := sandboxed(t, "echo ran $HTTPS_PROXY")
		job.Sandbox.Mode, job.Sandbox.OwnNetwork, job.Sandbox.Egress = mode, true, []string{"example.org"}
		o := runJob(t, job)
		ran := strings.Contains(o.Tail, "ran http://session:")
		if !strings.Contains(o.Tail+o.Reason, want) || ran != (mode == agents.SandboxAuto) {
			t.Errorf("%s: outcome %+v", mode, o)
		}
	}
}
