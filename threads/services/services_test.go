package services

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/threads"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// service returns a service with a check and needs, in a phase since the start.
func service(name string, phase Phase, needs ...string) Service {
	return Service{
		Service: threads.Service{Name: name, ReadyURL: "http://localhost/health", Needs: needs},
		State:   State{Phase: phase, Since: start},
	}
}

func TestDecide(t *testing.T) {
	with := func(x Service, change func(*Service)) Service {
		change(&x)
		return x
	}
	asked := func(d time.Duration) func(*Service) { return func(x *Service) { x.asked = at(d) } }
	tests := []struct {
		name string
		now  time.Duration
		list []Service
		want []Step
		next time.Duration // 0: never
	}{
		{name: "a first start", list: []Service{service("a", Waiting)}, want: []Step{{Name: "a", Do: Start}}},
		{
			name: "a need that starts", list: []Service{service("a", Starting), service("b", Waiting, "a")},
			want: []Step{{Name: "a", Do: Ask}}, next: 10 * time.Minute,
		},
		{
			name: "a need that is ready", list: []Service{with(service("a", Ready), asked(0)), service("b", Waiting, "a")},
			want: []Step{{Name: "b", Do: Start}}, next: 10 * time.Second,
		},
		{name: "a need that is not there", list: []Service{service("b", Waiting, "a")}},
		{name: "a need that is no longer configured", list: []Service{
			with(service("a", Ready), func(x *Service) { x.Gone = true }), service("b", Waiting, "a"),
		}, want: []Step{{Name: "a", Do: End, Why: "it is no longer configured"}}},
		{
			name: "a rest", list: []Service{with(service("a", Resting), func(x *Service) { x.Until = at(time.Second) })},
			next: time.Second,
		},
		{
			name: "a rest that is over", now: time.Second,
			list: []Service{with(service("a", Resting), func(x *Service) { x.Until = at(time.Second) })},
			want: []Step{{Name: "a", Do: Start}},
		},
		{name: "a command before it", list: []Service{service("a", Preparing)}, next: 10 * time.Minute},
		{
			name: "asked a moment ago", now: 500 * time.Millisecond, list: []Service{with(service("a", Starting), asked(0))},
			next: time.Second,
		},
		{
			name: "asked and not answered", now: time.Hour,
			list: []Service{with(service("a", Starting), func(x *Service) { x.Ask(at(0)) })},
		},
		{
			name: "a ready one is asked seldom", now: 2 * time.Second, list: []Service{with(service("a", Ready), asked(0))},
			next: 10 * time.Second,
		},
		{
			name: "a silent one is asked often", now: time.Second, list: []Service{with(service("a", Silent), asked(0))},
			want: []Step{{Name: "a", Do: Ask}}, next: 2 * time.Minute,
		},
		{
			name: "a silent one hangs", now: 2 * time.Minute,
			list: []Service{with(service("a", Silent), func(x *Service) { x.Said = "no answer" })},
			want: []Step{{Name: "a", Do: End, Why: "it has not answered for 2m: no answer", Failed: true}},
		},
		{
			name: "not asked at all", list: []Service{with(service("a", Starting), func(x *Service) { x.ReadyURL = "" })},
			next: time.Second,
		},
		{
			name: "not asked, and runs for a second", now: time.Second,
			list: []Service{with(service("a", Starting), func(x *Service) { x.ReadyURL = "" })},
			want: []Step{{Name: "a", Do: Trust}}, next: 10*time.Minute + time.Second,
		},
		{
			name: "not asked, and has to run for longer", now: time.Second,
			list: []Service{with(service("a", Starting), func(x *Service) { x.ReadyURL, x.ReadyAfter = "", 5*time.Second })},
			next: 5 * time.Second,
		},
		{
			name: "a oneshot is not trusted", now: time.Minute, next: 10 * time.Minute,
			list: []Service{with(service("a", Starting), func(x *Service) { x.ReadyURL, x.Oneshot = "", true })},
		},
		{
			name: "a need that is done", list: []Service{service("a", Done), service("b", Waiting, "a")},
			want: []Step{{Name: "b", Do: Start}},
		},
		{name: "a need that has ended", list: []Service{service("a", Ended), service("b", Waiting, "a")}},
		{name: "a need that was stopped", list: []Service{service("a", Stopped), service("b", Waiting, "a")}},
		{
			name: "a silent one with its own time", now: 2 * time.Minute, next: time.Hour,
			list: []Service{with(service("a", Silent), func(x *Service) {
				x.RestartAfter = time.Hour
				x.Ask(at(time.Minute))
			})},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Decide(Snapshot{Now: at(tt.now), Services: tt.list})
			if diff := cmp.Diff(tt.want, p.Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			var want time.Time
			if tt.next != 0 {
				want = at(tt.next)
			}
			if !p.Next.Equal(want) {
				t.Errorf("next is %s, want %s", p.Next, want)
			}
		})
	}
}

// TestRests checks the rests of a service that fails again and again, and then runs for ten minutes.
func TestRests(t *testing.T) {
	x := &threads.Service{}
	fail := Exit{Why: "exit status 1"}
	s, now := New(start), start
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		s.Start(now)
		s.Answer(x, now, "")
		now = now.Add(steady - 1)
		s.Ended(x, now, fail)
		if rest := s.Until.Sub(now); s.Phase != Resting || rest != time.Duration(want)*time.Second {
			t.Errorf("after %d failures: got a rest of %s, want %d s", s.Fails, rest, want)
		}
		now = s.Until
	}
	s.Start(now)
	s.Answer(x, now, "")
	s.Ended(x, now.Add(steady), fail)
	if s.Fails != 1 || s.Until.Sub(now.Add(steady)) != restMin {
		t.Errorf("after ten good minutes: got %d failures and a rest until %s", s.Fails, s.Until)
	}
	s.Ended(x, now.Add(steady), fail)
	s.Forgive(now.Add(steady))
	if s.Phase != Waiting || s.Fails != 0 || !s.Until.IsZero() {
		t.Errorf("after Forgive: got %+v, want waiting without failures", s)
	}
}

// TestRestart checks what follows each kind of end, by the key restart.
func TestRestart(t *testing.T) {
	ordered, zero, failed := Exit{}, Exit{Zero: true, Why: "exit status 0"}, Exit{Why: "exit status 1"}
	tests := []struct {
		x                     threads.Service
		ordered, zero, failed Phase
	}{
		{threads.Service{}, Waiting, Resting, Resting},
		{threads.Service{Restart: threads.RestartAlways}, Waiting, Resting, Resting},
		{threads.Service{Restart: threads.RestartOnFailure}, Waiting, Ended, Resting},
		{threads.Service{Restart: threads.RestartNever}, Waiting, Ended, Ended},
		{threads.Service{Oneshot: true}, Waiting, Done, Resting},
		{threads.Service{Oneshot: true, Restart: threads.RestartNever}, Waiting, Done, Ended},
	}
	for _, tt := range tests {
		for e, want := range map[Exit]Phase{ordered: tt.ordered, zero: tt.zero, failed: tt.failed} {
			s := New(start)
			s.Start(start)
			s.Ended(&tt.x, start, e)
			if s.Phase != want {
				t.Errorf("%+v after %+v: got %s, want %s", tt.x, e, s.Phase, want)
			}
			if fails := s.Fails > 0; fails != (e == failed || e == zero && want == Resting) {
				t.Errorf("%+v after %+v: got %d failures", tt.x, e, s.Fails)
			}
			s.Start(start)
			s.Hold(start)
			s.Ended(&tt.x, start, e)
			if s.Phase != Stopped {
				t.Errorf("%+v, stopped by hand, after %+v: got %s, want stopped", tt.x, e, s.Phase)
			}
			if s.Forgive(start); s.Phase != Waiting {
				t.Errorf("%+v, started by hand: got %s, want waiting", tt.x, s.Phase)
			}
		}
	}
}

// A success ends the alarm of earlier failures.
func TestSuccessForgives(t *testing.T) {
	x := Service{Service: threads.Service{Name: "a", Restart: threads.RestartOnFailure}, State: New(start)}
	for range 3 {
		x.Start(start)
		x.Ended(&x.Service, start, Exit{Why: "exit status 1"})
	}
	if x.Alarm(start) == "" {
		t.Error("got no alarm after three failures")
	}
	x.Start(start)
	if x.Ended(&x.Service, start, Exit{Zero: true, Why: "exit status 0"}); x.Fails != 0 || x.Alarm(start) != "" {
		t.Errorf("after a success: got %+v, want no failures", x.State)
	}
}

// TestMisses checks how many bad answers in a row make a service silent.
func TestMisses(t *testing.T) {
	x := &threads.Service{ReadyURL: "http://localhost", ReadyFailures: 3}
	s := New(start)
	s.Start(start)
	s.Answer(x, start, "503")
	for i, tt := range []struct {
		why  string
		want Phase
	}{
		{"", Ready},
		{"503", Ready},
		{"503", Ready},
		{"", Ready},
		{"503", Ready},
		{"503", Ready},
		{"503", Silent},
		{"503", Silent},
		{"", Ready},
		{"503", Ready},
	} {
		if s.Answer(x, start, tt.why); s.Phase != tt.want {
			t.Fatalf("after answer %d: got %s, want %s", i+1, s.Phase, tt.want)
		}
	}
	every := Decide(Snapshot{Now: start, Services: []Service{{Service: *x, State: s}}})
	if s.Ask(start); len(every.Steps) != 1 {
		t.Errorf("got steps %v, want another check", every.Steps)
	}
	s.asking = false
	if next := Decide(Snapshot{Now: start, Services: []Service{{Service: *x, State: s}}}).Next; !next.Equal(at(askSoon)) {
		t.Errorf("after a bad answer: got the next check at %s, want it a second later", next)
	}
}

// TestStop stops db <- mid <- top, which obey neither TERM nor KILL, within nine seconds. Each gets a TERM, and nearly
// three seconds until its KILL.
func TestStop(t *testing.T) {
	list := []Service{
		service("db", Ready), service("idle", Resting, "top"), service("mid", Ending, "db"), service("top", Ready, "mid"),
	}
	plan := func(now time.Duration) (steps string) {
		for _, step := range Decide(Snapshot{Now: at(now), Services: list, Stopping: true}).Steps {
			for i := range list {
				switch x := &list[i]; {
				case x.Name != step.Name:
				case step.Do == End:
					x.End(at(now), "")
				case step.Do == Kill:
					x.Hurry()
				}
			}
			steps += string(step.Do) + " " + step.Name + " "
		}
		return steps
	}
	shares := Shares(Snapshot{Now: start, Services: list, Stopping: true}, at(9*time.Second+killTime))
	for i := range list {
		list[i].Divide(shares[list[i].Name])
	}
	for _, tt := range []struct {
		at    time.Duration
		steps string
	}{
		{0, "end top "},
		{time.Second, ""},
		{3 * time.Second, "kill top "},
		{3 * time.Second, ""},
		{5 * time.Second, ""},
		{6 * time.Second, "kill mid "},
		{6*time.Second + killTime - 1, ""},
		{6*time.Second + killTime, "end db "},
		{8 * time.Second, ""},
		{9 * time.Second, "kill db "},
		{9 * time.Second, ""},
	} {
		if got := plan(tt.at); got != tt.steps {
			t.Errorf("after %s: got steps %q, want %q", tt.at, got, tt.steps)
		}
	}
	next := Decide(Snapshot{Now: at(time.Second), Stopping: true, Services: []Service{
		{Service: list[0].Service, State: State{Phase: Ready, share: shares["db"]}},
		{Service: list[2].Service, State: State{Phase: Ending, share: shares["mid"]}},
	}}).Next
	if !next.Equal(at(6 * time.Second)) {
		t.Errorf("got the next decision after %s, want it after 6s", next.Sub(start))
	}
}

// A stop ends at once what nothing needs any more, and services that need each other.
func TestStopOrder(t *testing.T) {
	tests := []struct {
		name string
		list []Service
		want []string
	}{
		{"the last first", []Service{service("a", Ready), service("b", Silent, "a")}, []string{"b"}},
		{"the others", []Service{service("a", Ready), service("b", Resting, "a")}, []string{"a"}},
		{
			"a base below a oneshot",
			[]Service{service("a", Ready), service("b", Done, "a"), service("c", Ready, "b")},
			[]string{"c"},
		},
		{"one waits", []Service{service("a", Ready), service("b", Ending, "a")}, nil},
		{"nothing starts", []Service{service("a", Waiting)}, nil},
		{"a circle", []Service{service("a", Ready, "b"), service("b", Ready, "a")}, []string{"a", "b"}},
	}
	for _, tt := range tests {
		s := Snapshot{Now: start, Services: tt.list, Stopping: true}
		shares := Shares(s, at(time.Minute))
		for i := range s.Services {
			s.Services[i].Divide(shares[s.Services[i].Name])
		}
		var got []string
		for _, step := range Decide(s).Steps {
			got = append(got, step.Name)
		}
		if tt.name == "a circle" { // one of them comes first
			s.Now = at(31 * time.Second)
			for _, step := range Decide(s).Steps {
				if !slices.Contains(got, step.Name) {
					got = append(got, step.Name)
				}
			}
			slices.Sort(got)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v ended, want %v", tt.name, got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	failed := Exit{Why: "exit status 1"}
	ready := func(x *Service) {
		x.Start(start)
		x.Answer(&x.Service, start, "")
	}
	tests := []struct {
		change             func(*Service)
		out, why, attended string // attended: the alarm an hour later
	}{
		{func(*Service) {}, "is about to start", "", ""},
		{
			func(x *Service) { x.Needs = []string{"net"} }, "waits for service net, which is no longer configured",
			"waits for net, which is no longer configured", "",
		},
		{
			func(x *Service) { x.Needs = []string{"db"} }, "waits for service db, which failed (exit status 2) and rests",
			"waits for db, which failed (exit status 2) and rests", "",
		},
		{
			func(x *Service) { x.Prepare(start) }, "is prepared", "",
			"service a has not become ready within 10m; see disinto logs a",
		},
		{
			func(x *Service) { x.Start(start) }, "is starting", "",
			"service a has not become ready within 10m; see disinto logs a",
		},
		{
			func(x *Service) { x.Oneshot = true; x.Start(start) }, "has not ended yet", "",
			"service a has not ended within 10m; see disinto logs a",
		},
		{
			func(x *Service) { x.Start(start); x.Answer(&x.Service, start, "503") }, "is starting", "not ready yet: 503",
			"service a has not become ready within 10m: 503; see disinto logs a",
		},
		{ready, "", "", ""},
		{
			func(x *Service) { x.Needs = []string{"migrate"} }, "waits for service db, which failed (exit status 2) and rests",
			"waits for db, which failed (exit status 2) and rests", "",
		},
		{
			func(x *Service) { ready(x); x.Needs = []string{"db"} }, "",
			"db, which it needs, failed (exit status 2) and rests", "",
		},
		{func(x *Service) { ready(x); x.Answer(&x.Service, start, "503") }, "does not answer: 503", "503", ""},
		{func(x *Service) { x.Start(start); x.End(start, "") }, "is being ended", "", ""},
		{
			func(x *Service) { x.Ended(&x.Service, start, failed) }, "failed (exit status 1) and rests", "exit status 1",
			"",
		},
		{
			func(x *Service) { x.Fails = 2; x.Ended(&x.Service, start, failed) }, "failed (exit status 1) and rests",
			"exit status 1",
			"service a failed 3 times in a row, last: exit status 1; see disinto logs a",
		},
		{func(x *Service) { x.Fails = 3; ready(x) }, "", "", ""}, // for an hour
		{
			func(x *Service) { x.Restart = threads.RestartNever; x.Ended(&x.Service, start, failed) },
			"failed (exit status 1) and is not started again", "exit status 1; restart does not start it again",
			"service a failed and is not started again: exit status 1; see disinto logs a",
		},
		{
			func(x *Service) { x.Restart = threads.RestartNever; x.Ended(&x.Service, start, Exit{Zero: true}) },
			"has ended", "", "",
		},
		{func(x *Service) { x.Oneshot = true; x.Ended(&x.Service, start, Exit{Zero: true}) }, "", "", ""},
		{
			func(x *Service) {
				x.Needs, x.Oneshot = []string{"db"}, true
				x.Ended(&x.Service, start, Exit{Zero: true})
			}, "", "",
			"",
		},
		{
			func(x *Service) { x.Needs = []string{"old"} }, "waits for service old, which is no longer configured",
			"waits for old, which is no longer configured", "",
		},
		{func(x *Service) { x.Hold(start) }, "was stopped by hand (disinto start a)", "", ""},
	}
	db := Service{Service: threads.Service{Name: "db"}, State: New(start)}
	db.Ended(&db.Service, start, Exit{Why: "exit status 2"})
	old := service("old", Ready)
	old.Gone = true
	for _, tt := range tests {
		x := Service{Service: threads.Service{Name: "a"}, State: New(start)}
		tt.change(&x)
		s := Snapshot{Now: start, Services: []Service{x, db, service("migrate", Done, "db"), old}}
		if got := Outages(s)["a"].Why; got != tt.out {
			t.Errorf("got outage %q, want %q", got, tt.out)
		}
		if got := Why(s, "a"); got != tt.why {
			t.Errorf("got why %q, want %q", got, tt.why)
		}
		if got := x.Alarm(start.Add(time.Hour)); got != tt.attended {
			t.Errorf("got alarm %q, want %q", got, tt.attended)
		}
		if now := x.Alarm(start); now != "" && !strings.Contains(now, "in a row") && x.Phase != Ended {
			t.Errorf("got alarm %q at once, want none", now)
		}
	}
}
