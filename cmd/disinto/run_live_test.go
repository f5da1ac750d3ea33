package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/sim"
)

// liveFactory is the simulator's picture of the factory.
const liveFactory = `
[forge]
url = "http://forgejo:3000"
token = "t"
repos = ["o/r"]
[threads.t]
backend = "anthropic"
max_concurrent = 5
agents = ["dev-0", "dev-1", "dev-2", "dev-3", "dev-4"]
[roles.dev]
command = ["work"]
`

const (
	liveAgents = 5
	// liveScale is how many times faster than the simulator's load everything runs: a task of 96 s takes 5 s.
	liveScale = 20
	// liveHours is the length of the load: about fifty issues, filed in about a minute.
	liveHours = 0.35
)

// liveAgent sleeps as long as the load says for its issue, and records when it started and ended. It refuses the
// issue, so that no work remains.
const liveAgent = `
began=$(date +%s%N)
sleep "$(sed -n "${DISINTO_NUMBER}p" "$1")"
echo '{"outcome":"refused","reason":"slept"}' >"$DISINTO_RESULT"
echo "$DISINTO_NUMBER $DISINTO_AGENT $began $(date +%s%N)" >>"$2"
`

// A real supervisor with agents that sleep behaves as the simulator predicts for the same load: agents are idle
// beside work only while they are being matched. A match (the forge's answers, the claim, the start of a program)
// begins when the issue is filed and its agent is free. Its time is measured at each start, and is the simulator's
// Claim. The test compares the total time that agents were idle beside work. `make live` runs the test. It measures
// time, so nothing else should run beside it.
func TestLive(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("DISINTO_LIVE"), 10, 64)
	if seed == 0 {
		t.Skip("takes minutes and an otherwise idle machine: set DISINTO_LIVE to a seed, or run make live")
	}
	l := newLive(t, seed)
	l.play()
	got := l.measure()
	ours := sim.Ours
	ours.Latency, ours.Claim = 0, got.match
	want := sim.Trial{Config: decoded(t, liveFactory), Load: l.load, Policy: ours, Seed: 1}.Run()
	t.Logf("%d issues, a match takes %s on average and at most %s", len(l.tasks), got.match, got.longest)
	for _, c := range []struct {
		what      string
		got, want time.Duration
		within    float64
	}{
		{"agents idle beside work, in all", got.idle, want.Idle, 0.1},
		{"a gap on average", got.idle / time.Duration(len(l.tasks)), want.Idle / time.Duration(len(l.tasks)), 0.1},
		{"the last issue done after", got.last, want.Makespan, 0.05},
	} {
		off := c.got.Seconds()/c.want.Seconds() - 1
		t.Logf("%s: %s, simulated %s, %+.1f %%", c.what, c.got.Round(time.Millisecond),
			c.want.Round(time.Millisecond), 100*off)
		if math.Abs(off) > c.within {
			t.Errorf("%s: got %s, simulated %s", c.what, c.got, c.want)
		}
	}
	foretold(l.soak)
}

// live is a real factory's load.
type live struct {
	*soak
	shape sim.Load // as planned, in real time
	tasks []liveTask
	load  sim.Load // as measured, for the simulator
}

// liveTask has the times of an issue, since the start of the load.
type liveTask struct {
	agent             string
	filed, began, end time.Duration
}

func newLive(t *testing.T, seed uint64) *live {
	t.Helper()
	l := &live{soak: newSoak(t, soakThreads, 0, "0")}
	const busy, takes = 0.7, 83 // the share of the agents' time, and the seconds of a task
	kind := sim.Kind{
		PerDay: busy * liveAgents / takes * (24 * time.Hour).Seconds(), Together: 1, Minutes: takes / 60., Sigma: 0.9,
		Sessions: 1, Priority: 5,
	}
	l.shape = sim.MakeKinds([]sim.Kind{kind}, liveHours/24, seed)
	var naps strings.Builder
	for i := range l.shape {
		w := &l.shape[i]
		w.At, w.Sessions[0] = w.At/liveScale, w.Sessions[0]/liveScale
		fmt.Fprintf(&naps, "%.3f\n", w.Sessions[0].Seconds())
	}
	plan := filepath.Join(t.TempDir(), "naps")
	hooks := deadAddress(t)
	var b strings.Builder
	fmt.Fprintf(&b, "[forge]\nurl = %q\ntoken = \"$FORGE_TOKEN\"\nwebhook_secret = \"$WEBHOOK_SECRET\"\nrepos = [%q]\n",
		l.api.URL, soakRepo)
	fmt.Fprintf(&b, "[factory]\nstate = %q\nlisten_hooks = %q\n", l.state, hooks)
	fmt.Fprintf(&b, "[roles.dev]\non = \"issue\"\ncommand = [\"/bin/sh\", \"-c\", %q, \"live\", %q, %q]\n"+
		"sandbox_write = [%q]\n", liveAgent, plan,
		l.ledger, filepath.Dir(l.ledger))
	fmt.Fprintf(&b, "[threads.t]\nbackend = \"anthropic\"\nmax_concurrent = %d\nagents = [", liveAgents)
	for i := range liveAgents {
		fmt.Fprintf(&b, "\"dev-%02d\", ", i)
	}
	b.WriteString("]\n")
	for path, text := range map[string]string{l.config: b.String(), plan: naps.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.environ = append(l.environ, "WEBHOOK_SECRET=a secret")
	return l
}

// play files the issues at their times, and waits until all are done.
func (l *live) play() {
	if got := disinto(l.t.Context(), l.environ, "check", "--fix", "--config", l.config); got.code != exitDone {
		l.t.Fatalf("check --fix: got exit code %d\n%s", got.code, got.stdout)
	}
	binary := cmp.Or(os.Getenv("DISINTO_BINARY"), "/proc/self/exe")
	r := start(l.t, l.environ, binary, "run", "--yes", "--config", l.config)
	status(l.t, l.state, "the first scan of the forge", func(d *control.Document) bool { return d.Forge.OK })
	begin := time.Now()
	l.tasks = make([]liveTask, len(l.shape))
	for i := range l.shape {
		time.Sleep(l.shape[i].At - time.Since(begin))
		l.tasks[i].filed = time.Since(begin)
		l.file(i + 1)
	}
	eventually(l.t, "all sessions end", func() bool { return strings.Count(r.read(l.ledger), "\n") == len(l.tasks) })
	for line := range strings.Lines(r.read(l.ledger)) {
		var n int
		var agent string
		var began, end int64
		if _, err := fmt.Sscan(line, &n, &agent, &began, &end); err != nil {
			l.t.Fatalf("%q: %v", line, err)
		}
		task := &l.tasks[n-1]
		task.agent, task.began, task.end = agent, time.Unix(0, began).Sub(begin), time.Unix(0, end).Sub(begin)
		if task.began < 0 {
			l.t.Fatalf("the clock was set during the test: %q", line)
		}
	}
	r.signal(syscall.SIGTERM)
	r.wait()
}

// measured has the times from the ledger.
type measured struct {
	match, longest time.Duration // from when both the issue and its agent were available to the program's start
	idle           time.Duration // of all agents beside work, in total
	last           time.Duration
}

func (l *live) measure() (m measured) {
	freed := make(map[string]time.Duration)
	byStart := slices.Clone(l.tasks)
	slices.SortFunc(byStart, func(a, b liveTask) int { return cmp.Compare(a.began, b.began) })
	for i := range byStart {
		task := &byStart[i]
		took := task.began - max(task.filed, freed[task.agent])
		m.match += took / time.Duration(len(byStart))
		m.longest, m.last = max(m.longest, took), max(m.last, task.end)
		freed[task.agent] = task.end
	}
	for i := range l.tasks {
		task := &l.tasks[i]
		l.load = append(l.load, sim.Work{At: task.filed, Priority: 5, Sessions: []time.Duration{task.end - task.began}})
	}
	m.idle = l.idle()
	return m
}

// idle sums the time that agents are idle beside work. At each moment it counts the smaller of two numbers: idle
// agents, and items that wait.
func (l *live) idle() (sum time.Duration) {
	type change struct {
		at             time.Duration
		waiting, works int
	}
	var all []change
	for i := range l.tasks {
		task := &l.tasks[i]
		all = append(all, change{task.filed, 1, 0}, change{task.began, -1, 1}, change{task.end, 0, -1})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var now change
	for _, c := range all {
		sum += time.Duration(min(now.waiting, liveAgents-now.works)) * (c.at - now.at)
		now = change{c.at, now.waiting + c.waiting, now.works + c.works}
	}
	return sum
}

// measure distinguishes an agent that was idle beside work from one that was being matched.
func TestLiveMeasures(t *testing.T) {
	const second = time.Second
	l := &live{tasks: []liveTask{
		{"dev-00", 0, 1 * second, 10 * second},           // a match of a second
		{"dev-00", 2 * second, 11 * second, 20 * second}, // given to a busy agent, while four others were idle
	}}
	if m := l.measure(); m.match != second || m.longest != second || m.idle != 10*second || m.last != 20*second ||
		len(l.load) != 2 {
		t.Errorf("got %+v", m)
	}
}
