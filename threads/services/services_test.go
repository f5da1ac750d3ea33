package services

import (
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
		stop bool
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
			next: 10 * time.Minute,
		},
		{
			name: "the end, the last first", stop: true, list: []Service{service("a", Ready), service("b", Silent, "a")},
			want: []Step{{Name: "b", Do: End, Why: "the supervisor stops"}},
		},
		{
			name: "the end of the others", stop: true, list: []Service{service("a", Ready), service("b", Resting, "a")},
			want: []Step{{Name: "a", Do: End, Why: "the supervisor stops"}},
		},
		{name: "the end waits", stop: true, list: []Service{service("a", Ready), service("b", Ending, "a")}},
		{name: "nothing starts at the end", stop: true, list: []Service{service("a", Waiting)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Decide(Snapshot{Now: at(tt.now), Services: tt.list, Stopping: tt.stop})
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
	s, now := New(start), start
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		s.Start(now, true)
		s.Answer(now, "")
		now = now.Add(steady - 1)
		s.Ended(now, "exit status 1")
		if rest := s.Until.Sub(now); s.Phase != Resting || rest != time.Duration(want)*time.Second {
			t.Errorf("after %d failures: got a rest of %s, want %d s", s.Fails, rest, want)
		}
		now = s.Until
	}
	s.Start(now, true)
	s.Answer(now, "")
	s.Ended(now.Add(steady), "exit status 1")
	if s.Fails != 1 || s.Until.Sub(now.Add(steady)) != restMin {
		t.Errorf("after ten good minutes: got %d failures and a rest until %s", s.Fails, s.Until)
	}
	s.Ended(now.Add(steady), "exit status 1")
	s.Forgive(now.Add(steady))
	if s.Phase != Waiting || s.Fails != 0 || !s.Until.IsZero() {
		t.Errorf("after Forgive: got %+v, want waiting without failures", s)
	}
}

func TestWords(t *testing.T) {
	tests := []struct {
		change             func(*Service)
		out, why, attended string // attended: the alarm an hour later
	}{
		{func(*Service) {}, "is about to start", "", ""},
		{func(x *Service) { x.Needs = []string{"net"} }, "waits for service net", "waits for net", ""},
		{
			func(x *Service) { x.Prepare(start) }, "is prepared", "",
			"service a has not become ready within 10m; see disinto logs a",
		},
		{
			func(x *Service) { x.Start(start, true) }, "is starting", "",
			"service a has not become ready within 10m; see disinto logs a",
		},
		{
			func(x *Service) { x.Start(start, true); x.Answer(start, "503") }, "is starting", "not ready yet: 503",
			"service a has not become ready within 10m: 503; see disinto logs a",
		},
		{func(x *Service) { x.Start(start, false) }, "", "", ""},
		{func(x *Service) { x.Start(start, false); x.Answer(start, "503") }, "does not answer: 503", "503", ""},
		{func(x *Service) { x.Start(start, true); x.End(start) }, "is being ended", "", ""},
		{func(x *Service) { x.Ended(start, "exit status 1") }, "failed (exit status 1) and rests", "exit status 1", ""},
		{
			func(x *Service) { x.Fails = 2; x.Ended(start, "exit status 1") }, "failed (exit status 1) and rests",
			"exit status 1",
			"service a failed 3 times in a row, last: exit status 1; see disinto logs a",
		},
		{func(x *Service) { x.Fails = 3; x.Start(start, false) }, "", "", ""}, // for an hour
	}
	for _, tt := range tests {
		x := Service{Service: threads.Service{Name: "a"}, State: New(start)}
		tt.change(&x)
		s := Snapshot{Now: start, Services: []Service{x}}
		if got := Outages(s)["a"].Why; got != tt.out {
			t.Errorf("got outage %q, want %q", got, tt.out)
		}
		if got := Why(s, "a"); got != tt.why {
			t.Errorf("got why %q, want %q", got, tt.why)
		}
		if got := x.Alarm(start.Add(time.Hour)); got != tt.attended {
			t.Errorf("got alarm %q, want %q", got, tt.attended)
		}
		if now := x.Alarm(start); now != "" && !strings.Contains(now, "in a row") {
			t.Errorf("got alarm %q at once, want none", now)
		}
	}
}
