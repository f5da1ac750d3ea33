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
	merges := []ledger.Merged{{Ref: past[0].Ref, Chain: past[0].Ref, When: noon}}
	return control.RecordOf(past, merges, 0, control.RecordQuery{
		Since: noon.Add(-time.Hour), By: []ledger.By{ledger.ByAgent, ledger.BySkill},
	})
}

// In CSV an unknown value is an empty field, and a key is neither a formula to a spreadsheet nor a command to a
// terminal.
func TestRecordCSV(t *testing.T) {
	got := View{}.RecordCSV(record())
	for _, want := range []string{
		"by,key,merged,reviewed,first_round,rounds_each,minutes_each,tokens_each,usd_each,sessions,",
		"agent,dev-old,0,0,0,,,,,1,3,,,1,1,0.15,,0,0,0\n",
		"agent,review-opus,1,1,0,1,6,38000,0.82,2,6,38000,0.82,0,0,0.15,0,0,0,0\n",
		"skill,'=cmd(),1,1,0,1,20,1234000,,1,20,1234000,,0,1,1,0.8,0,0,0\n", "skill,[2Jgo,",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got no %q in\n%s", want, got)
		}
	}
}

// A report of a time whose first sessions are forgotten says from when it counts: with 25,000 sessions in a month it
// summed up the newest 4,000 without a word.
func TestRecordForgotten(t *testing.T) {
	ref := ledger.Ref{Repo: "o/r", Number: 7}
	var past []ledger.Past
	for i := range ledger.PastLimit {
		end := noon.Add(time.Duration(i) * time.Minute)
		past = append(past, ledger.Past{Agent: "a", Kind: agents.KindIssue, Ref: ref, Chain: ref, Start: end, End: end})
	}
	by := []ledger.By{ledger.ByAgent}
	want := "\ncounts the newest 4000 of 25000 sessions, which ended since " + noon.UTC().Format("2006-01-02 15:04") +
		" UTC: earlier ones are forgotten\n"
	cut := control.RecordOf(past, nil, 25000, control.RecordQuery{Since: noon.Add(-time.Hour), By: by, Agent: "a"})
	if got := (View{}).Record(cut); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s, want at its end %s", got, want)
	}
	whole := control.RecordOf(past, nil, 25000, control.RecordQuery{Since: noon.Add(time.Hour), By: by})
	if got := (View{}).Record(whole); strings.Contains(got, "forgotten") {
		t.Errorf("nothing of that time is forgotten, and got\n%s", got)
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
		`AGENT +MERGED +FIRST PASS +GREEN +ROUNDS`, `dev-qwen +1 +0 of 1 +3 of 4 +1.0`, `dev-old +0 +- +- +-`,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("got no %q in\n%s", want, got)
		}
	}
}
