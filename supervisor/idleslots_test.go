package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// A slot's time beside work ends when the slot is taken, when the code changes, or after an hour. Short times are
// dropped.
func TestStood(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	busy := []threads.FreeSlot{{Thread: "llama", Slot: 1, Code: threads.AgentBusy}}
	parked := []threads.FreeSlot{{Thread: "llama", Slot: 1, Code: threads.ThreadPark}}
	both := append([]threads.FreeSlot{{Thread: "api", Slot: 0, Code: threads.NoRoom}}, busy...)
	for _, tt := range []struct {
		name, want string
		turns      map[time.Duration][]threads.FreeSlot
	}{
		{"taken", "llama/1 agent-busy 0s-1m0s", map[time.Duration][]threads.FreeSlot{0: busy, time.Minute: nil}},
		{"taken at once", "", map[time.Duration][]threads.FreeSlot{0: busy, time.Second: nil}},
		{
			"another reason", "llama/1 agent-busy 0s-1m0s llama/1 parked 1m0s-2m0s",
			map[time.Duration][]threads.FreeSlot{0: busy, time.Minute: parked, 2 * time.Minute: nil},
		},
		{
			"two slots", "api/0 no-room 0s-1m0s llama/1 agent-busy 0s-1m0s",
			map[time.Duration][]threads.FreeSlot{0: both, time.Minute: nil},
		},
		{
			"goes on", "llama/1 agent-busy 0s-1h0m0s llama/1 agent-busy 1h0m0s-1h30m0s",
			map[time.Duration][]threads.FreeSlot{0: busy, time.Hour: busy, 90 * time.Minute: nil},
		},
	} {
		s, got := make(idleSlots), ""
		for at := time.Duration(0); at <= 2*time.Hour; at += time.Second {
			free, turned := tt.turns[at]
			if !turned {
				continue
			}
			for _, f := range s.update(free, begin.Add(at)) {
				got += fmt.Sprintf(" %s/%d %s %s-%s", f.Thread, f.Slot, f.Code, f.From.Sub(begin), f.Until.Sub(begin))
			}
		}
		if strings.TrimSpace(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if len(s) != 0 {
			t.Errorf("%s: got leftover %v, want none", tt.name, s)
		}
	}
}

// stand returns times that have not ended.
func TestStands(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := make(idleSlots)
	s.update([]threads.FreeSlot{{Thread: "llama", Slot: 0, Code: threads.AgentBusy}}, begin)
	if list := s.open(begin.Add(time.Second)); len(list) != 0 {
		t.Errorf("after a second: got %v, want none", list)
	}
	list := s.open(begin.Add(time.Minute))
	if len(list) != 1 || !list[0].From.Equal(begin) || !list[0].Until.Equal(begin.Add(time.Minute)) {
		t.Errorf("after a minute: got %v, want that minute", list)
	}
}
