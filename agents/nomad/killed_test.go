package nomad

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// killedSteps is the number of requests of a short session, rounded up.
const killedSteps = 14

// TestSupervisorKilled kills a supervisor before and after each of its requests. The next supervisor, whose journal has
// the run, resumes it: each program starts at most once, and no session is lost while its program runs.
func TestSupervisorKilled(t *testing.T) {
	onBoth(t, func(b *bench) {
		b.eachStep(func(step int, arrives bool) { b.killedAt(step, arrives) })
	})
}

// eachStep runs a test for each request of a session. The test breaks that request, before or after it arrives. With
// DISINTO_STORMS it does so four times, in more than 100 sessions; otherwise, on the fake, it breaks only one
// request, near the registration.
func (b *bench) eachStep(test func(step int, arrives bool)) {
	b.Helper()
	slots := make(chan bool, 4)
	var all sync.WaitGroup
	rounds, stormed := 1, os.Getenv("DISINTO_STORMS") != ""
	if stormed {
		rounds = 4
	}
	for n := range rounds * killedSteps * 2 {
		step, arrives := n/2%killedSteps+1, n%2 > 0
		if b.fake != nil && !stormed && n != 3 {
			continue
		}
		slots <- true
		all.Go(func() {
			test(step, arrives)
			<-slots
		})
	}
	all.Wait()
}

// killedAt runs a session whose supervisor is killed at request number step, before or after it arrives.
func (b *bench) killedAt(step int, arrives bool) {
	b.Helper()
	net := b.anotherNetwork()
	var mu sync.Mutex // guards number, and the start of changes: none starts once the supervisor is dead
	var number int
	var changes sync.WaitGroup // in progress: requests that a dead supervisor sent still complete
	killed := make(chan bool)
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		number++
		n := number
		passes := n < step || n == step && arrives
		change := r.Method != http.MethodGet && passes
		if change {
			changes.Add(1)
		}
		mu.Unlock()
		if change {
			defer changes.Done()
			r = r.WithContext(context.WithoutCancel(r.Context()))
			answer := httptest.NewRecorder()
			if net.proxy.ServeHTTP(answer, r); n < step {
				w.WriteHeader(answer.Code)
				_, _ = w.Write(answer.Body.Bytes())
				return
			}
		}
		switch {
		case n < step:
			net.proxy.ServeHTTP(w, r)
			return
		case n == step:
			close(killed)
		}
		panic(http.ErrAbortHandler)
	})
	net.inside.Store(&serve)
	job, name := b.marked()
	ctx, kill := context.WithCancelCause(b.Context())
	defer kill(nil)
	first := newExecutor(net.server.URL)
	ended := make(chan agents.Outcome, 1)
	go func() { ended <- first.Run(ctx, job, nil) }()
	select {
	case <-killed:
		kill(agents.ErrDetached)
		<-ended
		changes.Wait()
	case o := <-ended:
		b.wantKilled(step, arrives, o, name)
		return
	}
	b.wantKilled(step, arrives, b.exec.Run(b.Context(), agents.Job{RunID: job.RunID}, nil), name)
	b.wantNothingLeft(job)
}

// marked returns a short session whose program writes to its own file when it begins and ends.
func (b *bench) marked() (job agents.Job, name string) {
	b.Helper()
	job = b.job("")
	name = filepath.Join(b.dir, job.RunID)
	job.Command = []string{"/bin/sh", "-c", fmt.Sprintf("echo x >>%s; sleep 0.3; echo end >>%s; exit 4", name, name)}
	job.Limits.Memory = 64 << 20
	return job, name
}

// wantKilled checks the outcome of a session, and what its program wrote to a file.
func (b *bench) wantKilled(step int, arrives bool, o agents.Outcome, name string) {
	b.Helper()
	text, _ := os.ReadFile(name)
	began, over := strings.Count(string(text), "x"), strings.Contains(string(text), "end")
	switch {
	case o.Result == agents.Failed && o.ExitCode == 4 && began == 1 && over:
	case o.Result == agents.Lost && began == 0:
	default:
		b.Errorf("supervisor killed at request %d, arrived %t: %s (%s), its program started %d times, ended %t",
			step, arrives, o.Result, o.Reason, began, over)
	}
}

// TestHalfOrder: Nomad refuses half of the request that stores an order, which is all that a killed supervisor may have
// sent, and keeps nothing of it.
func TestHalfOrder(t *testing.T) {
	onBoth(t, func(b *bench) {
		job, _ := b.marked()
		url := b.address() + "/v1/var/" + variablePath(jobID(job.RunID))
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPut, url, strings.NewReader(`{"Items": {"order": "`))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			b.Errorf("got status %d, want %d", resp.StatusCode, http.StatusBadRequest)
		}
		b.wantNothingLeft(job)
	})
}

// address returns the address of the bench's Nomad, bypassing the breakable network.
func (b *bench) address() string {
	if b.fake != nil {
		return b.fake.server.URL
	}
	return os.Getenv("NOMAD_ADDR")
}

// TestCollectedReally: a real Nomad collects an allocation's folder before it is read.
func TestCollectedReally(t *testing.T) {
	t.Parallel()
	b := benchAt(t, real(t))
	job := b.job(untilEnd + `echo '{"outcome":"refused","reason":"too large"}' >$DISINTO_RESULT`)
	out, _ := b.run(job)
	b.net.setDown(true)
	b.touch("end")
	b.eventually("it ends", func() bool { a := b.list(job); return len(a) == 1 && !a[0].live() })
	path := "/client/allocation/" + b.list(job)[0].ID + "/gc"
	b.eventually("its folder is collected", func() bool {
		_, err := b.client().call(b.Context(), http.MethodGet, path, nil, nil, nil)
		_, left := b.client().getDocument(b.Context(), b.list(job)[0].ID)
		return err == nil && left != nil
	})
	b.want(b.wait(out, func() { b.net.setDown(false) }), agents.Refused, "cannot be read", 1)
}

// agentsOf returns a function that kills and starts agents of the real Nomad: $NOMAD_TEST_AGENTS kill|start
// server|NODE.
func agentsOf(t *testing.T) func(what, name string) {
	t.Helper()
	program := os.Getenv("NOMAD_TEST_AGENTS")
	if program == "" {
		t.Skip("NOMAD_TEST_AGENTS is not set")
	}
	return func(what, name string) {
		t.Helper()
		if out, err := exec.Command(program, what, name).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", what, name, err, out)
		}
	}
}

// hurry rewrites registrations so that Nomad declares an unreachable node lost after lostAfter.
func (b *bench) hurry(lostAfter time.Duration) {
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/jobs" {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				b.Error(err)
			}
			group := body["Job"].(map[string]any)["TaskGroups"].([]any)[0].(map[string]any)
			group["Disconnect"].(map[string]any)["LostAfter"] = lostAfter
			text, _ := json.Marshal(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		}
		b.net.proxy.ServeHTTP(w, r)
	})
	b.net.inside.Store(&serve)
}

// TestServerKilled: sessions end while the server process is gone for half a minute. No exit code is lost.
func TestServerKilled(t *testing.T) {
	b := benchAt(t, real(t))
	control := agentsOf(t)
	const sessions = 10
	var all sync.WaitGroup
	var began atomic.Int64
	for i := range sessions {
		all.Go(func() {
			job := b.job(untilEnd + fmt.Sprintf("sleep %d; exit %d", i, i%3))
			job.Limits.Memory = 64 << 20
			o := b.exec.Run(b.Context(), job, func(agents.Started) { began.Add(1) })
			if want := []agents.Result{agents.Done, agents.Failed, agents.Failed}[i%3]; o.Result != want || o.ExitCode != i%3 {
				b.Errorf("session %d: %+v", i, o)
			}
		})
	}
	b.eventually("all run", func() bool { return began.Load() == sessions && b.starts() == sessions })
	control("kill", "server")
	b.touch("end")
	time.Sleep(30 * time.Second)
	control("start", "server")
	all.Wait()
	if got := b.starts(); got != sessions {
		t.Errorf("%d programs started, want %d", got, sessions)
	}
}

// TestAgentKilled: a node's agent is gone for a minute, and Nomad declares the node lost after 8 s. The second start
// is refused, the slot stays taken while the first program runs, and its end is reported when the agent is back.
func TestAgentKilled(t *testing.T) {
	b := benchAt(t, real(t))
	control := agentsOf(t)
	b.hurry(8 * time.Second)
	job := b.job(`trap 'touch $T/heard; exit 0' TERM; ` + untilEnd)
	job.Limits.Memory = 64 << 20
	out, _ := b.run(job)
	node := b.list(job)[0].NodeName
	control("kill", node)
	defer control("start", node)
	began := time.Now()
	b.eventually("the second start is refused", func() bool {
		list := b.list(job)
		for i := range list {
			if x := list[i].exit(); x.ended && x.code == exitTaken {
				return true
			}
		}
		return false
	})
	b.Logf("the second start was refused after %s", time.Since(began).Round(time.Second))
	time.Sleep(max(0, time.Minute-time.Since(began)))
	if b.heard() {
		t.Error("the first program was ended while its agent was away")
	}
	o := b.wait(out, func() { control("start", node) })
	b.want(o, agents.Lost, "", 1)
	if !b.heard() {
		t.Error("the slot was free before the program had ended")
	}
}

// TestNodeGoneReally: a node's agent never comes back. The session counts as lost when its deadline has passed, but not
// earlier.
func TestNodeGoneReally(t *testing.T) {
	b := benchAt(t, real(t))
	control := agentsOf(t)
	job := b.job(untilEnd)
	job.Limits.Memory = 64 << 20
	out, _ := b.run(job)
	node := b.list(job)[0].NodeName
	control("kill", node)
	defer control("start", node)
	b.eventually("Nomad loses contact with the node", func() bool { return b.list(job)[0].ClientStatus == "unknown" })
	o := b.wait(out, func() { // another supervisor finds that the deadline has passed
		b.expire(job)
		next := newExecutor(b.address())
		go func() { out <- next.Run(b.Context(), agents.Job{RunID: job.RunID}, nil) }()
	})
	b.want(o, agents.Lost, "no longer heard from", 1)
	b.touch("end") // or the program would keep running
	if _, err := os.Stat(filepath.Join(b.dir, "heard")); err == nil {
		t.Error("the program got TERM")
	}
}
