package threads

import (
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

func TestJudge(t *testing.T) {
	const me, other, head = "dev-qwen", "dev-opus", "aaaaaaaaaa"
	issue := func(closed bool, labels ...string) forge.ItemFacts {
		return forge.ItemFacts{Issue: &forge.Issue{Ref: forge.Ref{Repo: "o/r", Number: 11}, Closed: closed, Labels: labels}}
	}
	withPull := func(p forge.Pull) forge.ItemFacts {
		l := issue(false)
		p.Ref = forge.Ref{Repo: "o/r", Number: 12}
		l.Pulls = []forge.Pull{p}
		return l
	}
	pull := func(p forge.Pull) forge.ItemFacts { return forge.ItemFacts{Pull: &p} }
	reviews := func(r ...forge.Review) forge.ItemFacts { return pull(forge.Pull{HeadSHA: head, Reviews: r}) }
	said := func(l forge.ItemFacts, who string) forge.ItemFacts {
		l.Comments = map[string]int{who: 1}
		return l
	}
	exit := func(code int) agents.Outcome {
		if code == 0 {
			return agents.Outcome{Result: agents.Done}
		}
		return agents.Outcome{Result: agents.Failed, Reason: "exited with 1", ExitCode: code}
	}
	claim := func(r agents.Result, reason string) agents.Outcome {
		return agents.Outcome{Result: r, Reason: reason, Claimed: true}
	}
	tests := []struct {
		name   string
		kind   agents.Kind
		out    agents.Outcome
		look   forge.ItemFacts
		want   agents.Result
		effect Effect
		reason string
	}{
		{
			"pull request opened", agents.KindIssue, exit(0), withPull(forge.Pull{Author: me}), agents.Done, Achieved,
			"opened #12",
		},
		{
			"pull request merged already", agents.KindIssue, exit(0),
			withPull(forge.Pull{Author: me, Closed: true, Merged: true}), agents.Done, Achieved, "merged #12",
		},
		{
			"pull request opened, then exit 1", agents.KindIssue, exit(1), withPull(forge.Pull{Author: me}), agents.Done,
			Achieved, "opened #12, although it exited with 1",
		},
		{
			"pull request opened, then silence", agents.KindIssue,
			agents.Outcome{Result: agents.Stalled, Reason: "silent"},
			withPull(forge.Pull{Author: me}), agents.Done, Achieved, "opened #12, although it stalled afterwards",
		},
		{
			"pull request opened, then over its budget", agents.KindIssue,
			agents.Outcome{Result: agents.OverBudget, Reason: "9 of 9 tokens"},
			withPull(forge.Pull{Author: me}), agents.Done, Achieved,
			"opened #12, although it reached a limit afterwards: 9 of 9 tokens",
		},
		{
			"over its budget", agents.KindIssue,
			agents.Outcome{Result: agents.OverBudget, Reason: "9 of 9 tokens"},
			issue(false), agents.OverBudget, NoEffect, "9 of 9 tokens",
		},
		{
			"over its budget by its own words", agents.KindIssue, claim(agents.OverBudget, "9 of 9 tokens"),
			withPull(forge.Pull{Author: me}), agents.Done, Achieved,
			"opened #12, although it reached a limit afterwards: 9 of 9 tokens",
		},
		{
			"a loop", agents.KindIssue, claim(agents.Looped, "make test"), withPull(forge.Pull{Author: me}), agents.Looped,
			NoEffect, "make test",
		},
		{
			"another account's pull request", agents.KindIssue, exit(0), withPull(forge.Pull{Author: other}), agents.NoProgress,
			NoEffect, "ended without a pull request",
		},
		{
			"own pull request closed again", agents.KindIssue, exit(0), withPull(forge.Pull{Author: me, Closed: true}),
			agents.NoProgress, NoEffect, "ended without a pull request",
		},
		{"issue closed", agents.KindIssue, exit(0), issue(true), agents.Done, Achieved, "closed #11"},
		{
			"exit 0 and nothing", agents.KindIssue, exit(0), issue(false, "backlog"), agents.NoProgress, NoEffect,
			"ended without a pull request",
		},
		{"exit 1 and nothing", agents.KindIssue, exit(1), issue(false), agents.Failed, NoEffect, "exited with 1"},
		{"exit 0 and a comment", agents.KindIssue, exit(0), said(issue(false), me), agents.Done, Remarked, "commented"},
		{
			"exit 0 and another account's comment", agents.KindIssue, exit(0), said(issue(false), other), agents.NoProgress,
			NoEffect, "ended without a pull request",
		},
		{"exit 1 and a comment", agents.KindIssue, exit(1), said(issue(false), me), agents.Failed, Remarked, "exited with 1"},
		{
			"failed without a word, and a comment", agents.KindIssue,
			agents.Outcome{Result: agents.Failed},
			said(issue(false), me), agents.Failed, Remarked, "",
		},
		{
			"pull request opened, and a comment", agents.KindIssue, exit(0), said(withPull(forge.Pull{Author: me}), me),
			agents.Done, Achieved, "opened #12",
		},
		{
			"a plan that nobody asked for, and nothing", agents.KindIssue, claim(agents.Planned, "my plan"), issue(false),
			agents.NoProgress, NoEffect, "ended without a pull request, and said: a plan, which was not asked for",
		},
		{
			"exit 0 and a label", agents.KindIssue, exit(0), issue(false, "backlog", "underspecified"), agents.Done, Remarked,
			"labelled underspecified",
		},
		{
			"says done, and nothing", agents.KindIssue, claim(agents.Done, "all good"), issue(false), agents.NoProgress,
			NoEffect, "ended without a pull request, and said: all good",
		},
		{
			"unreadable result, and nothing", agents.KindIssue,
			agents.Outcome{Result: agents.Done, Reason: "result has no outcome"},
			issue(false), agents.NoProgress, NoEffect, "ended without a pull request; result has no outcome",
		},
		{
			"unreadable result, and did it", agents.KindIssue,
			agents.Outcome{Result: agents.Done, Reason: "result has no outcome"},
			withPull(forge.Pull{Author: me}), agents.Done, Achieved, "opened #12; result has no outcome",
		},
		{
			"says done, and did it", agents.KindIssue, claim(agents.Done, "all good"), withPull(forge.Pull{Author: me}),
			agents.Done, Achieved, "all good",
		},
		{
			"says failed after all", agents.KindIssue, claim(agents.Failed, "tests are red"), withPull(forge.Pull{Author: me}),
			agents.Failed, NoEffect, "tests are red",
		},
		{
			"says refused", agents.KindIssue, claim(agents.Refused, "too large"), issue(false), agents.Refused,
			NoEffect, "too large",
		},
		{"says limited", agents.KindIssue, claim(agents.Limited, "limit"), issue(false), agents.Limited, NoEffect, "limit"},
		{
			"ended by us", agents.KindIssue,
			agents.Outcome{Result: agents.Cancelled, Reason: "closed"},
			withPull(forge.Pull{Author: me}), agents.Cancelled, NoEffect, "closed",
		},
		{
			"ended by us, its own merge closed the issue", agents.KindIssue,
			agents.Outcome{Result: agents.Cancelled, Reason: "closed"},
			withPull(forge.Pull{Author: me, Closed: true, Merged: true}), agents.Done, Achieved, "merged #12",
		},
		{
			"ended by us, another account's merge closed the issue", agents.KindIssue,
			agents.Outcome{Result: agents.Cancelled, Reason: "closed"},
			withPull(forge.Pull{Author: other, Closed: true, Merged: true}), agents.Cancelled, NoEffect, "closed",
		},
		{
			"ended by us, the issue was closed", agents.KindIssue,
			agents.Outcome{Result: agents.Cancelled, Reason: "closed"},
			issue(true), agents.Cancelled, NoEffect, "closed",
		},
		{
			"rework ended by us at the merge", agents.KindRework,
			agents.Outcome{Result: agents.Cancelled, Reason: "closed"},
			pull(forge.Pull{Closed: true, Merged: true}), agents.Done, Achieved, "merged #0",
		},
		{
			"rework ended by us, and nothing merged", agents.KindRework,
			agents.Outcome{Result: agents.Cancelled, Reason: "taken"},
			pull(forge.Pull{}), agents.Cancelled, NoEffect, "taken",
		},

		{
			"approved", agents.KindReview, exit(0), reviews(forge.Review{Author: me, Verdict: forge.Approved, CommitSHA: head}),
			agents.Done, Achieved, "approved",
		},
		{
			"changes requested", agents.KindReview, exit(0),
			reviews(forge.Review{Author: me, Verdict: forge.ChangesRequested, CommitSHA: head}), agents.Done, Achieved,
			"changes requested",
		},
		{
			"head moved during the review", agents.KindReview, exit(0),
			pull(forge.Pull{HeadSHA: "bbb", Reviews: []forge.Review{{Author: me, Verdict: forge.Approved, CommitSHA: head}}}),
			agents.Done, Achieved, "approved",
		},
		{
			"head moved during the review, verdict on the new one", agents.KindReview, exit(0),
			pull(forge.Pull{HeadSHA: "bbb", Reviews: []forge.Review{{Author: me, Verdict: forge.Approved, CommitSHA: "bbb"}}}),
			agents.Done, Achieved, "approved",
		},
		{
			"verdict on an older head", agents.KindReview, exit(0),
			reviews(forge.Review{Author: me, Verdict: forge.Approved, CommitSHA: "old"}), agents.NoProgress, NoEffect,
			"ended without a verdict",
		},
		{
			"dismissed verdict", agents.KindReview, exit(0),
			reviews(forge.Review{Author: me, Verdict: forge.Approved, CommitSHA: head, Dismissed: true}), agents.NoProgress,
			NoEffect, "ended without a verdict",
		},
		{
			"another account's verdict", agents.KindReview, exit(0),
			reviews(forge.Review{Author: other, Verdict: forge.Approved, CommitSHA: head}), agents.NoProgress, NoEffect,
			"ended without a verdict",
		},
		{
			"review that only comments", agents.KindReview, exit(0), reviews(forge.Review{Author: me, CommitSHA: head}),
			agents.Done, Remarked, "commented",
		},
		{
			"comment after a verdict", agents.KindReview, exit(0),
			reviews(forge.Review{Author: me, Verdict: forge.Approved, CommitSHA: head},
				forge.Review{Author: me, CommitSHA: head}), agents.Done, Achieved, "approved",
		},
		{
			"merged without waiting for the verdict", agents.KindReview, exit(1), pull(forge.Pull{Closed: true, Merged: true}),
			agents.Done, Achieved, "merged, although it exited with 1",
		},

		{
			"pushed", agents.KindRework, exit(0), pull(forge.Pull{HeadSHA: "bbbbbbbbbb"}), agents.Done, Achieved,
			"pushed bbbbbbb",
		},
		{"pushed what was not sent back", agents.KindRework, exit(0), pull(forge.Pull{HeadSHA: "bbb", Reviews: []forge.Review{
			{Author: other, Verdict: forge.ChangesRequested, CommitSHA: head, Official: true},
			{Author: other, CommitSHA: "bbb", Official: true},
			{Author: "passer-by", Verdict: forge.ChangesRequested, CommitSHA: "bbb"},
			{Author: "boss", Verdict: forge.ChangesRequested, CommitSHA: "bbb", Official: true},
			{Author: "boss", Verdict: forge.Approved, CommitSHA: "bbb", Official: true},
			{Author: "boss2", Verdict: forge.ChangesRequested, CommitSHA: "bbb", Official: true, Dismissed: true},
		}}), agents.Done, Achieved, "pushed bbb"},
		{
			"pushed a head that was sent back before", agents.KindRework, exit(0),
			pull(forge.Pull{HeadSHA: "bbb", Reviews: []forge.Review{
				{Author: other, Verdict: forge.ChangesRequested, CommitSHA: "bbb", Official: true},
				{Author: other, Verdict: forge.ChangesRequested, CommitSHA: head, Official: true},
			}}), agents.NoProgress, NoEffect, "ended without a new commit",
		},
		{
			"pushed a head that was sent back and discussed", agents.KindRework, exit(0),
			pull(forge.Pull{HeadSHA: "bbb", Reviews: []forge.Review{
				{Author: other, Verdict: forge.ChangesRequested, CommitSHA: "bbb", Official: true},
				{Author: other, Verdict: forge.Commented, CommitSHA: "bbb", Official: true},
			}}), agents.NoProgress, NoEffect, "ended without a new commit",
		},
		{
			"pushed nothing", agents.KindRework, exit(0), pull(forge.Pull{HeadSHA: head}), agents.NoProgress, NoEffect,
			"ended without a new commit",
		},
		{
			"answered in words", agents.KindRework, exit(0), said(pull(forge.Pull{HeadSHA: head}), me), agents.Done,
			Remarked, "commented",
		},
		{
			"closed the pull request", agents.KindRework, exit(0), pull(forge.Pull{HeadSHA: head, Closed: true}), agents.Done,
			Achieved, "closed",
		},

		{"scheduled, exit 0", agents.KindSchedule, exit(0), forge.ItemFacts{}, agents.Done, NoEffect, ""},
		{"scheduled, exit 1", agents.KindSchedule, exit(1), forge.ItemFacts{}, agents.Failed, NoEffect, "exited with 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, effect := Judge(Item{Kind: tt.kind, HeadSHA: head}, me, tt.out, tt.look, head)
			if got.Result != tt.want || got.Reason != tt.reason || effect != tt.effect {
				t.Errorf("got %s %q, effect %d; want %s %q, effect %d", got.Result, got.Reason, effect, tt.want,
					tt.reason, tt.effect)
			}
		})
	}
}

// TestApprovalOf checks that an approval counts only for the head and the base at the session's start, and only if
// the pull request had that base all the time.
func TestApprovalOf(t *testing.T) {
	item := Item{Kind: agents.KindReview, HeadSHA: "aa", Base: "main", Seen: scriptStart}
	pull := forge.Pull{HeadSHA: "aa", Base: "main", MergeBase: "m0", Retargeted: scriptStart, Reviews: []forge.Review{
		{Author: "other", Verdict: forge.ChangesRequested, CommitSHA: "aa"},
		{Author: "rev", Verdict: forge.ChangesRequested, CommitSHA: "aa"},
		{Author: "rev", Verdict: forge.Approved, CommitSHA: "aa"},
		{Author: "rev", Verdict: forge.Commented, CommitSHA: "aa"},
	}}
	for _, tt := range []struct {
		name   string
		change func(it *Item, p *forge.Pull)
		want   bool
	}{
		{"approved", func(*Item, *forge.Pull) {}, true},
		{"another head", func(_ *Item, p *forge.Pull) { p.HeadSHA = "bb" }, false},
		{"approved for another head", func(_ *Item, p *forge.Pull) { p.Reviews[2].CommitSHA = "bb" }, false},
		{"another base", func(_ *Item, p *forge.Pull) { p.Base = "evil" }, false},
		{"there and back", func(_ *Item, p *forge.Pull) { p.Retargeted = scriptStart.Add(time.Second) }, false},
		{"dismissed", func(_ *Item, p *forge.Pull) { p.Reviews[2].Dismissed = true }, false},
		{"objected afterwards", func(_ *Item, p *forge.Pull) { p.Reviews[3].Verdict = forge.ChangesRequested }, false},
		{"of another account", func(_ *Item, p *forge.Pull) { p.Reviews[2].Author = "other" }, false},
		{"a session of an older version", func(it *Item, _ *forge.Pull) { it.Base = "" }, false},
		{"given before the session", func(it *Item, p *forge.Pull) { p.Reviews[2].ID, it.Reviewed = 7, 7 }, false},
		{"given in the session", func(it *Item, p *forge.Pull) { p.Reviews[2].ID, it.Reviewed = 8, 7 }, true},
		{"no review", func(it *Item, _ *forge.Pull) { it.Kind = agents.KindRework }, false},
	} {
		it, p := item, pull
		p.Reviews = slices.Clone(pull.Reviews)
		tt.change(&it, &p)
		got := ApprovalOf(it, "rev", forge.ItemFacts{Pull: &p})
		if (got != nil) != tt.want || got != nil && *got != (Approval{"", "aa", "main", "m0"}) {
			t.Errorf("%s: got approval %v, want one: %v", tt.name, got, tt.want)
		}
	}
}

// Without a pull request there is no approval.
func TestApprovalOfNothing(t *testing.T) {
	if got := ApprovalOf(Item{Kind: agents.KindReview}, "rev", forge.ItemFacts{}); got != nil {
		t.Errorf("got %v", got)
	}
}

// The last verdict of a review session on its first or its last head is its verdict.
func TestVerdictOf(t *testing.T) {
	approved := forge.Review{Author: "rev", Verdict: forge.Approved, CommitSHA: "aa"}
	changes := forge.Review{Author: "rev", Verdict: forge.ChangesRequested, CommitSHA: "bb"}
	words := forge.Review{Author: "rev", Verdict: forge.Commented, CommitSHA: "bb"}
	older := forge.Review{Author: "rev", Verdict: forge.Approved, CommitSHA: "old"}
	for _, tt := range []struct {
		name    string
		kind    agents.Kind
		reviews []forge.Review
		want    forge.Verdict
	}{
		{"none", agents.KindReview, nil, forge.Commented},
		{"on the first head", agents.KindReview, []forge.Review{approved}, forge.Approved},
		{"on the last head", agents.KindReview, []forge.Review{changes}, forge.ChangesRequested},
		{"both", agents.KindReview, []forge.Review{approved, changes}, forge.ChangesRequested},
		{"words afterwards", agents.KindReview, []forge.Review{approved, words}, forge.Approved},
		{"another head afterwards", agents.KindReview, []forge.Review{changes, older}, forge.ChangesRequested},
		{"no review", agents.KindRework, []forge.Review{approved}, forge.Commented},
	} {
		look := forge.ItemFacts{Pull: &forge.Pull{HeadSHA: "bb", Reviews: tt.reviews}}
		if got := VerdictOf(Item{Kind: tt.kind, HeadSHA: "aa"}, "rev", look); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := VerdictOf(Item{Kind: agents.KindReview}, "rev", forge.ItemFacts{}); got != forge.Commented {
		t.Errorf("no pull request: got %v", got)
	}
}

// A look at the forge costs requests. It is needed wherever Judge does not believe the report.
func TestAsksForge(t *testing.T) {
	issue, plan := Item{Kind: agents.KindIssue}, Item{Kind: agents.KindIssue, Cause: CausePlan}
	for _, tt := range []struct {
		item    Item
		result  agents.Result
		claimed bool
		want    bool
	}{
		{issue, agents.Done, true, true},
		{issue, agents.OverBudget, true, true},
		{issue, agents.Failed, false, true},
		{issue, agents.Failed, true, false},
		{issue, agents.Limited, false, false},
		{issue, agents.Refused, true, false},
		{issue, agents.Planned, true, true},
		{plan, agents.Planned, true, false},
		{plan, agents.Done, true, true},
		{Item{Kind: agents.KindSchedule}, agents.Done, true, false},
	} {
		if got := AsksForge(tt.item, agents.Outcome{Result: tt.result, Claimed: tt.claimed}); got != tt.want {
			t.Errorf("%s %q reports %v, claimed %v: asks is %v", tt.item.Kind, tt.item.Cause, tt.result, tt.claimed, got)
		}
	}
}
