package supervisor_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// BenchmarkNextExec measures the supervisor's own time from the end of a session to the start of the next program in
// its slot: judging, journalling with fsync, scan, decision and claim, with a forge that answers at once.
func BenchmarkNextExec(b *testing.B) {
	const sessions = 200
	var gap, worst time.Duration
	n := 0
	for b.Loop() {
		w := simtest.New(b)
		w.Forge.Latency = 0
		w.Config.Threads, w.Config.Agents = w.Config.Threads[1:], w.Config.Agents[:1]
		w.Config.Threads[0].Slots, w.Config.Threads[0].MaxSessions = 1, 1
		for i := range sessions {
			w.Forge.Issue(fmt.Sprint("issue ", i))
		}
		w.Exec.Script = func(job agents.Job, _ int) simtest.Script {
			return simtest.Script{Do: func() { w.Forge.Open(job.Number, job.Agent) }}
		}
		runFor(b, w, func() bool { return len(w.Exec.Runs()) == sessions })
		runs := w.Exec.Runs()
		for i := range runs[1:] {
			g := runs[i+1].Begin.Sub(runs[i].End)
			gap, worst = gap+g, max(worst, g)
			n++
		}
	}
	b.ReportMetric(float64(gap.Microseconds())/float64(n)/1000, "ms/next-exec")
	b.ReportMetric(float64(worst.Microseconds())/1000, "ms-worst")
}

// BenchmarkHook measures the time from a web hook about a new issue to the start of its agent, in an idle factory,
// with a forge that answers at once.
func BenchmarkHook(b *testing.B) {
	var took, worst time.Duration
	for b.Loop() {
		w := simtest.New(b)
		w.Forge.Latency = 0
		w.Config.Forge.WebhookSecret = hookSecret
		for i := range w.Config.Threads {
			w.Config.Threads[i].Interval, w.Config.Threads[i].IdleInterval = time.Hour, time.Hour
		}
		s := &supervisor.Supervisor{Forge: w.Forge.Client(), Executor: w.Exec, Config: w.Config, StateDir: w.Dir}
		h := s.HookHandler()
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for s.Document().Forge.LastScan.IsZero() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // for the other thread's first tick
		w.Forge.Issue("one")
		began := time.Now()
		if got := send(h, aboutUs, "X-Forgejo-Signature", sign(hookSecret, aboutUs)); got != 202 {
			b.Fatalf("a web hook: got status %d, want 202", got)
		}
		for len(w.Exec.Runs()) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		one := w.Exec.Runs()[0].Begin.Sub(began)
		took, worst = took+one, max(worst, one)
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/1000, "ms/start")
	b.ReportMetric(float64(worst.Microseconds())/1000, "ms-worst")
}

// BenchmarkIdle measures the memory of an idle supervisor, without its forge's facts.
func BenchmarkIdle(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		w := simtest.New(b)
		runFor(b, w, func() bool {
			runtime.GC()
			runtime.ReadMemStats(&after)
			return w.Forge.Requests() > 1
		})
	}
	b.ReportMetric(float64(after.HeapInuse)/(1<<20)-float64(before.HeapInuse)/(1<<20), "MiB-heap")
	b.ReportMetric(float64(after.StackInuse)/(1<<20), "MiB-stack")
}

// runFor runs a supervisor in real time until a condition holds.
func runFor(b *testing.B, w *simtest.World, so func() bool) {
	s := &supervisor.Supervisor{Forge: w.Forge.Client(), Executor: w.Exec, Config: w.Config, StateDir: w.Dir}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for !so() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
