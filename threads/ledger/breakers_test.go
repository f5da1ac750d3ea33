package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// TestBreakerInARow checks which sessions interrupt a row of sessions that find no backend: those that found it.
func TestBreakerInARow(t *testing.T) {
	for _, wrong := range breakers() {
		t.Error(wrong)
	}
}

// breakers plays four sessions on a thread, of which all but the third find no backend. It returns the cases in which
// the breaker has the wrong state.
func breakers() (wrong []string) {
	for _, tt := range []struct {
		third agents.Result
		kind  agents.Kind
		opens bool
	}{
		{agents.BackendDown, agents.KindIssue, true},
		{agents.Limited, agents.KindIssue, true},
		{agents.Cancelled, agents.KindIssue, true},
		{agents.Lost, agents.KindIssue, true},
		{agents.ClaimFailed, agents.KindIssue, true},
		{agents.Done, agents.KindIssue, false},
		{agents.Failed, agents.KindIssue, false},
		{agents.Refused, agents.KindIssue, false},
		{agents.Failed, agents.KindSchedule, false},
		{agents.Refused, agents.KindSchedule, false},
	} {
		s, at := ledger.New(), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		item := ledger.Key{Kind: tt.kind, Ref: ledger.Ref{Repo: "o/r", Number: 1}}
		for i, result := range []agents.Result{agents.BackendDown, agents.BackendDown, tt.third, agents.BackendDown} {
			run := fmt.Sprint("run-", i)
			s.Apply(ledger.Record{At: at, Start: &ledger.Start{
				Run: run, Thread: "llama", Agent: "dev", Item: item, Chain: item.Ref, Attempt: 1,
			}})
			at = at.Add(10 * time.Minute)
			s.Apply(ledger.Record{At: at, End: &ledger.End{
				Run: run, Result: result, Breaker: 5 * time.Minute, Reason: "end",
			}})
		}
		if opened := s.Thread("llama").ParkedUntil.Equal(at.Add(5 * time.Minute)); opened != tt.opens {
			wrong = append(wrong, strings.Join([]string{string(tt.kind), string(tt.third), fmt.Sprint(opened)}, " "))
		}
	}
	return wrong
}
