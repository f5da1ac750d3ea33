package supervisor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// What lasts is logged once, at the level of who must act, and so is its end.
func TestAlarmLog(t *testing.T) {
	until := time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)
	queue := []control.QueueDocument{
		{Repo: "o/r", Number: 1, Code: threads.NoRoom, Why: "300M of memory free, min_free_memory is 512M"},
		{Repo: "o/r", Number: 2, Code: threads.NoRoom, Why: "300M of memory free, min_free_memory is 512M"},
		{Repo: "o/r", Number: 3, Code: threads.ClaimedElsewhere, Why: "claimed by dev-iris"},
		{Repo: "o/r", Number: 4, Code: threads.CoolDown, Why: "rests"},
	}
	d := &control.Document{
		Agents: []control.AgentDocument{
			{Name: "dev-a", State: control.AgentHeld, NeedsPerson: true, Why: "dev-a has no token"},
			{Name: "dev-b", State: control.AgentHeld, Why: "dev-b rests"},
		},
		Services: []control.ServiceDocument{{Name: "db", NeedsPerson: true, Why: "exit status 3"}, {Name: "web"}},
		Threads: []control.ThreadDocument{
			{Name: "llama", ParkedUntil: until, ParkedAs: threads.ThreadPark, ParkedWhy: "usage limit"}, {Name: "other"},
		},
		Queue: queue,
	}
	a := &alarmLog{}
	want := []notice{
		{warn: true, words: "dev-a can start nothing: has no token"},
		{words: "[o/r#3] claimed by dev-iris"},
		{warn: true, words: "no room to start: 300M of memory free, min_free_memory is 512M"},
		{warn: true, words: "thread llama is rate limited until 2026-03-01T14:00:00Z: usage limit"},
		{warn: true, words: "service db needs a person: exit status 3"},
	}
	same := cmp.AllowUnexported(notice{})
	if diff := cmp.Diff(want, a.news(d), same); diff != "" {
		t.Errorf("the first status (-want +got):\n%s", diff)
	}
	if again := a.news(d); len(again) != 0 {
		t.Errorf("the same status again: got %+v, want nothing", again)
	}
	full := &control.Document{
		Alarms: []control.AlarmDocument{{Code: threads.NoRoom, About: "/state", Words: "full"}}, Queue: queue[:1],
	}
	want = []notice{
		{warn: true, words: "full"},
		{words: "dev-a can start again"},
		{},
		{words: "there is room again"},
		{words: "thread llama is free again"},
		{words: "service db needs nobody any more"},
	}
	if diff := cmp.Diff(want, a.news(full), same); diff != "" {
		t.Errorf("a full disk, and the others are over (-want +got):\n%s", diff)
	}
}
