package control

import (
	"slices"
	"testing"

	"codeberg.org/johba/disinto/threads"
)

// Each flag of retry chooses what fits it, and several what fits all of them.
func TestRetryChoice(t *testing.T) {
	d := &Document{Queue: []QueueDocument{
		{Repo: "o/r", Number: 1, Code: threads.SkipLabel, Why: "labelled blocked: x", NeedsPerson: true, FailedBy: "a"},
		{Repo: "o/s", Number: 2, Code: threads.SkipLabel, Why: "labelled needs-human", NeedsPerson: true},
		{Repo: "o/r", Number: 3, Code: threads.CoolDown, FailedBy: "a"},
		{Repo: "o/s", Number: 4, Code: threads.GaveUp, FailedBy: "b"},
		{Repo: "o/r", Number: 5, Code: threads.NoSlot},
		{Repo: "o/r", Number: 6, Code: threads.SkipLabel, Why: "labelled cancelled", FailedBy: "a"},
		{Repo: "o/r", Code: threads.CoolDown, FailedBy: "a"},
	}}
	for _, tt := range []struct {
		choice RetryChoice
		want   []int64
	}{
		{RetryChoice{}, nil},
		{RetryChoice{All: true}, []int64{1, 2, 3, 4}},
		{RetryChoice{Blocked: true}, []int64{1, 4}},
		{RetryChoice{Agent: "a"}, []int64{1, 3}},
		{RetryChoice{Repo: "O/S"}, []int64{2, 4}},
		{RetryChoice{Blocked: true, Repo: "o/r"}, []int64{1}},
	} {
		var got []int64
		for _, q := range tt.choice.From(d) {
			got = append(got, q.Number)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %v, want %v", tt.choice, got, tt.want)
		}
	}
}
