package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// stuck is an issue whose pull request failed its checks too often.
func stuck() *control.ItemDocument {
	past := ledger.Past{
		Run: "run1", Agent: "dev-qwen", Kind: agents.KindIssue, Ref: ledger.Ref{Repo: "o/r", Number: 7},
		Outcome: agents.Failed, Reason: "checks of #9 fail " + hostile, Start: noon, End: noon.Add(time.Hour),
	}
	return &control.ItemDocument{
		Repo: "o/r", Number: 7, Kind: "issue", Title: hostile, Author: "ada", State: control.StateOpen, FiledAt: noon,
		Verdict: "waits: failed CI 3 times, needs a person", Mend: "look at it, then `disinto retry o/r#7`",
		Labels: []string{hostile},
		Pulls: []control.PullDocument{{
			Number: 9, Author: "dev-qwen", Head: "fix/issue-7", State: control.StateOpen, OpenedAt: noon,
			Reviews: []control.ReviewDocument{{Author: "eve", Verdict: "changes", At: noon, Words: hostile}},
		}},
		Sessions: []control.PastDocument{{Past: past, Log: "x"}},
	}
}

// The page of an issue begins with its one reason and the remedy's button. The rules are folded, and every pull request
// and log is a link.
func TestIssuePage(t *testing.T) {
	v := newVisit(t)
	v.api.set("/v1/show", stuck())
	v.api.set("/v1/why", threads.Explanation{Code: threads.TooManyRounds, Steps: []threads.Step{
		{Rule: "open", OK: true}, {Rule: "rounds left", Why: hostile},
	}})
	v.signIn()
	_, page := v.get("/issue?ref=7&session=run1")
	if strings.Contains(page, "<img") || strings.Contains(page, "waits: ") {
		t.Errorf("the title became markup, or the reason has a prefix:\n%s", page)
	}
	rest := page
	for _, want := range []string{
		`<span class="pill bad">CI-fix limit</span>`, "failed CI 3 times, needs a person",
		`class="btn primary" form="do" formaction="/do/retry"`, "/do/sling", "/do/release", "/do/cancel",
		`<details class="rules"><summary>1 of 2 rules fails · <code>too-many-rounds</code>`,
		`id="sessions"`, "session=run1#log", `id="log"`, "of dev-qwen, 22 Nov 12:00 UTC",
		`data-log="/log?ref=o%2Fr%237&amp;session=run1"`, `id="history"`, "asked for changes of", `href="/issue?ref=o%2Fr%239"`, "opened", "filed it", `id="details"`, "PR #9",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("the page does not have %q, or not in its place:\n%s", want, page)
		}
		rest = after
	}
}

// An item that is over, or that runs, says so, and offers no remedy.
func TestStanding(t *testing.T) {
	for _, tt := range []struct {
		state   string
		running bool
		code    threads.Code
		want    string
	}{
		{control.StateMerged, false, "", "Merged"},
		{control.StateClosed, false, threads.Closed, "Closed"},
		{control.StateOpen, true, threads.HasSession, "Running"},
		{control.StateOpen, false, "", "Queued"},
		{control.StateOpen, false, threads.BlockerOpen, "Blocked"},
		{control.StateOpen, false, threads.NeedsAnswer, "Question"},
	} {
		d := &control.ItemDocument{State: tt.state}
		if tt.running {
			d.Running = make([]control.SessionDocument, 1)
		}
		if got := standing(d, tt.code); got.Text != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.state, tt.code, got.Text, tt.want)
		}
	}
}

// A plan can be approved on the issue's page until it is approved.
func TestApproveButton(t *testing.T) {
	for labels, want := range map[string]bool{"": false, "plan-first": true, "plan-first plan-approved": false} {
		offered := false
		for _, b := range otherCommands(&control.ItemDocument{Kind: "issue", Labels: strings.Fields(labels)}, "o/r#7", nil) {
			offered = offered || b.Command == "approve"
		}
		if offered != want {
			t.Errorf("labels %q: got approve offered: %v, want %v", labels, offered, want)
		}
	}
}

// Who steers tells the session that writes something on the issue's page, which shows what it has heard.
func TestTellField(t *testing.T) {
	v := newVisit(t)
	d := stuck()
	v.api.set("/v1/show", d)
	v.signIn()
	if _, page := v.get("/issue?ref=7"); strings.Contains(page, "/do/tell") {
		t.Errorf("a field without a session:\n%s", page)
	}
	d.Running = []control.SessionDocument{{RunID: "r", Agent: "dev-qwen", Kind: agents.KindIssue, Told: []agents.Message{
		{At: noon, By: "ada", Text: hostile, Heard: noon}, {At: noon, Text: "use tabs"},
	}}}
	v.api.set("/v1/show", d)
	_, page := v.get("/issue?ref=7")
	for _, want := range []string{
		"dev-qwen hears it after", "ada", "delivered <time", "the operator", "not delivered yet", "use tabs",
		`formaction="/do/tell" name="ref" value="o/r#7"`, "Tell dev-qwen",
	} {
		if !strings.Contains(page, want) || strings.Contains(page, "<img") {
			t.Errorf("the page does not have %q, or has markup:\n%s", want, page)
		}
	}
	v.post("/do/tell", v.server.URL, url.Values{
		"ref": {"o/r#7"}, "text": {"use\ntabs"}, "secret": {v.secret(page)}, "back": {"/issue?ref=7"},
	})
	if got := v.api.commands(); got != `/v1/tell {"ref":"o/r#7","text":"use\ntabs","by":"the holder of the token"}` {
		t.Errorf("commands: %s", got)
	}
}
