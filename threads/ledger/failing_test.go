package ledger

import (
	"fmt"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// spell is a session of a test, at a minute of its time.
type spell struct {
	minute              int
	agent, thread, role string
	item                int64
	result              agents.Result
	words               string
}

// play applies sessions that begin at their minute and end half a minute later.
func (s *State) play(list ...spell) {
	for i, x := range list {
		at := noon.Add(time.Duration(x.minute) * time.Minute)
		r := startRec(fmt.Sprintf("%d-%d", x.minute, i), x.item, 1+s.Chain(ref(x.item)).Attempt(agents.KindIssue).Count)
		r.At, r.Start.Agent, r.Start.Thread, r.Start.Role = at, x.agent, x.thread, x.role
		s.Apply(r)
		s.Apply(Record{At: at.Add(30 * time.Second), End: &End{Run: r.Start.Run, Result: x.result, Reason: x.words}})
	}
}

// failing names the crews that are held, each with its rest from the end of the last session.
func (s *State) failing(minute int) (held map[threads.Crew]time.Duration) {
	held = make(map[threads.Crew]time.Duration)
	for crew, k := range s.Failing {
		if k.Failing() {
			held[crew] = k.Until.Sub(noon.Add(time.Duration(minute)*time.Minute + 30*time.Second))
		}
	}
	return held
}

// Three failures in a row on different items hold an agent. Several agents that fail in the same way hold their role,
// or their thread if more than one role fails there.
func TestFailingCrews(t *testing.T) {
	const boom = agents.Failed
	a, b := "dev-a", "dev-b"
	tests := []struct {
		name string
		list []spell
		held threads.Crew // zero: none
	}{
		{"an agent, whatever it says", []spell{
			{0, a, "t", "dev", 1, boom, "x"}, {1, a, "t", "dev", 2, agents.Stalled, "y"}, {2, a, "t", "dev", 3, boom, "z"},
		}, threads.Crew{Agent: a}},
		{"twice the same item", []spell{
			{0, a, "t", "dev", 1, boom, "x"}, {1, a, "t", "dev", 2, boom, "x"}, {2, a, "t", "dev", 1, boom, "x"},
		}, threads.Crew{}},
		{"something achieved", []spell{
			{0, a, "t", "dev", 1, boom, "x"},
			{1, a, "t", "dev", 2, boom, "x"},
			{2, a, "t", "dev", 3, agents.Refused, "no"},
			{3, a, "t", "dev", 4, boom, "x"},
		}, threads.Crew{}},
		{"a role, on two threads", []spell{
			{0, a, "t", "dev", 1, boom, "line 12"}, {1, b, "u", "dev", 2, boom, "line 7"}, {2, a, "t", "dev", 3, boom, "line 3"},
		}, threads.Crew{Role: "dev"}},
		{"a thread, in two roles", []spell{
			{0, a, "t", "dev", 1, boom, "x"}, {1, b, "t", "ops", 2, boom, "x"}, {2, a, "t", "dev", 3, boom, "x"},
		}, threads.Crew{Thread: "t"}},
		{"two agents in other ways", []spell{
			{0, a, "t", "dev", 1, boom, "x"}, {1, b, "t", "dev", 2, boom, "y"}, {2, a, "t", "dev", 3, boom, "x"},
		}, threads.Crew{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New()
			s.play(tt.list...)
			held := s.failing(tt.list[len(tt.list)-1].minute)
			want := map[threads.Crew]time.Duration{tt.held: failingRest}
			if tt.held == (threads.Crew{}) {
				want = map[threads.Crew]time.Duration{}
			}
			if fmt.Sprint(held) != fmt.Sprint(want) {
				t.Errorf("got held %v, want %v", held, want)
			}
		})
	}
}

// The rest of a failing agent doubles with each try, up to four hours. A failed try is no attempt at its item, which
// goes behind others. A session that began before the hold changes nothing. Success ends it all.
func TestFailingRests(t *testing.T) {
	s := New()
	fail := func(minute int, item int64) { s.play(spell{minute, "dev-a", "t", "dev", item, agents.Failed, "x"}) }
	fail(0, 1)
	fail(1, 2)
	fail(2, 3)
	fail(2, 4) // began before the hold
	crew := threads.Crew{Agent: "dev-a"}
	for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 240, 240} {
		ended := noon.Add(time.Duration(1000*i+2)*time.Minute + 30*time.Second)
		if got := s.Failing[crew].Until.Sub(ended); got != want*time.Minute {
			t.Errorf("after try %d: got a rest of %s, want %s", i, got, want*time.Minute)
		}
		fail(1000*(i+1)+2, 9)
	}
	if n := s.Chain(ref(9)).Attempt(agents.KindIssue).Count + s.Chain(ref(4)).Attempt(agents.KindIssue).Count; n != 0 {
		t.Errorf("got %d attempts from tries, want none", n)
	}
	it := s.Item(threads.Key{Kind: agents.KindIssue, Ref: ref(9)})
	if it.FailedBy != "dev-a" || !it.Behind.After(it.FailedAt) {
		t.Errorf("got %+v, want it failed by dev-a, and behind", it)
	}
	s.play(spell{9000, "dev-a", "t", "dev", 9, agents.Done, ""})
	if it = s.Item(threads.Key{Kind: agents.KindIssue, Ref: ref(9)}); len(s.Failing) > 0 || it.FailedBy != "" {
		t.Errorf("after success: got %v, %+v, want nothing left", s.Failing, it)
	}
}

func ref(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
