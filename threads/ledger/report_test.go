package ledger

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"github.com/google/go-cmp/cmp"
)

func TestLastLine(t *testing.T) {
	long := make([]rune, 300)
	for i := range long {
		long[i] = 'ä'
	}
	for text, want := range map[string]string{
		"": "", "one": "one", "one\n two \n\n \n": "two", string(long): string(long[:lineMax-1]) + "…",
	} {
		if got := lastLine(text); got != want {
			t.Errorf("lastLine(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestReport checks that a program that does not explain its end is judged by the forge, and that one that names the
// reason is believed.
func TestReport(t *testing.T) {
	item := threads.Item{Kind: agents.KindIssue, Ref: forge.Ref{Repo: "o/r", Number: 1}}
	opened := &forge.ItemFacts{Pulls: []forge.Pull{{Ref: forge.Ref{Repo: "o/r", Number: 2}, Author: "qwen"}}}
	exit := func(code int) agents.Outcome {
		return agents.Outcome{Result: agents.Failed, ExitCode: code, Tail: "one\ntwo\n"}
	}
	for name, tt := range map[string]struct {
		report Report
		asks   bool
		want   End
	}{
		"failed": {
			Report{Ran: true, Outcome: exit(22), Look: &forge.ItemFacts{}},
			true,
			End{Result: agents.Failed, Exit: "22", Tail: "one\ntwo\n", LastLine: "two"},
		},
		"failed after its work": {
			Report{Ran: true, Outcome: exit(22), Look: opened},
			true,
			End{Result: agents.Done, Reason: "opened #2, although it exited with 22", Exit: "22"},
		},
		"named the reason itself": {
			Report{Ran: true, Outcome: agents.Outcome{Result: agents.Failed, Reason: "no", Claimed: true, Tail: "x"}},
			false,
			End{Result: agents.Failed, Reason: "no", Tail: "x"},
		},
		"words only": {
			Report{
				Ran: true, Outcome: agents.Outcome{Result: agents.Done},
				Look: &forge.ItemFacts{Comments: map[string]int{"qwen": 1}},
			},
			true,
			End{Result: agents.Done, Reason: "commented", Remarked: true},
		},
		"the issue is deleted": {
			Report{Ran: true, Outcome: exit(1), Gone: true},
			true,
			End{Result: agents.Cancelled, Reason: "gone from the forge", Exit: "1"},
		},
		"stopped, its issue is closed": {
			Report{
				Ran: true, Outcome: agents.Outcome{Result: agents.Cancelled}, Stop: threads.StopClosed,
				Look: &forge.ItemFacts{},
			},
			true,
			End{Result: agents.Cancelled, Stop: threads.StopClosed},
		},
		"stopped by a person": {
			Report{Ran: true, Outcome: agents.Outcome{Result: agents.Cancelled}, Stop: threads.StopReleased},
			false,
			End{Result: agents.Cancelled, Stop: threads.StopReleased},
		},
		"failed, and its token is rejected": {
			Report{
				Ran: true, Outcome: agents.Outcome{Result: agents.Failed, ExitCode: 1}, Look: &forge.ItemFacts{},
				Rejected: "401",
			},
			true,
			End{Result: agents.TokenRejected, Reason: "401", Exit: "1"},
		},
		"failed in an archived repository": {
			Report{
				Ran: true, Outcome: agents.Outcome{Result: agents.Failed, ExitCode: 1}, Look: &forge.ItemFacts{},
				Off: "archived", Rejected: "401",
			},
			true,
			End{Result: agents.Cancelled, Reason: "archived", Exit: "1"},
		},
		"limited, whatever the repository": {
			Report{
				Ran: true, Outcome: agents.Outcome{Result: agents.Limited, Reason: "limit", Claimed: true},
				Off: "archived", Rejected: "401",
			},
			false,
			End{Result: agents.Limited, Reason: "limit"},
		},
		"never started": {
			Report{Outcome: exit(1)},
			false,
			End{Result: agents.Failed, NeverRan: true, Exit: "1", Tail: "one\ntwo\n", LastLine: "two"},
		},
	} {
		r := tt.report
		r.Run, r.Item, r.Login, r.Breaker = "run", item, "qwen", time.Minute
		tt.want.Run, tt.want.Breaker = "run", time.Minute
		if diff := cmp.Diff(&tt.want, r.End()); diff != "" || r.AsksForge() != tt.asks {
			t.Errorf("%s: asks the forge %t, want %t (-want +got):\n%s", name, r.AsksForge(), tt.asks, diff)
		}
	}
}

// A review approves only if it is done: a program that was cut off did not finish its look.
func TestReportApproves(t *testing.T) {
	look := &forge.ItemFacts{Pull: &forge.Pull{HeadSHA: "aa", Base: "main", MergeBase: "m0", Reviews: []forge.Review{
		{Author: "rev", Verdict: forge.Approved, CommitSHA: "aa"},
	}}}
	r := Report{
		Run: "run", Login: "rev", Ran: true, Look: look,
		Item: threads.Item{Kind: agents.KindReview, HeadSHA: "aa", Base: "main"},
	}
	r.Outcome.Result = agents.Done
	want := threads.Approval{Head: "aa", Base: "main", MergeBase: "m0"}
	if got := r.End(); got.Verdict != Approved || got.Approved == nil || *got.Approved != want {
		t.Errorf("done: got %+v, want %+v", got, want)
	}
	r.Outcome = agents.Outcome{Result: agents.Failed, Reason: "no tests", Claimed: true}
	if got := r.End(); got.Approved != nil {
		t.Errorf("failed by its own words: got %+v approved", got.Approved)
	}
}

// The end of a long output is kept, from the start of a line.
func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{
		"12345678": "12345678", "1234\n5678": "5678", "123456789": "23456789", "\xc3\xa4123456789": "23456789",
	} {
		if got := lastLines(text, 8); got != want {
			t.Errorf("lastLines(%q) = %q, want %q", text, got, want)
		}
	}
}
