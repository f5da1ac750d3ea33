package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// TestParks checks that a park lasts from the session that met the limit to the reset, to a later reset, or to a
// session that got through.
func TestParks(t *testing.T) {
	limited := func(run string, at, reset time.Duration) []Record {
		start, end := startRec(run, 1, 1), endRec(run, 0, End{Result: agents.Limited, RetryAt: noon.Add(reset)})
		start.At, end.At = noon.Add(at-time.Second), noon.Add(at)
		return []Record{start, end}
	}
	got := func(run string, at time.Duration) []Record {
		start, end := startRec(run, 1, 1), endRec(run, 0, End{Result: agents.Done})
		start.At, end.At = noon.Add(at-time.Second), noon.Add(at)
		return []Record{start, end}
	}
	join := func(lists ...[]Record) (all []Record) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for _, tt := range []struct {
		name, want string
		records    []Record
	}{
		{"one limit", "0s-1h0m0s", limited("a", 0, time.Hour)},
		{"a later reset extends", "0s-2h0m0s", join(limited("a", 0, time.Hour), limited("b", time.Minute, 2*time.Hour))},
		{"an earlier one does not", "0s-1h0m0s", join(limited("a", 0, time.Hour), limited("b", time.Minute, time.Minute))},
		{
			"another limit is another park", "0s-1h0m0s 3h0m0s-4h0m0s",
			join(limited("a", 0, time.Hour), limited("b", 3*time.Hour, 4*time.Hour)),
		},
		{"a session after the reset", "0s-1h0m0s", join(limited("a", 0, time.Hour), got("b", 2*time.Hour))},
		{"nothing", "", got("a", 0)},
	} {
		var list []string
		for _, p := range fold(tt.records...).Parks {
			list = append(list, fmt.Sprintf("%s-%s", p.From.Sub(noon), p.Until.Sub(noon)))
		}
		if s := strings.Join(list, " "); s != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, s, tt.want)
		}
	}
}

// TestTimelineIsBounded checks that the timeline keeps the newest entries of each list, and compaction a month of
// them.
func TestTimelineIsBounded(t *testing.T) {
	s := New()
	for i := range PastLimit + 10 {
		at := noon.Add(time.Duration(i) * time.Second)
		for _, r := range []Record{
			{Merged: &Merged{Ref: Ref{"o/r", 2}, Chain: Ref{"o/r", 1}, When: at}},
			{Free: &Free{"llama", 0, threads.AgentBusy, at, at.Add(time.Second)}},
			{Parked: &Parked{"llama", "limit", at, at}},
		} {
			r.At = at
			if !r.valid() {
				t.Fatalf("%+v is not valid", r.content())
			}
			s.Apply(r)
		}
	}
	if len(s.Merges) != PastLimit || len(s.Free) != PastLimit || len(s.Parks) != PastLimit {
		t.Errorf("got %d merges, %d free, %d parks, want %d each", len(s.Merges), len(s.Free), len(s.Parks), PastLimit)
	}
	if first := s.Merges[0].When; !first.Equal(noon.Add(10 * time.Second)) {
		t.Errorf("the first merge is from %s, want 10 s after noon", first)
	}
	if list := slices.Collect(s.compactTimeline(noon.Add(pastAge + 24*time.Hour))); len(list) != 0 {
		t.Errorf("after a month: got %d records, want none", len(list))
	}
}

// TestTimelineSince checks that a timeline since a time lacks what was over before it.
func TestTimelineSince(t *testing.T) {
	line := Timeline{
		Merges: []Merged{{When: noon}, {When: noon.Add(2 * time.Hour)}},
		Free:   []Free{{From: noon, Until: noon.Add(time.Minute)}, {From: noon, Until: noon.Add(2 * time.Hour)}},
		Parks:  []Parked{{From: noon, Until: noon.Add(time.Minute)}, {From: noon, Until: noon.Add(2 * time.Hour)}},
	}
	got := line.Since(noon.Add(time.Hour))
	if len(got.Merges) != 1 || len(got.Free) != 1 || len(got.Parks) != 1 ||
		!got.Merges[0].When.Equal(line.Merges[1].When) {
		t.Errorf("since an hour later: got %+v, want the second entry of each list", got)
	}
	if len(line.Merges) != 2 {
		t.Error("Since changed the timeline itself")
	}
}
