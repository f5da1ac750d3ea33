package ledger

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// A setup that fails at its base lets the repository rest, longer each time, and burns no attempt. Sessions that ran
// beside the first one count once. A setup that succeeds, and a person's retry, end it.
func TestSetupFails(t *testing.T) {
	s, n, now := New(), int64(0), noon
	session := func(began, ended time.Time, e End) {
		n++
		start := startRec(fmt.Sprint(n), n, 1)
		start.At, e.Breaker = began, 5*time.Minute
		s.Apply(start)
		end := endRec(fmt.Sprint(n), 0, e)
		end.At = ended
		s.Apply(end)
	}
	failed := End{
		Result: agents.SetupFailed, Reason: "npm ci, exit 1",
		Steps: []agents.Step{{Phase: agents.PhaseSetup, Command: "npm ci", Exit: 1}},
	}
	want := func(fails int, rest time.Duration, when string) {
		t.Helper()
		r := s.Repo("o/r")
		got := r.SetupUntil.Sub(now)
		if r.SetupFails != fails || fails > 0 && (got != rest || r.SetupWhy != "npm ci, exit 1") {
			t.Errorf("%s: got %+v, which is in %s, want %d and %s", when, *r, got, fails, rest)
		}
	}
	for i := range 3 { // at once
		session(noon.Add(time.Duration(i)*time.Second), noon.Add(time.Duration(i)*time.Second), failed)
	}
	want(1, 5*time.Minute, "three at once")
	for i, rest := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		now = s.Repo("o/r").SetupUntil
		session(now, now, failed)
		want(i+2, rest, "one after the other")
	}
	for i := range n {
		if a := s.Chain(startRec("", i+1, 1).Start.Item.Of().Ref).Attempt(agents.KindIssue); a.Count != 0 {
			t.Errorf("issue %d has burnt an attempt", i+1)
		}
		if toll := s.Tolls[startRec("", i+1, 1).Start.Item.Of().Ref]; toll != nil {
			t.Errorf("issue %d has the toll %+v", i+1, toll)
		}
	}
	session(now, now, End{Result: agents.Done}) // skipped its setup: nothing is known
	want(6, time.Hour, "without a setup")
	good := failed.Steps[0]
	good.Exit = 0
	session(now, now, End{Result: agents.Failed, Steps: []agents.Step{good}})
	want(0, 0, "after a success")
	session(now, now, failed)
	s.Apply(Record{At: now, Retry: &Retry{Refs: []Ref{{"o/r", 2}}}})
	want(0, 0, "after a retry")
}

// A base commit at which the commands fail is remembered until they pass. A red branch says nothing about the base.
func TestVerifyBroken(t *testing.T) {
	s := New()
	session := func(n int64, verdict agents.Verdict, base string) *threads.RepoHistory {
		s.Apply(startRec(fmt.Sprint(n), n, 1))
		s.Apply(endRec(fmt.Sprint(n), time.Minute, End{Result: agents.Done, Verified: &agents.Verified{
			Verdict: verdict, Words: "go test, exit 1", Base: base,
		}}))
		return s.Repo("o/r")
	}
	for n, tt := range []struct {
		verdict agents.Verdict
		base    string
		want    threads.RepoHistory
	}{
		{agents.VerifyBroken, "ba5e", threads.RepoHistory{RedBase: "ba5e", RedWhy: "go test, exit 1"}},
		{agents.Red, "0ther", threads.RepoHistory{RedBase: "ba5e", RedWhy: "go test, exit 1"}},
		{agents.VerifyBroken, "ba5e2", threads.RepoHistory{RedBase: "ba5e2", RedWhy: "go test, exit 1"}},
		{agents.GreenFlaky, "", threads.RepoHistory{}},
	} {
		got := session(int64(n+1), tt.verdict, tt.base)
		if got.Turns = nil; !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("after %s: got %+v, want %+v", tt.verdict, *got, tt.want)
		}
	}
	total := s.Books().Total(time.Time{})
	if total.Verified != 4 || total.GreenFirst != 0 {
		t.Errorf("got %d verified, %d of them at once, want 4 and 0", total.Verified, total.GreenFirst)
	}
	session(9, agents.GreenFirst, "")
	if total := s.Books().Total(time.Time{}); total.Verified != 5 || total.GreenFirst != 1 {
		t.Errorf("got %d verified, %d of them at once, want 5 and 1", total.Verified, total.GreenFirst)
	}
}
