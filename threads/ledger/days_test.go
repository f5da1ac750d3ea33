package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// TestNightIsCredited is the night of 14 issues as it happened: dev-a failed at once wherever it began, nine issues
// were blocked, and dev-b had five merged. The report gave dev-a credit for those, because it had begun them, too.
func TestNightIsCredited(t *testing.T) {
	for _, recorded := range []bool{true, false} { // older journals do not have who opened a pull request
		s, runs, at := New(), 0, noon
		session := func(agent string, kind agents.Kind, issue int64, end End, usd float64) {
			runs++
			at = at.Add(5 * time.Second)
			start := startRec(fmt.Sprint(runs), issue, 1)
			start.At, start.Start.Agent, start.Start.Item.Kind = at, agent, kind
			start.Start.Thread = agent + "-thread"
			at = at.Add(3 * time.Second)
			end.Run, end.Usage = start.Start.Run, &agents.Usage{InputTokens: 10, CostUSD: usd}
			s.Apply(start)
			s.Apply(Record{At: at, End: &end})
		}
		broken := End{Result: agents.Failed, Reason: "exit status 127"}
		for issue := range int64(14) {
			tries := 5
			if issue >= 9 {
				tries = 1
			}
			for range tries {
				session("dev-a", agents.KindIssue, issue+1, broken, 0.1)
			}
			if issue >= 9 {
				session("dev-b", agents.KindIssue, issue+1, End{Result: agents.Done}, 1)
				session("review", agents.KindReview, issue+1, End{Result: agents.Done, Verdict: Approved}, 0.5)
				m := &Merged{Ref: Ref{"o/r", issue + 101}, Chain: Ref{"o/r", issue + 1}, When: at}
				if recorded {
					m.Agent = "dev-b"
				}
				s.Apply(Record{At: at, Merged: m})
			}
		}
		for name, b := range map[string]*Books{"kept": s.Books(), "compacted": fold(s.Compact(at)...).Books()} {
			var got []string
			for _, row := range b.Tallies(noon, ByAgent) {
				got = append(got, fmt.Sprintf("%s: merged %d, failed %d for %s, %s in all", row.Key, row.Merged.Pulls,
					row.Failed.Sessions, usageOf(nil, row.Failed.USD), usageOf(nil, row.USD)))
			}
			want := []string{
				"dev-a: merged 0, failed 50 for - $5.00, - $5.00 in all", "dev-b: merged 5, failed 0 for - -, - $5.00 in all",
				"review: merged 0, failed 0 for - -, - $2.50 in all",
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, recorded %t: got %q, want %q", name, recorded, got, want)
			}
			total := b.Total(noon)
			if each := *total.PerMerge.USD; each != 2.5 {
				t.Errorf("%s: a merge cost $%.2f, want $2.50 with all that failed", name, each)
			}
			causes := b.Tallies(noon, ByCause)
			if len(causes) != 1 || causes[0].Key != "failed: exit status N" || causes[0].Failed.Sessions != 50 ||
				!slices.Equal(causes[0].Failed.On, []Ref{{"o/r", 14}, {"o/r", 13}, {"o/r", 12}}) ||
				!slices.Equal(causes[0].Failed.FailedBy, []string{"dev-a"}) {
				t.Errorf("%s: got causes %+v", name, causes)
			}
		}
	}
}

// aMonth returns the state after 12,000 sessions over 31 days that cost $3,918, and the time. The journal was compacted
// every week. There are a merge and a failure for each eight.
func aMonth() (*State, time.Time) {
	const sessions = 12000
	s, at := New(), noon
	for i := range sessions {
		at = noon.Add(time.Duration(i) * (31 * 24 * time.Hour / sessions))
		p := Past{
			Agent: fmt.Sprintf("dev-%d", i%15), Role: "dev", Model: fmt.Sprintf("m%d", i%4), Thread: fmt.Sprintf("t%d", i%3),
			Kind: agents.KindIssue, Ref: Ref{fmt.Sprintf("johba/r%d", i%10), int64(i/3 + 1)}, Run: fmt.Sprint(i),
			Start: at.Add(-time.Minute), End: at, Outcome: agents.Done, Usage: &agents.Usage{InputTokens: 1000, CostUSD: 0.3265},
			Labels: []string{"bug", fmt.Sprintf("area/%d", i%12)},
		}
		p.Chain = p.Ref
		if i%8 == 0 {
			p.Outcome, p.Reason = agents.Failed, fmt.Sprintf("exit status %d", i)
		}
		p.apply(s, at)
		if i%8 == 1 {
			(&Merged{Ref: p.Ref, Chain: p.Chain, When: at, Agent: p.Agent}).apply(s, at)
		}
		if i%2709 == 2708 {
			s = fold(s.Compact(at)...)
		}
	}
	return s, at
}

// TestMonthIsWhole checks that the sums of 31 days are whole, however often the journal was compacted: the report said
// $1,480, the cost of the 4,000 sessions that are kept one by one.
func TestMonthIsWhole(t *testing.T) {
	s, at := aMonth()
	text := journalText(t, s.Compact(at))
	again, err := ReadHistory(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	days := 0
	for r := range again.compactDays(at) {
		days += len(encoded(t, []Record{r}))
	}
	t.Logf("%d bytes of journal, of which the sums of %d days have %d", len(text), len(again.Days), days)
	if perDay := days / len(again.Days); perDay > 14<<10 {
		t.Errorf("the sums of a day take %d bytes, want at most 14 KiB", perDay)
	}
	for _, by := range append(slices.Clone(Bys), byAll) {
		var sum Tally
		for _, row := range again.Books().Tallies(time.Time{}, by) {
			sum.plus(&row.Work)
		}
		sum.round()
		sessions, usd, merged := 12000, 3918.0, 1500
		switch by {
		case ByLabel:
			sessions, usd, merged = 2*sessions, 2*usd, 2*merged
		case ByRefused:
			continue // of no session
		case ByCause:
			sessions, usd, merged = 1500, 489.75, 0
		}
		if sum.Sessions != sessions || *sum.USD != usd || sum.Merged.Pulls != merged || sum.Failed.Sessions%1500 != 0 {
			t.Errorf("by %q: got %d sessions, %d failed, $%.2f and %d merges, want %d, $%.2f and %d", by, sum.Sessions,
				sum.Failed.Sessions, *sum.USD, sum.Merged.Pulls, sessions, usd, merged)
		}
	}
	for _, row := range again.Books().Tallies(time.Time{}, ByIssue) { // merges stand where their sessions do
		if row.Merged.Pulls > 0 && row.PerMerge == nil {
			t.Errorf("%s has %d merges without a session", row.Key, row.Merged.Pulls)
		}
	}
	n, summed, first := again.Books().Counted(noon.Add(24 * time.Hour))
	if n < 11600 || n-summed != PastLimit || !first.Equal(noon.Add(12*time.Hour)) {
		t.Errorf("without the first day: got %d sessions, %d in sums, from %s", n, summed, first)
	}
	if list := slices.Collect(again.compactDays(at.Add(sumsAge))); len(list) != 1 {
		t.Errorf("after a quarter: got the sums of %d days, want that of the last", len(list))
	}
}

// TestSumsAreBounded checks that labels, which agents can choose, do not make a day's sums endless, and add up.
func TestSumsAreBounded(t *testing.T) {
	sums := make(Sums)
	for i := range 3 * sumsMost {
		sums.session(&Past{Agent: "a", Labels: []string{fmt.Sprint(i)}, Outcome: agents.Done})
	}
	labels, n := 0, 0
	for k, w := range sums {
		if k.By == ByLabel {
			labels++
			n += w.Sessions
		}
	}
	if labels != sumsMost+1 || n != 3*sumsMost || sums[SumKey{ByLabel, Others}].Sessions != 2*sumsMost {
		t.Errorf("got %d labels with %d sessions, want %d with all", labels, n, sumsMost+1)
	}
}

// TestCause checks that failures differ in their cause and not in the numbers of their words.
func TestCause(t *testing.T) {
	for _, tt := range []struct{ reason, want string }{
		{"exit status 127", "failed: exit status N"},
		{"no push to fix/issue-12 at 3f2c9ab0 after 1.5 s\nmore", "failed: no push to fix/issue-N at N after N s"},
		{"", "failed"},
		{"defaced", "failed: N"}, // a word that could be a hash
	} {
		if got := causeOf(&Past{Outcome: agents.Failed, Reason: tt.reason}); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.reason, got, tt.want)
		}
	}
}

// BenchmarkReport folds a month and reports on it.
func BenchmarkReport(b *testing.B) {
	s, at := aMonth()
	text := journalText(b, s.Compact(at))
	for b.Loop() {
		s, _ := ReadHistory(bytes.NewReader(text))
		s.Books().Tallies(time.Time{}, ByAgent)
	}
}
