package nomad

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/nomad/fakenomad"
)

// bench is an executor on a Nomad, connected by a network that can break, and a folder to which programs write.
type bench struct {
	*testing.T
	fake *fake // nil with a real Nomad
	net  *network
	exec *Executor
	dir  string // $T of the programs

	direct func() *client
}

// newBench returns a bench on a fake.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	f := newFake(t)
	b := benchAt(t, f.server.URL)
	b.fake, b.exec.detour = f, 100*time.Millisecond
	return b
}

func benchAt(t *testing.T, address string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "nomad-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	_ = os.Chmod(dir, 0o755)
	n := newNetwork(t, address)
	direct := sync.OnceValue(func() *client { return newClient(func() Config { return environConfig(address) }) })
	return &bench{T: t, net: n, exec: newExecutor(n.server.URL), dir: dir, direct: direct}
}

// onBoth runs a test on the fake, and on the real Nomad at $NOMAD_ADDR.
func onBoth(t *testing.T, test func(*bench)) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) { test(newBench(t)) })
	t.Run("real", func(t *testing.T) {
		address := real(t)
		t.Parallel()
		test(benchAt(t, address))
	})
}

// network is a proxy between an executor and its Nomad.
type network struct {
	server *httptest.Server
	down   atomic.Bool
	lose   func(*http.Request) bool         // whether to lose the answer to a request
	proxy  http.Handler                     // forwards to Nomad
	inside atomic.Pointer[http.HandlerFunc] // replaces all of the above; nil for none
}

func newNetwork(t *testing.T, address string) *network {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.Transport = newTransport(func() Config { return environConfig(address) })
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	return networkBy(t, proxy)
}

// anotherNetwork shares the first network's proxy: a real Nomad accepts 100 connections per address.
func (b *bench) anotherNetwork() *network { return networkBy(b.T, b.net.proxy) }

func networkBy(t *testing.T, proxy http.Handler) *network {
	t.Helper()
	n := &network{proxy: proxy, lose: func(*http.Request) bool { return false }}
	n.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside := n.inside.Load()
		switch {
		case inside != nil:
			(*inside)(w, r)
			return
		case n.down.Load():
			panic(http.ErrAbortHandler)
		case n.lose(r):
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		n.setDown(true)
		n.server.Close()
	})
	return n
}

// setDown breaks all connections, or allows new ones.
func (n *network) setDown(down bool) {
	n.down.Store(down)
	if down {
		n.server.CloseClientConnections()
	}
}

// list returns the allocations of a job, as Nomad shows them.
func (b *bench) list(job agents.Job) []allocation {
	b.Helper()
	list, err := b.client().allocations(b.Context(), jobID(job.RunID))
	if err != nil {
		b.Error(err)
	}
	return list
}

// nodes returns the number of nodes.
func (b *bench) nodes() string {
	b.Helper()
	list, err := b.client().listNodes(b.Context())
	if err != nil {
		b.Error(err)
	}
	return fmt.Sprint(len(list))
}

// client returns a client that bypasses the network, with few connections: a real Nomad accepts 100 per address.
func (b *bench) client() *client {
	return b.direct()
}

// job returns a session of a shell script, in which $T is the folder of the test. Each program that starts adds a line
// to the file starts.
func (b *bench) job(script string) agents.Job {
	b.Helper()
	instance := fmt.Sprintf("i%d%d", time.Now().UnixNano(), serial.Add(1))
	return agents.Job{
		RunID: instance + "-1", Instance: instance, Agent: "dev-test", Kind: agents.KindIssue, Repo: "o/r", Number: 1,
		Command: []string{"/bin/sh", "-c", "echo x >>$T/starts; " + script}, Workspace: "dev-test/o_r_1", HomeKey: "dev-test",
		Env: []string{"T=" + b.dir}, Secrets: []string{"FORGE_TOKEN=hunter2hunter2hunter2"},
		Sandbox: inSandbox(b.dir),
		MaxLog:  1 << 20, Timeout: time.Hour, Stall: time.Hour, Grace: 300 * time.Millisecond,
	}
}

// inSandbox is the sandbox of a program that writes to a folder. A session without an account of its own needs one.
func inSandbox(dir string) agents.Sandbox {
	return agents.Sandbox{Mode: agents.SandboxAuto, Write: []string{dir}, AnyPort: true}
}

var serial atomic.Int64

const untilEnd = "while ! test -e $T/end; do sleep 0.05; done; "

// run starts a job and waits until its program runs.
func (b *bench) run(job agents.Job) (out chan agents.Outcome, end context.CancelCauseFunc) {
	b.Helper()
	ctx, end := context.WithCancelCause(b.Context())
	began := make(chan bool, 1)
	out = make(chan agents.Outcome, 1)
	go func() { out <- b.exec.Run(ctx, job, func(agents.Started) { began <- true }) }()
	select {
	case <-began:
	case o := <-out:
		b.Fatalf("the program did not start: %+v", o)
	}
	b.eventually("its program writes", func() bool { return b.starts() > 0 })
	return out, end
}

func (b *bench) starts() int {
	text, _ := os.ReadFile(filepath.Join(b.dir, "starts"))
	return strings.Count(string(text), "x")
}

func (b *bench) touch(name string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), nil, 0o644); err != nil {
		b.Fatal(err)
	}
}

// heard reports whether the program of a session got TERM and ended itself.
func (b *bench) heard() bool {
	_, err := os.Stat(filepath.Join(b.dir, "heard"))
	return err == nil
}

func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("not true after two minutes: %s", what)
		}
	}
}

// want compares an outcome, and how often the program started.
func (b *bench) want(o agents.Outcome, result agents.Result, reason string, starts int) {
	b.Helper()
	if o.Result != result || !strings.Contains(o.Reason, reason) {
		b.Errorf("the outcome is %s (%s), want %s (%s)", o.Result, o.Reason, result, reason)
	}
	if got := b.starts(); got != starts {
		b.Errorf("the program started %d times, want %d", got, starts)
	}
}

// wait calls over and returns the outcome, which must not exist before.
func (b *bench) wait(out chan agents.Outcome, over func()) agents.Outcome {
	b.Helper()
	select {
	case o := <-out:
		b.Errorf("Run returned too early: %+v", o)
		return o
	default:
	}
	over()
	return <-out
}

// allocs returns the fake's allocations.
func (b *bench) allocs() []fakenomad.Alloc { return b.fake.Allocs() }

// TestRegisterAnswerLost: a job whose registration got no answer is registered again under the same name, and starts
// once.
func TestRegisterAnswerLost(t *testing.T) {
	onBoth(t, func(b *bench) {
		var lost atomic.Int64
		b.net.lose = func(r *http.Request) bool {
			return r.Method == http.MethodPut && r.URL.Path == "/v1/jobs" && lost.Add(1) <= 2
		}
		job := b.job(untilEnd + "exit 4")
		out, _ := b.run(job)
		b.want(b.wait(out, func() { b.touch("end") }), agents.Failed, "exit status 4", 1)
		if list := b.list(job); lost.Load() != 3 || len(list) != 1 {
			b.Errorf("the job was registered %d times and has %d allocations, want 3 and 1", lost.Load(), len(list))
		}
	})
}

// TestServerDown: the exit code of a session that ends while no server answers is reported later.
func TestServerDown(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job(untilEnd + "exit 4")
		out, _ := b.run(job)
		b.net.setDown(true)
		b.touch("end")
		b.eventually("it ends", func() bool { a := b.list(job); return len(a) == 1 && a[0].ClientStatus == "failed" })
		b.want(b.wait(out, func() { b.net.setDown(false) }), agents.Failed, "exit status 4", 1)
	})
}

// TestNodeUnheard: a node loses contact and comes back. Its session ran on, and started only once.
func TestNodeUnheard(t *testing.T) {
	b := newBench(t)
	out, _ := b.run(b.job(untilEnd))
	b.fake.Disconnect(b.allocs()[0].Node, false)
	b.touch("end")
	b.eventually("it ends", func() bool { return b.allocs()[0].Really == "complete" })
	b.want(b.wait(out, func() { b.fake.Reconnect(b.allocs()[0].Node) }), agents.Done, "", 1)
}

// TestSecondStart: Nomad starts a session a second time on another node while the first still runs. The fence refuses
// the second, and the slot stays taken until the first has ended too.
func TestSecondStart(t *testing.T) {
	b := newBench(t)
	job := b.job(`trap 'touch $T/heard; exit 0' TERM; ` + untilEnd)
	job.Grace = 10 * time.Second // until KILL: on a busy machine 300 ms were too short for a touch
	out, _ := b.run(job)
	first := b.allocs()[0]
	b.fake.Disconnect(first.Node, true)
	b.eventually("the second one is refused", func() bool {
		list := b.allocs()
		return len(list) == 2 && list[1].Really == "failed"
	})
	second := b.allocs()[1]
	if code := second.Events[1].Details["exit_code"]; code != "75" {
		t.Errorf("the second start ended with %s, want 75", code)
	}
	o := b.wait(out, func() { b.fake.Reconnect(first.Node) })
	b.want(o, agents.Lost, "stopped in Nomad", 1)
	b.eventually("the first program gets TERM", b.heard)
}

// TestNodeGone: a node that never comes back holds the slot until its session's deadline. The session is then lost.
func TestNodeGone(t *testing.T) {
	b := newBench(t)
	job := b.job("sleep 1000")
	out, _ := b.run(job)
	b.fake.Disconnect(b.allocs()[0].Node, true)
	b.eventually("the second one is refused", func() bool {
		list := b.allocs()
		return len(list) == 2 && list[1].Client == "failed"
	})
	o := b.wait(out, func() { // the deadline is minutes away, so expire it and start another executor
		b.expire(job)
		next := newExecutor(b.fake.server.URL)
		next.detour = time.Second // no server ever reaches the node
		go func() { out <- next.Run(b.Context(), agents.Job{RunID: job.RunID}, nil) }()
	})
	b.want(o, agents.Lost, "no longer heard from", 1)
	b.wantNothingLeft(job)
}

// expire moves the deadline of a session into the past.
func (b *bench) expire(job agents.Job) {
	b.Helper()
	id := jobID(job.RunID)
	order, err := b.client().getOrder(b.Context(), id)
	if err != nil || order == nil {
		b.Fatalf("getOrder = %v, %v, want an order", order, err)
	}
	order.Deadline = time.Now().Add(-2 * time.Minute)
	if err := b.client().putOrder(b.Context(), id, order); err != nil {
		b.Fatal(err)
	}
}

// wantNothingLeft checks that the order is deleted, and that Unreported does not list the run.
func (b *bench) wantNothingLeft(job agents.Job) {
	b.Helper()
	order, err := b.client().getOrder(b.Context(), jobID(job.RunID))
	runs, keptErr := b.exec.Unreported(b.Context(), job.Instance)
	if order != nil || len(runs) > 0 || err != nil || keptErr != nil {
		b.Errorf("the order is %v (%v), and Unreported = %q, %v, want neither", order, err, runs, keptErr)
	}
}

// TestStoppedByPerson: a job that a person stops counts as lost, not as the session's failure.
func TestStoppedByPerson(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job(`trap 'exit 3' TERM; ` + untilEnd)
		out, _ := b.run(job)
		b.want(b.wait(out, func() { b.remove(job, "") }), agents.Lost, "it was stopped in Nomad", 1)
		b.wantNothingLeft(job)
	})
}

// TestPurged: a person purges a job. Nomad forgets it at once, but its node still runs it for a moment. The slot is
// free only when the node has had time to kill the job.
func TestPurged(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job(`trap 'sleep 0.2; touch $T/heard; exit 3' TERM; ` + untilEnd)
		job.Grace = 5 * time.Second
		if b.fake != nil {
			b.exec.silence = 2 * time.Second
		}
		out, _ := b.run(job)
		b.want(b.wait(out, func() { b.remove(job, "purge=true") }), agents.Lost, "its job was removed", 1)
		b.eventually("its program ends", b.heard) // may follow: the executor waits only 2 s here
		b.wantNothingLeft(job)
	})
}

// remove deletes a job as a person would.
func (b *bench) remove(job agents.Job, query string) {
	b.Helper()
	values, _ := url.ParseQuery(query)
	if _, err := b.client().call(b.Context(), http.MethodDelete, "/job/"+jobID(job.RunID), values, nil, nil); err != nil {
		b.Error(err)
	}
}

// TestPurgedUnplaced: a job that is purged before it has a node is lost.
func TestPurgedUnplaced(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job("true")
		job.Nodes = []agents.NodeRule{{Attribute: "meta.llama", Value: "box9"}}
		out := make(chan agents.Outcome, 1)
		go func() { out <- b.exec.Run(b.Context(), job, nil) }()
		b.eventually("it is registered", func() bool {
			left, err := b.client().rebuildOrder(b.Context(), jobID(job.RunID))
			return err == nil && left != nil
		})
		b.want(b.wait(out, func() { b.remove(job, "purge=true") }), agents.Lost, "was removed", 0)
	})
}

// TestCollected: if Nomad has collected the allocation's folder, the exit code gives the class of the outcome.
func TestCollected(t *testing.T) {
	b := newBench(t)
	job := b.job(untilEnd + `echo '{"outcome":"refused","reason":"too large"}' >$DISINTO_RESULT`)
	out, _ := b.run(job)
	b.fake.Disconnect(b.allocs()[0].Node, false)
	b.touch("end")
	b.eventually("it ends", func() bool { return b.allocs()[0].Really == "failed" })
	o := b.wait(out, func() {
		_ = os.RemoveAll(b.allocs()[0].Dir)
		b.fake.Reconnect(b.allocs()[0].Node)
	})
	b.want(o, agents.Refused, "cannot be read", 1)
	if o.Claimed {
		t.Error("the outcome counts as reported by the session")
	}
}

// TestDocumentLate: the executor waits for the document while no server has a connection to the node, and while a
// server that was just started does not know the allocation.
func TestDocumentLate(t *testing.T) {
	for _, tt := range []struct {
		words string
		agent bool
	}{{fakenomad.NoPath, false}, {fakenomad.NoPath, true}, {fakenomad.Unknown, false}, {fakenomad.Unknown, true}} {
		t.Run(fmt.Sprint(tt.words, ", agent=", tt.agent), func(t *testing.T) {
			b := newBench(t)
			b.fake.SetAgent(tt.agent)
			b.exec.detour = time.Hour
			var reads atomic.Int64
			b.net.lose = func(r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/v1/client/fs/cat/") {
					reads.Add(1)
				}
				return false
			}
			out, _ := b.run(b.job(untilEnd + "exit 4"))
			b.fake.SetSilent(tt.words)
			b.touch("end")
			b.eventually("it ends", func() bool { return b.allocs()[0].Client == "failed" })
			before := reads.Load() // an incomplete document is read four times
			b.eventually("the document is read repeatedly", func() bool { return reads.Load() > before+10 || len(out) > 0 })
			b.want(b.wait(out, func() { b.fake.SetSilent("") }), agents.Failed, "exit status 4", 1)
		})
	}
}

// TestLogUnknown: the message of a server or an agent about an unknown allocation is not a log, but a log of the same
// length is.
func TestLogUnknown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a session under another account")
	}
	onBoth(t, func(b *bench) {
		_ = os.Chmod(b.dir, 0o777)
		id := "22bc5ce4-1111-1111-1111-111111111111"
		if b.fake != nil {
			id = "00000000-alloc"
		}
		line := strings.Repeat("x", len(fmt.Sprintf("Unknown allocation %q", id))-1) + "\n"
		job := b.job("printf " + strings.ReplaceAll(line, "\n", "'\\n'"))
		job.User, job.Sandbox = "nobody", agents.Sandbox{} // which adds no line
		b.want(b.exec.Run(b.Context(), job, nil), agents.Done, "", 1)
		for _, agent := range []bool{false, true} {
			if b.fake != nil {
				b.fake.SetAgent(agent)
			}
			var log strings.Builder
			if err := b.exec.Log(b.Context(), job.RunID, false, &log); err != nil || log.String() != line {
				b.Errorf("the log is %q, %v, want %q", &log, err, line)
			}
			log.Reset()
			none := &logReader{client: b.client(), alloc: id, out: &log, most: defaultLog}
			if err := none.read(b.Context(), false); !isMissing(err) || log.Len() > 0 {
				b.Errorf("the log of an unknown allocation is %q, %v, want a missing one", &log, err)
			}
		}
	})
}

// TestNoPlace: a job that fits on no node is withdrawn after half a minute, with the constraint in the reason.
func TestNoPlace(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job("true")
		job.Nodes = []agents.NodeRule{{Attribute: "meta.llama", Value: "box9"}}
		b.exec.patience = time.Second
		o := b.exec.Run(b.Context(), job, func(agents.Started) { b.Error("the session started") })
		b.want(o, agents.NoPlace, b.nodes()+" without ${meta.llama} = box9", 0)
		b.wantNothingLeft(job)
	})
}

// TestNoProgram: a node without disinto cannot run sessions.
func TestNoProgram(t *testing.T) {
	onBoth(t, func(b *bench) {
		cfg := b.exec.Config()
		cfg.Program = "/no/such/disinto"
		b.exec.Config = func() Config { return cfg }
		b.want(b.exec.Run(b.Context(), b.job("true"), nil), agents.NoPlace, "cannot start it: ", 0)
	})
}

// TestMemory: a session that exceeds its memory limit fails with that reason. Only a real Nomad enforces limits.
func TestMemory(t *testing.T) {
	t.Parallel()
	address := real(t)
	b := benchAt(t, address)
	job := b.job(`head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null`)
	job.Limits.Memory = 64 << 20
	o := b.exec.Run(t.Context(), job, nil)
	b.want(o, agents.Failed, "out of memory", 1)
}

// TestWrapperKilled: if session-run is killed, its session ends. Unless Nomad reports a lack of memory, that says
// nothing about the work.
func TestWrapperKilled(t *testing.T) {
	b := newBench(t)
	b.exec.silence = 100 * time.Millisecond
	out, _ := b.run(b.job("echo $$ >$T/pid; " + untilEnd))
	b.eventually("it runs", func() bool { _, err := os.Stat(filepath.Join(b.dir, "pid")); return err == nil })
	o := b.wait(out, func() { _ = b.allocs()[0].Process.Kill() })
	b.want(o, agents.Killed, "Nomad reports no lack of memory", 1)
	text, _ := os.ReadFile(filepath.Join(b.dir, "pid"))
	var pid int
	_, _ = fmt.Sscan(string(text), &pid)
	b.eventually("its program is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// TestSecrets: only the requests for the variable contain secrets; log and document contain none.
func TestSecrets(t *testing.T) {
	b := newBench(t)
	job := b.job(untilEnd + `echo the word is $FORGE_TOKEN`)
	out, _ := b.run(job)
	b.want(b.wait(out, func() { b.touch("end") }), agents.Done, "", 1)
	for _, text := range b.fake.Requests() {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a request contains a secret: %s", text)
		}
	}
	var log strings.Builder
	err := b.exec.Log(t.Context(), job.RunID, true, &log)
	if err != nil || !strings.HasSuffix(log.String(), "\nthe word is [secret]\n") {
		t.Errorf("the log is %q, %v, want the secret redacted", &log, err)
	}
	for _, name := range []string{"stdout", filepath.Join("local", documentFile)} {
		text, err := os.ReadFile(filepath.Join(b.allocs()[0].Dir, name))
		if err != nil || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s contains %q, %v, want no secret", name, text, err)
		}
	}
	b.wantNothingLeft(job)
}

// TestTooLong: a session whose order exceeds a variable is refused before anything starts.
func TestTooLong(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job("true")
		job.Env = append(job.Env, "X="+strings.Repeat("x", 64<<10))
		b.want(b.exec.Run(b.Context(), job, nil), agents.NoPlace, "too long", 0)
	})
}
