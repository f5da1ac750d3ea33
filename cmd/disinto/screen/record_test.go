package screen

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// record returns a report on sessions with and without a known usage, and on skills whose names are a formula and an
// escape sequence.
func record() *control.RecordDocument {
	run := func(agent string, kind agents.Kind, minutes int, verdict ledger.Verdict, used *agents.Usage,
		skills ...string,
	) ledger.Past {
		ref := ledger.Ref{Repo: "o/r", Number: 7}
		return ledger.Past{
			Agent: agent, Kind: kind, Ref: ref, Chain: ref, Start: noon, End: noon.Add(time.Duration(minutes) * time.Minute),
			Verdict: verdict, Usage: used, Skills: skills,
		}
	}
	past := []ledger.Past{
		run("dev-qwen", agents.KindIssue, 20, "", &agents.Usage{
			InputTokens: 1_200_000, CachedTokens: 4_800_000,
			OutputTokens: 34_000,
		}, "=cmd()"),
		run("review-opus", agents.KindReview, 3, ledger.ChangesRequested, &agents.Usage{InputTokens: 20_000, CostUSD: 0.42}),
		run("dev-qwen", agents.KindRework, 7, "", nil, "\x1b[2Jgo"),
		run("review-opus", agents.KindReview, 3, ledger.Approved, &agents.Usage{InputTokens: 18_000, CostUSD: 0.4}),
		run("dev-old", agents.KindSchedule, 3, "", nil),
	}
	past[4].Chain.Number = 0
	merges := []ledger.Merged{{
		Ref: past[0].Ref, Chain: past[0].Ref, When: noon, Agent: "dev-qwen", Credit: &ledger.Credit{
			Labels: past[0].AllLabels(), Reviews: 2, Rounds: 1, Rejected: true,
		},
	}}
	past[2].Outcome, past[2].Reason = agents.Failed, "exit status 12"
	return control.RecordOf(&ledger.Books{Past: past, Merges: merges}, control.RecordQuery{
		Since: noon.Add(-time.Hour), By: []ledger.By{ledger.ByAgent, ledger.ByLabel, ledger.ByCause},
	})
}

// In CSV an unknown value is an empty field, and a key is neither a formula to a spreadsheet nor a command to a
// terminal.
func TestRecordCSV(t *testing.T) {
	got := View{}.RecordCSV(record())
	for _, want := range []string{
		"by,key,merged,reviewed,first_round,rounds_each,minutes_each,tokens_each,usd_each,sessions,",
		"agent,dev-old,0,0,0,,,,,1,3,,,0,,1,1,,0,0,0\n",
		"agent,dev-qwen,1,1,0,1,27,1234000,,2,27,1234000,,1,,1,2,0.8,0,0,0\n",
		"agent,review-opus,0,0,0,,,,,2,6,38000,0.82,0,,0,0,0,0,0,0\n",
		"label,skill/=cmd(),1,1,0,1,20,1234000,,1,20,", "label,skill/[2Jgo,", "cause,failed: exit status N,",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got no %q in\n%s", want, got)
		}
	}
}

// A report says which sessions it counts: with 25,000 sessions in a month it summed up the newest 4,000 without a word.
func TestRecordCounts(t *testing.T) {
	ref := ledger.Ref{Repo: "o/r", Number: 7}
	b := ledger.Books{Ever: 25000}
	for i := range ledger.PastLimit {
		end := noon.Add(time.Duration(i) * time.Minute)
		b.Past = append(b.Past, ledger.Past{Agent: "a", Kind: agents.KindIssue, Ref: ref, Chain: ref, Start: end, End: end})
	}
	since := control.RecordQuery{Since: noon.Add(-time.Hour), By: []ledger.By{ledger.ByAgent}}
	at := noon.UTC().Format("2006-01-02 15:04")
	shows := func(want string) {
		t.Helper()
		if got := (View{}).Record(control.RecordOf(&b, since)); !strings.HasSuffix(got, "\n"+want+"\n") {
			t.Errorf("got\n%s, want at its end %s", got, want)
		}
	}
	shows("counts 4000 of 25000 sessions, from " + at + " UTC on")
	day := noon.UTC().Format(time.DateOnly)
	b.Days = map[string]ledger.Sums{day: {ledger.SumKey{}: {Sessions: 21000}}}
	shows("counts all 25000 sessions, from " + day + " 00:00 UTC on; of the first 21000, sums of whole days")
	since.By = []ledger.By{ledger.ByCause}
	if got := (View{}).Record(control.RecordOf(&b, since)); !strings.HasPrefix(got, "no session failed in that time\n") {
		t.Errorf("without a failure: got\n%s", got)
	}
	b.Past, b.Days, b.Ever = b.Past[:1], nil, 0
	shows("counts 1 session, from " + at + " UTC on")
}

// The list of sessions says when earlier ones of its time are no longer in it; its CSV has the rest of what is known.
func TestHistoryOfPart(t *testing.T) {
	d := &control.HistoryDocument{Kept: 4000, From: noon, Ever: 25000}
	want := "lists sessions from " + noon.UTC().Format("2006-01-02 15:04") +
		" UTC on: the newest 4000 of 25000 are kept; disinto report has the sums of the others\n"
	if got := (View{}).History(d); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want at its end %q", got, want)
	}
	p := control.PastDocument{}
	p.Agent, p.Ref, p.Start, p.End = "dev-qwen", ledger.Ref{Repo: "o/r", Number: 7}, noon, noon.Add(time.Minute)
	p.Outcome, p.Reason, p.Labels, p.Run = agents.Failed, "=cmd(), \x1b[2J", []string{"bug"}, "r1"
	p.Usage = &agents.Usage{InputTokens: 5, CostUSD: 0.5, Estimated: true}
	d.Sessions = append(d.Sessions, p)
	lines := strings.Split((View{}).HistoryCSV(d), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "start,end,agent,") ||
		!strings.HasSuffix(lines[1], `,dev-qwen,,,,,o/r,7,,bug,0,failed,"'=cmd(), [2J",,5,0,0,0.5,true,r1`) {
		t.Errorf("got %q", lines)
	}
}

// Where work is verified, a column has the sessions in which everything passed at once. Elsewhere there is none.
func TestRecordGreen(t *testing.T) {
	d := record()
	if got := (View{}).Record(d); strings.Contains(got, "GREEN") {
		t.Errorf("got a column of nothing:\n%s", got)
	}
	d.Total.Verified, d.Total.GreenFirst = 4, 3
	for i := range d.Groups[0].Rows {
		if r := &d.Groups[0].Rows[i]; r.Key == "dev-qwen" {
			r.Verified, r.GreenFirst = 4, 3
		}
	}
	got := (View{}).Record(d)
	for _, want := range []string{
		`AGENT +MERGED .* CACHE +GREEN`, `dev-qwen +1 .* 3 of 4\n`, `dev-old +0 .* -\n`,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("got no %q in\n%s", want, got)
		}
	}
}
