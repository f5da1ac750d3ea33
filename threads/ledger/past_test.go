package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestPast checks that Past has every session that ran and ended, and that compaction keeps it.
func TestPast(t *testing.T) {
	review := startRec("r", 12, 1)
	review.At = noon.Add(time.Hour)
	review.Start.Item.Kind, review.Start.Chain = agents.KindReview, Ref{"o/r", 11}
	end := endRec("r", 0, End{Result: agents.Done})
	end.At = noon.Add(2 * time.Hour)
	review.Start.Ready, review.Start.Priority, review.Start.Skills = noon.Add(-time.Minute), 2, []string{"go"}
	review.Start.Pinned = true
	old := Past{
		Agent: "dev-old", Kind: agents.KindRework, Ref: Ref{"o/r", 12}, Chain: Ref{"o/r", 11},
		Start: noon.Add(-2 * time.Hour), End: noon.Add(-time.Hour),
	}
	long := old
	long.Start, long.End = noon.Add(-pastAge-2*time.Hour), noon.Add(-pastAge-time.Hour)
	list := []Record{
		{At: noon, Past: &long},
		{At: noon, Past: &old},
		startRec("a", 1, 1), endRec("a", time.Minute, End{Result: agents.Failed}),
		startRec("b", 2, 1), endRec("b", time.Minute, End{Result: agents.ClaimFailed, NeverRan: true}),
		startRec("c", 3, 1), // still runs
		review, end,
	}
	const rest = "rework #12 of #11, 1h0m0s, p0 [] false; issue #1 of #1, 1m0s, p0 [] false; " +
		"review #12 of #11, 1h0m0s, p2 [go] true"
	for _, tt := range []struct {
		name, want string
		records    []Record
	}{
		{"as written", "rework #12 of #11, 1h0m0s, p0 [] false; " + rest, list},
		{"compacted", rest, fold(list...).Compact(noon)}, // sessions older than a month are dropped
	} {
		var got []string
		past, err := ReadHistory(bytes.NewReader(journalText(t, tt.records)))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range past.Past {
			got = append(got, fmt.Sprintf("%s %s of %s, %s, p%d %v %t", s.Kind, forge.Ref(s.Ref).Short(),
				forge.Ref(s.Chain).Short(), s.End.Sub(s.Start), s.Priority, s.Skills, s.Pinned))
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.name, strings.Join(got, "; "), tt.want)
		}
	}
}

// TestTypical checks that the typical duration is the median of a kind's newest sessions. Fewer than three give none.
func TestTypical(t *testing.T) {
	var s State
	session := func(kind agents.Kind, took time.Duration) {
		s.appendPast(Past{Agent: "a", Kind: kind, Start: noon, End: noon.Add(took)})
	}
	for range typicalOf {
		session(agents.KindIssue, time.Hour) // displaced below
	}
	for i := range typicalOf {
		session(agents.KindIssue, time.Duration(i+1)*time.Minute)
	}
	for range 2 {
		session(agents.KindReview, time.Minute)
	}
	got := s.Typical()
	if len(got) != 1 || got[agents.KindIssue] != (typicalOf/2+1)*time.Minute {
		t.Errorf("got %v, want the median of issues only", got)
	}
}

// TestUsuals checks that an agent's usual time is that of its own sessions, and that of all while it has too few.
func TestUsuals(t *testing.T) {
	var s State
	session := func(agent string, took time.Duration) {
		s.appendPast(Past{Agent: agent, Kind: agents.KindIssue, Start: noon, End: noon.Add(took)})
	}
	for i := range typicalFrom {
		session("slow", time.Duration(i+1)*time.Hour)
	}
	session("new", time.Minute)
	for agent, want := range map[string]time.Duration{"slow": 2 * time.Hour, "new": 2 * time.Hour} {
		if got := s.Usuals().Of(agent, agents.KindIssue); got != want {
			t.Errorf("%s: got %s, want %s", agent, got, want)
		}
	}
	session("new", time.Minute)
	session("new", time.Minute)
	if got := s.Usuals().Of("new", agents.KindIssue); got != time.Minute {
		t.Errorf("with three sessions of its own: got %s, want 1m", got)
	}
	if got := s.Usuals().Of("slow", agents.KindReview); got != 0 {
		t.Errorf("without a session of the kind: got %s, want 0", got)
	}
}

// journalText returns a journal of these records and a torn last line.
func journalText(t testing.TB, records []Record) []byte {
	t.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return append(text.Bytes(), "{ torn"...)
}

// TestPastIsBounded checks the number and the size of the sessions that are kept.
func TestPastIsBounded(t *testing.T) {
	h := New()
	for i := range 2*PastLimit + 7 {
		at := noon.Add(time.Duration(i) * time.Minute)
		h.appendPast(Past{
			Agent: "dev-qwen", Kind: agents.KindIssue, Ref: Ref{"o/r", int64(i)}, Chain: Ref{"o/r", int64(i)},
			Ready: at, Priority: 5, Start: at, End: at.Add(time.Minute),
		})
	}
	if n := len(h.Past); n != PastLimit || h.Past[0].Ref.Number != PastLimit+7 || h.Past[n-1].Ref.Number != 2*PastLimit+6 {
		t.Errorf("got %d sessions, from %v to %v, want the newest PastLimit", n, h.Past[0].Ref, h.Past[n-1].Ref)
	}
	if size := len(journalText(t, h.Compact(noon))); size > 5<<18 {
		t.Errorf("got %d bytes of journal, want at most 1.25 MiB", size)
	}
}

// TestReadySince checks that an issue is ready since it was filed, reopened or unblocked, and other work since it was
// due.
func TestReadySince(t *testing.T) {
	on, is := forge.Ref{Repo: "o/r", Number: 1}, forge.Ref{Repo: "o/r", Number: 2}
	facts := forge.Facts{Issues: []forge.Issue{
		{Ref: on, Closed: true, Ended: noon},
		{
			Ref: is, Created: noon.Add(-time.Hour), Labels: []string{"backlog", "bug", "in-progress", "priority/1", "skill/go"},
			Blockers: []forge.Blocker{{Ref: on}, {Ref: forge.Ref{Repo: "o/r", Number: 9}}},
		},
	}}
	it := threads.Item{Kind: agents.KindIssue, Ref: is, Chain: is, Since: noon.Add(-time.Hour)}
	since, skills, labels := ReadySince(&facts, &it)
	if got := strings.Join(labels, " "); !since.Equal(noon) || !slices.Equal(skills, []string{"go"}) ||
		got != "bug priority/1" {
		t.Errorf("after its blocker: got %s, %v and %s, want noon, go, bug and priority/1", since, skills, got)
	}
	facts.Issues[1].Reopened = noon.Add(time.Minute)
	if since, _, _ := ReadySince(&facts, &it); !since.Equal(noon.Add(time.Minute)) {
		t.Errorf("reopened: got %s, want a minute after noon", since)
	}
	it.Kind, it.Since = agents.KindRework, noon.Add(2*time.Minute)
	if since, _, _ := ReadySince(&facts, &it); !since.Equal(it.Since) {
		t.Errorf("rework: got %s, want %s", since, it.Since)
	}
}

func TestPinned(t *testing.T) {
	ref := forge.Ref{Repo: "o/r", Number: 1}
	assigned := forge.Issue{Ref: ref, Assignees: []string{"Dev-Qwen"}}
	begun := assigned
	begun.Labels = []string{forge.LabelInProgress}
	for _, tt := range []struct {
		name string
		kind agents.Kind
		is   forge.Issue
		want bool
	}{
		{"assigned to the agent", agents.KindIssue, assigned, true},
		{"assigned to another agent", agents.KindIssue, forge.Issue{Ref: ref, Assignees: []string{"dev-kimi"}}, false},
		{"not assigned", agents.KindIssue, forge.Issue{Ref: ref}, false},
		{"assigned by an earlier session", agents.KindIssue, begun, false},
		{"rework", agents.KindRework, assigned, false},
		{"not on the forge", agents.KindIssue, forge.Issue{Ref: forge.Ref{Repo: "o/r", Number: 2}}, false},
	} {
		facts := forge.Facts{Issues: []forge.Issue{tt.is}}
		it := threads.Item{Kind: tt.kind, Ref: ref, Chain: ref}
		if got := Pinned(&facts, &it, "dev-qwen"); got != tt.want {
			t.Errorf("an issue %s: pinned %t, want %t", tt.name, got, tt.want)
		}
	}
}

// BenchmarkStartWithPast folds a journal with as many past sessions as are kept.
func BenchmarkStartWithPast(b *testing.B) {
	h := New()
	for i := range PastLimit {
		at := noon.Add(time.Duration(i) * time.Minute)
		h.appendPast(Past{
			Agent: "dev-qwen", Kind: agents.KindIssue, Ref: Ref{"johba/harb", int64(i)},
			Chain: Ref{"johba/harb", int64(i)}, Ready: at, Priority: 5, Start: at, End: at.Add(time.Minute),
		})
	}
	text := journalText(b, h.Compact(noon))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		records, _ := Parse(text)
		fold(records...)
	}
}

// TestPastIsNotCopied checks that dropping old sessions does not copy the list for each line of a long journal.
func TestPastIsNotCopied(t *testing.T) {
	h := New()
	copies := 0
	for i := range 3 * PastLimit {
		h.appendPast(Past{Agent: fmt.Sprint(i)})
		full := len(h.Past) == PastLimit
		if full {
			second := &h.Past[1]
			h.appendPast(Past{Agent: "next"})
			if &h.Past[0] != second {
				copies++
			}
		}
	}
	if len(h.Past) != PastLimit || copies > 30 {
		t.Errorf("got %d sessions and %d copies, want PastLimit and at most 30", len(h.Past), copies)
	}
}
