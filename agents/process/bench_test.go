package process

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// BenchmarkSpawn measures from the fork to the end of a program that does nothing.
func BenchmarkSpawn(b *testing.B) {
	for b.Loop() {
		c, err := reaper.Start("/bin/true", []string{"true"}, &syscall.ProcAttr{})
		if err != nil {
			b.Fatal(err)
		}
		<-c.Exit()
	}
}

// BenchmarkCommand is BenchmarkSpawn through Run, with a search in PATH and a pipe.
func BenchmarkCommand(b *testing.B) {
	for b.Loop() {
		var out nothing
		if err := reaper.Run(context.Background(), Cmd{Argv: []string{"true"}, Stdout: &out}); err != nil {
			b.Fatal(err)
		}
	}
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkSession measures a whole session of a program that does nothing: folders, shim, program, its end, the
// sweep, the outcome. start/op is the part until the program runs. Sessions without and with a sandbox alternate, so
// that both see the same machine; sandbox/op is the difference. Both figures are medians, which other load shifts
// less than means.
//
// The case etc hides a file in /etc, such as factory.toml, so that every other entry of /etc needs a rule. In the
// case ephemeral each port that the kernel gives to servers of tests needs a rule. In the cases egress
// and network both have a sandbox, and one an egress, or a network of its own with it.
func BenchmarkSession(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkSession(b, agents.Sandbox{}) })
	b.Run("etc", func(b *testing.B) { benchmarkSession(b, agents.Sandbox{Hide: []string{"/etc/hostname"}}) })
	b.Run("egress", func(b *testing.B) { benchmarkSession(b, agents.Sandbox{Egress: []string{"example.org"}}) })
	b.Run("network", func(b *testing.B) {
		benchmarkSession(b, agents.Sandbox{Egress: []string{"example.org"}, OwnNetwork: true})
	})
	b.Run("ephemeral", func(b *testing.B) { benchmarkSession(b, agents.Sandbox{Ephemeral: true}) })
}

func benchmarkSession(b *testing.B, sandbox agents.Sandbox) {
	dir := b.TempDir()
	sandbox.Hide, sandbox.Connect = append(sandbox.Hide, dir), []int{22, 443, 3000, 8080}
	e := &Executor{Reaper: reaper}
	first := agents.Sandbox{Mode: agents.SandboxOff}
	if sandbox.Mode = agents.SandboxAuto; sandbox.Egress != nil {
		first = sandbox
		first.Egress, first.OwnNetwork = nil, false
	}
	var start [2][]float64
	for i := 0; b.Loop(); i++ {
		for with, sandbox := range []agents.Sandbox{first, sandbox} {
			id := fmt.Sprintf("i%s-%d-%d", token(), i, with)
			begin := b.Elapsed()
			o := e.Run(context.Background(), agents.Job{
				RunID: id, Command: []string{"/bin/true"}, Dir: dir + "/work", Home: dir + "/home",
				LogPath: dir + "/log", ResultPath: dir + "/result/r.json",
				Env:     []string{"PATH=/bin:/usr/bin", "DISINTO_RUN_ID=" + id},
				Sandbox: sandbox,
			}, func(agents.Started) { start[with] = append(start[with], float64(b.Elapsed()-begin)/1e6) })
			if o.Result != agents.Done {
				b.Fatalf("outcome %+v, want done", o)
			}
		}
	}
	median := func(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
	b.ReportMetric(median(start[0]), "start-ms/op")
	b.ReportMetric(median(start[1])-median(start[0]), "sandbox-ms/op")
}

// BenchmarkOrphans makes 10,000 orphans end at once, and measures from their release until the last one is reaped.
// Another process forks them, outside the measured time.
func BenchmarkOrphans(b *testing.B) {
	const orphans = 10_000
	for b.Loop() {
		b.StopTimer()
		before := orphansOf(reaper)
		var ready, release [2]int
		if syscall.Pipe2(ready[:], syscall.O_CLOEXEC) != nil || syscall.Pipe2(release[:], syscall.O_CLOEXEC) != nil {
			b.Fatal("cannot make pipes")
		}
		argv := helperCommand("nursery", itoa(orphans))
		c, err := reaper.Start(argv[0], argv, &syscall.ProcAttr{Files: []uintptr{uintptr(release[0]), uintptr(ready[1]), 2}})
		if err != nil {
			b.Fatal(err)
		}
		<-c.Exit() // its children are ours now
		_ = syscall.Close(release[0])
		_ = syscall.Close(ready[1])
		b.StartTimer()
		_ = syscall.Close(release[1])
		for orphansOf(reaper) < before+orphans {
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		_ = syscall.Close(ready[0])
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/10000-orphans")
}

// BenchmarkSweep measures one look at every process of the machine, environments included, as at the end of each
// session.
func BenchmarkSweep(b *testing.B) {
	var env environ
	n := 0
	for b.Loop() {
		n = 0
		if err := tree.Walk(func(p tree.Process) { n++; env.runID(p.PID) }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/process")
}

// BenchmarkLook measures one look at ten sessions, one of which has a process.
func BenchmarkLook(b *testing.B) {
	var list []*observations
	for range 10 {
		r := &run{shim: tree.ID{PID: 1 << 30}, job: agents.Job{Command: []string{"agent"}}}
		list = append(list, newObservations(r, 0, nil))
	}
	c, err := reaper.Start("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{})
	if err != nil {
		b.Fatal(err)
	}
	list[0].root = os.Getpid()
	for b.Loop() {
		observe(list)
	}
	_ = syscall.Kill(c.PID, syscall.SIGKILL)
	<-c.Exit()
}
