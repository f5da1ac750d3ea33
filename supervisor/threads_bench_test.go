package supervisor_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// BenchmarkThreads measures the CPU time that a minute of a supervisor with 10,000 issues and 40 agents costs, on one
// thread and on 20. The forge answers from memory. "idle" has no work that could start; "busy" ends and starts two
// sessions a second. A run takes half a minute:
//
//	go test ./supervisor -run XXX -bench Threads -benchtime 1x
func BenchmarkThreads(b *testing.B) {
	for _, busy := range []bool{false, true} {
		for _, n := range []int{1, 20} {
			name := map[bool]string{false: "idle", true: "busy"}[busy]
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var took, ran time.Duration
				for b.Loop() {
					w := wide(b, n, busy)
					filed := w.Forge.Requests()
					var began time.Time
					var before time.Duration
					runFor(b, w, func() bool {
						time.Sleep(50 * time.Millisecond)
						switch {
						case w.Forge.Requests() < filed+2:
							return false
						case began.IsZero():
							began, before = time.Now(), cpu(b)
							return false
						}
						return time.Since(began) > 30*time.Second
					})
					took, ran = took+cpu(b)-before, ran+time.Since(began)
				}
				b.ReportMetric(took.Seconds()/ran.Minutes(), "cpu-s/min")
			})
		}
	}
}

// wide returns a world with 40 agents on n threads, and 10,000 issues. While it is busy, their sessions take 20 s.
func wide(b *testing.B, n int, busy bool) *simtest.World {
	w := simtest.New(b)
	w.Forge.Latency = 0
	like, dev := w.Config.Threads[0], w.Config.Agents[0]
	like.Backend, like.Slots, like.MaxSessions = threads.API, 1, 40/n
	w.Config.Threads, w.Config.Agents = nil, nil
	for i := range n {
		t := like
		t.Name, t.Agents = fmt.Sprintf("t%02d", i), nil
		for j := range 40 / n {
			a := dev
			a.Name, a.Thread = fmt.Sprintf("dev-%02d-%02d", i, j), t.Name
			a.Login, a.Token = a.Name, agents.Secret("token-of-"+a.Name)
			w.Forge.Tokens[a.Token.Reveal()] = a.Login
			t.Agents = append(t.Agents, a.Name)
			w.Config.Agents = append(w.Config.Agents, a)
		}
		w.Config.Threads = append(w.Config.Threads, t)
	}
	w.Usual()
	w.Config.Forge.MaxUnreviewed = 10_000
	for i := range 10_000 {
		at := w.Forge.Issue(fmt.Sprint("issue ", i))
		if !busy {
			w.Forge.Edit(at, func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelBlocked) })
		}
	}
	w.Exec.Script = func(job agents.Job, _ int) simtest.Script {
		return simtest.Script{Takes: 20 * time.Second, Do: func() { w.Forge.Open(job.Number, job.Agent) }}
	}
	return w
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
