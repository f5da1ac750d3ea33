package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// firstStart returns when an agent's first session started, or -1.
func (r *Report) firstStart(agent string) time.Duration {
	for i := range r.Spans {
		if r.Spans[i].Agent == agent {
			return r.Spans[i].From
		}
	}
	return -1
}

// whole fails for a result that no trial may have.
func (r *Report) whole(t *testing.T, what string) {
	t.Helper()
	if r.Lost+r.Twice > 0 || r.Done != r.Issues {
		t.Errorf("%s, %s: %d lost, %d twice, %d of %d done", what, r.Policy, r.Lost, r.Twice, r.Done, r.Issues)
	}
}

// TestSeedExample plays the night of the work-stealing design: one agent has an empty queue, the other has twelve
// issues that both can do. The figures agree with the design. With push alone, the idle agent waits up to half an
// hour for a new issue; with stealing 2 to 7 minutes. As shipped, nothing was ever stolen.
func TestSeedExample(t *testing.T) {
	starts := func(p Policy) (all []time.Duration) {
		p.Poll = min(p.Poll, time.Second) // the design's figures exclude the minute between two polls
		for seed := sized[uint64](0, 40); seed < sized[uint64](100, 52); seed++ {
			night := shape{Arrivals: "batch", Tasks: "dispatch", Agents: 2, Busy: 1, Hours: 6}.make(seed)
			load := make(Load, 12, 13)
			for i := range load {
				load[i] = Work{Priority: 5, Skills: []string{"pair-0"}, Pin: "dev-0", Sessions: night[i].Sessions}
			}
			// This issue is new, and not assigned by the hub yet.
			load = append(load, Work{Priority: 5, Skills: []string{"own-1"}, Sessions: load[0].Sessions})
			if p.Steal > 0 {
				load = load[:12]
			}
			r := Trial{Config: fleet(2, 0, 0), Load: load, Policy: p, Seed: seed}.Run()
			r.whole(t, "the night")
			all = append(all, r.firstStart("dev-1"))
		}
		slices.Sort(all)
		return all
	}
	unmoved := func(all []time.Duration) int {
		return slices.IndexFunc(all, func(d time.Duration) bool { return d >= 0 })
	}
	for _, c := range []struct {
		policy   Policy
		from, to time.Duration // range of the longest wait
		least    time.Duration
	}{
		{Push, 25 * time.Minute, 31 * time.Minute, 0},
		{Stealing, 6 * time.Minute, 7*time.Minute + 2*time.Second, 2 * time.Minute},
	} {
		all := starts(c.policy)
		early := unmoved(all) // nights in which the other agent had only five issues left before a move
		if early > len(all)/4 {
			t.Errorf("%s: nothing moves in %d nights, want at most a quarter", c.policy.Name, early)
		}
		all = all[early:]
		s := spread(slices.Clone(all))
		t.Logf("%-12s %s to %s, %s on average; nothing in %d nights", c.policy.Name, all[0].Round(time.Second),
			s.Max.Round(time.Second), s.Mean.Round(time.Second), early)
		if all[0] < c.least || s.Max < c.from || s.Max > c.to {
			t.Errorf("%s: the idle agent starts after %s to %s, want the latest start between %s and %s",
				c.policy.Name, all[0], s.Max, c.from, c.to)
		}
	}
	p := Ours
	for _, d := range starts(p) {
		if d > 7*time.Minute+2*time.Second { // a person's pin waits for the same two and five minutes
			t.Errorf("ours: the idle agent starts after %s, want at most 7m2s", d)
		}
	}
}

// eachShape calls do with the workloads of the experiment.
func eachShape(seeds uint64, do func(name string, s shape, load Load)) {
	kinds := []string{"poisson", "bursts", "overnight", "batch"}
	if !storms() {
		kinds = kinds[2:3]
	}
	for _, arrivals := range kinds {
		for _, tasks := range []string{"dispatch", "unclipped", "session"} {
			for _, busy := range []float64{0.3, 0.5, 0.7, 0.9} {
				for _, owners := range []int{0, 1, 2} {
					if owners > 0 && busy != 0.7 || !storms() && (busy != 0.7 || owners > 0 && tasks != "session") {
						continue
					}
					s := shape{Arrivals: arrivals, Tasks: tasks, Busy: busy, Owners: owners, Agents: 5, Hours: 4}
					if tasks == "session" {
						s.Hours = sized[float64](24, 6)
					}
					for seed := range seeds {
						do(fmt.Sprintf("%s %s %.1f owners=%d seed=%d", arrivals, tasks, busy, owners, seed), s, s.make(seed))
					}
				}
			}
		}
	}
}

// TestGates checks our promises for every workload. No agent is idle for longer than the latency while work waits.
// The last issue is done about as early as possible. Only pinned issues move. Nothing is lost or done twice. Within a
// priority class issues start in the order of filing, and none starts before a more urgent one.
func TestGates(t *testing.T) {
	seeds := uint64(1)
	trials := 0
	worst, worstName := 1.0, ""
	eachShape(seeds, func(name string, s shape, load Load) {
		r := Trial{Config: fleet(s.Agents, 0, 0), Load: load, Policy: Ours, Seed: 1}.Run()
		trials++
		r.whole(t, name)
		if r.Gap.P99 > Ours.Latency {
			t.Errorf("%s: 99 %% of gaps are up to %s, want %s", name, r.Gap.P99, Ours.Latency)
		}
		if r.Moves > 0 {
			t.Errorf("%s: %d unpinned issues moved, want none", name, r.Moves)
		}
		if s.Owners > 0 {
			return // the rest is for agents that are all alike
		}
		if most := graham(load, s.Agents, Ours.Latency); r.Makespan > most {
			t.Errorf("%s: makespan %s is beyond Graham's bound %s", name, r.Makespan, most)
		}
		ratio := r.Makespan.Seconds() / r.Bound.Seconds()
		if ratio > worst && s.Busy >= 0.5 {
			worst, worstName = ratio, name
		}
		if s.Busy >= 0.5 && ratio > 1.05 {
			t.Errorf("%s: makespan %s is %.3f of the bound %s, want at most 1.05", name, r.Makespan, ratio, r.Bound)
		}
		inOrder(t, name, load, &r)
	})
	t.Logf("%d trials, makespan at most %.4f of the lower bound (%s)", trials, worst, worstName)
}

// graham returns an upper bound of the makespan for policies that leave none of m agents idle for longer than the
// latency while work waits.
//
// Graham's argument: let t be the last moment before the last start at which an agent was idle. Then all work filed
// before t was running, one issue on each of the other agents. What remains is the rest of one such issue, all work
// filed from t on, shared by all agents, and the last issue itself.
func graham(l Load, m int, latency time.Duration) (most time.Duration) {
	var longest, later time.Duration
	for i := len(l) - 1; i >= 0; i-- {
		var own time.Duration
		for _, s := range l[i].Sessions {
			own += s
			later += s + latency
		}
		longest = max(longest, own+latency)
		most = max(most, l[i].At+later/time.Duration(m))
	}
	share := time.Duration(float64(longest) * (1 - 1/float64(m)))
	if len(l) > 0 && l[len(l)-1].At > 0 {
		share *= 2 // some issues were filed later
	}
	return most + share + latency
}

// chains counts the issues that the local thread of a fleet worked on.
func (r *Report) chains() int {
	seen := make(map[int64]bool)
	for i := range r.Spans {
		if s := &r.Spans[i]; s.Thread == "write" {
			seen[s.Chain] = true
		}
	}
	return len(seen)
}

// inOrder checks that no issue starts while a more urgent one waits, or an older one of the same class.
func inOrder(t *testing.T, name string, load Load, r *Report) {
	t.Helper()
	begun := make([]time.Duration, len(load))
	for i := range r.Spans {
		begun[r.Spans[i].Chain-1] = r.Spans[i].From
	}
	waits := make(map[int][]int) // issues by priority, in order of filing
	for i := range load {
		waits[load[i].Priority] = append(waits[load[i].Priority], i)
	}
	order := make([]int, len(load))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(begun[a] - begun[b]) })
	for _, i := range order {
		w := &load[i]
		if queue := waits[w.Priority]; begun[queue[0]] < begun[i] {
			t.Fatalf("%s: issue %d starts out of order", name, i+1)
		} else if j := slices.Index(queue, i); j >= 0 {
			for _, older := range queue[:j] {
				if load[older].At < w.At && begun[older] > begun[i] {
					t.Fatalf("%s: issue %d starts before the older issue %d", name, i+1, older+1)
				}
			}
			waits[w.Priority] = slices.Delete(queue, j, j+1)
		}
		for p := 1; p < w.Priority; p++ {
			if len(waits[p]) > 0 && load[waits[p][0]].At < begun[i] && begun[waits[p][0]] > begun[i] {
				t.Fatalf("%s: issue %d (P%d) starts while issue %d (P%d) waits", name, i+1, w.Priority, waits[p][0]+1, p)
			}
		}
	}
}

// TestOthers checks that the other policies behave as measured, on the workload that suits stealing best.
func TestOthers(t *testing.T) {
	load := shape{Arrivals: "poisson", Tasks: "dispatch", Busy: 0.5, Agents: 5, Hours: sized[float64](12, 1)}.make(1)
	reports := make(map[string]Report)
	for _, p := range Policies() {
		r := Trial{Config: fleet(5, 0, 0), Load: load, Policy: p, Seed: 1}.Run()
		r.whole(t, "12 h")
		t.Logf("%-12s gap %s on average, %s at most; idle %s; makespan %s; %d moves", p.Name, r.Gap.Mean.Round(time.Second),
			r.Gap.Max.Round(time.Second), r.Idle.Round(time.Minute), r.Makespan.Round(time.Minute), r.Moves)
		reports[p.Name] = r
	}
	if g := reports["cron-5min"].Gap.Max; g > 5*time.Minute || g < 4*time.Minute {
		t.Errorf("the longest gap with cron is %s, want 4 to 5 minutes", g)
	}
	if ours := reports["disinto"].Idle; ours*20 > reports["stealing"].Idle {
		t.Errorf("idle for %s with ours and %s with stealing, want at most a twentieth", ours, reports["stealing"].Idle)
	}
}

// chains is a load for local slots: issues of more than two sessions on average, reviewed on an API.
func chains(busy float64, review time.Duration, seed uint64) Load {
	return shape{
		Arrivals: "poisson", Tasks: "session", Busy: busy, Agents: 2, Hours: sized[float64](24, 8), Chain: 2.3,
		Review: review,
	}.make(seed)
}

// TestSlots measures what bound slots save. If an issue's next session can start at once, each slot changes its
// context once per issue, however many sessions it has. If the session waits up to a minute for a verdict, a kept
// slot comes close to that: it changes again only for urgent issues, for those passed over three times, and for
// verdicts later than hold. In every case, far less is read again than with shared slots.
func TestSlots(t *testing.T) {
	for seed := range sized[uint64](5, 1) {
		load := chains(0.95, 0, seed)
		for i := range load {
			load[i].Priority = 5
		}
		r := Trial{Config: fleet(4, 2, 0), Load: load, Policy: Ours, Seed: seed}.Run()
		r.whole(t, "chains")
		// An issue that was passed over three times goes first: the slot changes to it and back.
		if extra := r.Switches - r.chains(); extra < 0 || extra > r.Starved || r.Sessions < 2*r.chains() {
			t.Errorf("seed %d: got %d switches for %d issues with %d sessions, %d starved",
				seed, r.Switches, r.chains(), r.Sessions, r.Starved)
		}
	}
	for _, review := range sized([]time.Duration{15 * time.Second, time.Minute}, []time.Duration{time.Minute}) {
		var per [2]float64 // changes per issue: without hold, with it
		for i, hold := range []time.Duration{0, holdTable} {
			cfg := fleet(4, 2, 2)
			cfg.Thread("write").Hold = hold
			load := chains(0.95, review, 1)
			for i := range load {
				load[i].Priority = 5
			}
			r := Trial{Config: cfg, Load: load, Policy: Ours, Seed: 1}.Run()
			r.whole(t, "kept")
			per[i] = float64(r.Switches) / float64(r.chains())
			// There and back; the first three issues only teach.
			if extra := r.Switches - r.chains(); hold > 0 && extra > 2*r.Starved+3 {
				t.Errorf("review %s: got %d changes for %d issues, %d starved, want at most two more a starved issue, and three",
					review, r.Switches, r.chains(), r.Starved)
			}
		}
		t.Logf("review %s: %.2f changes per issue without hold, %.2f with it", review, per[0], per[1])
		if per[1] > 1.35 || per[0] < 1.5*per[1] {
			t.Errorf("review %s: got %.2f changes per issue without hold and %.2f with it, want at most 1.35 with it", review,
				per[0], per[1])
		}
	}
	worst := 0.0
	minute := []time.Duration{time.Minute}
	for _, review := range sized([]time.Duration{15 * time.Second, time.Minute, 4 * time.Minute}, minute) {
		for _, busy := range sized([]float64{0.4, 0.95}, []float64{0.95}) {
			load := chains(busy, review, 1)
			ours := Trial{Config: fleet(4, 2, 2), Load: load, Policy: Ours, Seed: 1}.Run()
			cron := Trial{Config: fleet(4, 2, 2), Load: load, Policy: Cron, Seed: 1}.Run()
			ours.whole(t, "chains")
			cron.whole(t, "chains")
			part := float64(ours.Reloaded) / float64(cron.Reloaded)
			worst = max(worst, part)
			if part > 0.25 {
				t.Errorf("review %s, busy %.2f: got %d tokens read again, want at most a quarter of cron's %d", review, busy,
					ours.Reloaded, cron.Reloaded)
			}
		}
	}
	t.Logf("at most %.1f %% of the tokens that cron reads again", 100*worst)
}

// TestSameTrial plays each trial twice, with equal results.
func TestSameTrial(t *testing.T) {
	for _, p := range append(Policies(), Policy{Name: "hold", Latency: time.Second, Bound: true}) {
		cfg := fleet(4, 2, 1)
		cfg.Thread("write").Hold = 4 * time.Minute
		trial := Trial{Config: cfg, Load: chains(0.6, time.Minute, 1)[:sized(20, 8)], Policy: p, Seed: 1}
		first, second := trial.Run(), trial.Run()
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%s: two plays of the same trial differ", p.Name)
		}
	}
}

// TestGantt expects every session in the picture.
func TestGantt(t *testing.T) {
	r := Trial{Config: fleet(2, 2, 1), Load: chains(0.9, time.Minute, 1)[:6], Policy: Ours, Seed: 1}.Run()
	picture := r.Gantt(0)
	if n := strings.Count(picture, "<title>") - strings.Count(picture, "<title>context read again"); n != r.Sessions {
		t.Errorf("got %d drawn sessions, want %d", n, r.Sessions)
	}
	for _, row := range []string{"write slot 0", "write slot 1", "review review-0", "#e45756"} {
		if !strings.Contains(picture, row) {
			t.Errorf("the picture lacks %q", row)
		}
	}
}

// A chart shows the whole requested time, an axis in days and hours, and a legend.
func TestGanttRange(t *testing.T) {
	r := Report{Policy: "p", Spans: []Span{{
		Thread: "w", Agent: "a", Kind: "issue", Chain: 7, From: 70 * time.Hour,
		To: 71 * time.Hour,
	}}}
	for asked, want := range map[time.Duration][]string{
		0:               {">2d 12h<", "a issue #7, 1h0m0s from 2d 22h", ">scheduled role<", ">context read again<"},
		168 * time.Hour: {">7d<", ">6d 12h<"},
	} {
		picture := r.Gantt(asked)
		for _, text := range want {
			if !strings.Contains(picture, text) {
				t.Errorf("asked for %s: the chart lacks %q:\n%s", asked, text, picture)
			}
		}
	}
	for at, want := range map[time.Duration]string{
		0: "0", time.Hour: "1h", 24 * time.Hour: "1d",
		25*time.Hour + time.Minute: "1d 1h 1min",
	} {
		if got := axisLabel(at); got != want {
			t.Errorf("axisLabel(%s) = %q, want %q", at, got, want)
		}
	}
}

// Agents cannot have worked longer than the whole time, however early the last issue was done: scheduled work
// continues after it, and may be all there is.
func TestUsed(t *testing.T) {
	spans := []Span{
		{Agent: "a", To: time.Minute},
		{Agent: "b", From: 30 * time.Second, To: 100 * time.Hour},
		{Agent: "a", From: 90 * time.Hour, To: 99 * time.Hour},
	}
	r := Report{Makespan: time.Minute, Spans: spans}
	if got := r.used(2); got != 0.75 {
		t.Errorf("used(2) = %.2f, want 0.75", got)
	}
	r.Makespan = 0
	if got := r.used(2); got <= 0 || got > 1 {
		t.Errorf("nothing done: used(2) = %.2f, want more than 0 and at most 1", got)
	}
	if got := (&Report{}).used(2); got != 0 {
		t.Errorf("no sessions: used(2) = %.2f, want 0", got)
	}
}

// TestDrain: Drain ends a trial with an issue that no agent may do, and the issue counts as waiting to the end.
// Enough ends a trial early.
func TestDrain(t *testing.T) {
	config := fleet(1, 1, 0)
	load := Load{
		{Priority: 5, Sessions: []time.Duration{time.Hour}},
		{Priority: 5, Skills: []string{"of no agent"}, Sessions: []time.Duration{time.Hour}},
	}
	r := Trial{Config: config, Load: load, Policy: Ours, Seed: 1, Drain: 24 * time.Hour}.Run()
	if r.Done != 1 || r.Lost != 1 || r.First.N != 2 || r.First.Max < 24*time.Hour || r.First.Max > 25*time.Hour {
		t.Errorf("got %d done, %d lost, waits %+v, want one of each, and a wait of 24 to 25 hours", r.Done, r.Lost, r.First)
	}
	asked := 0
	enough := func() bool { asked++; return asked > 3 }
	r = Trial{Config: config, Load: load, Policy: Ours, Seed: 1, Enough: enough}.Run()
	if asked != 4 || r.Done != 0 {
		t.Errorf("Enough was called %d times and %d issues are done, want 4 and none", asked, r.Done)
	}
}
