package nomad

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// leaderless is how many consecutive requests find no leader.
const leaderless = 3

// TestLeaderless: the servers lose their leader for a while at one of a session's requests, before or after they
// execute it. The test plays each request. The session starts once, and its outcome is reported correctly.
func TestLeaderless(t *testing.T) {
	onBoth(t, func(b *bench) {
		b.eachStep(func(step int, obeyed bool) { b.leaderlessAt(step, obeyed) })
	})
}

func (b *bench) leaderlessAt(step int, obeyed bool) {
	b.Helper()
	net := b.anotherNetwork()
	var requests atomic.Int64
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(requests.Add(1))
		if n < step || n >= step+leaderless {
			net.proxy.ServeHTTP(w, r)
			return
		}
		if n == step && obeyed {
			net.proxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		}
		http.Error(w, "rpc error: No cluster leader", http.StatusInternalServerError)
	})
	net.inside.Store(&serve)
	job, name := b.marked()
	o := newExecutor(net.server.URL).Run(b.Context(), job, nil)
	text, _ := os.ReadFile(name)
	if o.Result != agents.Failed || o.ExitCode != 4 || string(text) != "x\nend\n" {
		b.Errorf("no leader from request %d, executed %t: %+v; its program wrote %q", step, obeyed, o, text)
	}
	b.wantNothingLeft(job)
}

// TestLeaderLost: the servers have no leader while sessions are submitted, run and end. Each starts once, none is lost.
func TestLeaderLost(t *testing.T) {
	b := newBench(t)
	job := b.job(untilEnd + "exit 4")
	out, _ := b.run(job)
	b.fake.SetLeader(false)
	second := make(chan agents.Outcome, 1)
	late, name := b.marked()
	go func() { second <- b.exec.Run(b.Context(), late, nil) }()
	b.touch("end")
	b.eventually("the first session ends", func() bool { return b.allocs()[0].Really == "failed" })
	b.eventually("the second session is being submitted", func() bool { return b.exec.find(late.RunID) != nil })
	if n := len(b.allocs()); n != 1 {
		t.Errorf("%d allocations without a leader, want 1", n)
	}
	b.want(b.wait(out, func() { b.fake.SetLeader(true) }), agents.Failed, "exit status 4", 1)
	o := <-second
	if text, _ := os.ReadFile(name); o.Result != agents.Failed || string(text) != "x\nend\n" {
		t.Errorf("the second session: %+v; its program wrote %q", o, text)
	}
	b.wantNothingLeft(job)
	b.wantNothingLeft(late)
}

// TestLeaderKilled: the leader of three servers is killed twice while sessions begin and end. NOMAD_ADDR is the agent
// of a node, which finds another server.
func TestLeaderKilled(t *testing.T) {
	b := benchAt(t, real(t))
	control := agentsOf(t)
	const sessions = 40
	var all sync.WaitGroup
	var lost atomic.Int64
	began := time.Now()
	for i := range sessions {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Second) // sessions begin and end before, during and after
			job := b.job(fmt.Sprintf("sleep %d; exit %d", 2+i%7, i%3))
			job.Limits.Memory = 64 << 20
			sent := time.Now()
			o := b.exec.Run(b.Context(), job, func(agents.Started) {
				if took := time.Since(sent); took > 3*time.Second {
					b.Logf("session %d was sent at %s and began after %s", i, sent.Sub(began).Round(time.Second), took)
				}
			})
			if want := []agents.Result{agents.Done, agents.Failed, agents.Failed}[i%3]; o.Result != want || o.ExitCode != i%3 {
				lost.Add(1)
				b.Errorf("session %d: %+v", i, o)
			}
			b.wantNothingLeft(job)
		})
	}
	for range 2 {
		time.Sleep(10 * time.Second)
		leader := b.leader()
		b.Logf("%s: killing %s, the leader", time.Since(began).Round(time.Second), leader)
		control("kill", leader)
		next := ""
		b.eventually("another server leads", func() bool { next = b.leader(); return next != "" && next != leader })
		b.Logf("%s: %s leads", time.Since(began).Round(time.Second), next)
		control("start", leader)
	}
	all.Wait()
	if got := b.starts(); got != sessions {
		t.Errorf("%d programs started, want %d", got, sessions)
	}
	b.Logf("%d sessions in %s, %d with a wrong outcome", sessions, time.Since(began).Round(time.Second), lost.Load())
}

// leader returns the name of the leading server; empty while none leads.
func (b *bench) leader() string {
	b.Helper()
	var address string
	if _, err := b.client().call(b.Context(), http.MethodGet, "/status/leader", nil, nil, &address); err != nil {
		return ""
	}
	var known struct {
		Members []struct {
			Name string
			Tags map[string]string
		}
	}
	_, err := b.client().call(b.Context(), http.MethodGet, "/agent/members", nil, nil, &known)
	for _, m := range known.Members {
		if err == nil && strings.HasSuffix(address, ":"+m.Tags["port"]) {
			name, _, _ := strings.Cut(m.Name, ".")
			return name
		}
	}
	return ""
}
