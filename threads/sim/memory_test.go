package sim

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

func TestMemory(t *testing.T) {
	a, b, c := new(trialIssue), new(trialIssue), new(trialIssue)
	m := memory{room: 1000}
	for i, step := range []struct {
		issue  *trialIssue
		tokens int64
		had    bool
	}{
		{a, 400, false},
		{b, 400, false},
		{a, 500, true},
		{b, 400, true},
		{c, 300, false},
		{b, 400, true},
		{a, 500, false}, // c displaced a, and a displaces c
		{c, 300, false},
		{a, 2000, true},
		{a, 2000, false},
		{nil, 100, false},
	} {
		if had := m.use("dev", step.issue, step.tokens); had != step.had {
			t.Errorf("step %d: had = %v, want the opposite", i, had)
		}
	}
}

// dayOf plays twelve issues in two bursts, each with one or two reworks, for six agents on a server with two slots.
func dayOf(cache threads.Cache, policy Policy) Report {
	cfg := fleet(6, 2, 2)
	cfg.Thread("write").Cache = cache
	var load Load
	for i := range 12 {
		load = append(load, Work{
			At: time.Duration(i/6) * 4 * time.Hour, Priority: 5, Review: 5 * time.Minute,
			Sessions: []time.Duration{8 * time.Minute, 5 * time.Minute, 4 * time.Minute}[:2+i%2],
		})
	}
	return Trial{Config: cfg, Load: load, Policy: policy, Cache: Cache{Base: 2000, Growth: 5}, Seed: 1}.Run()
}

// A server whose memory holds every conversation reads each once. Bound slots read one again after each switch, and
// shared slots after each turn.
func TestTrialWithMemory(t *testing.T) {
	cron, slots, memory := dayOf("", Cron), dayOf("", Ours), dayOf(threads.CacheServer, Ours)
	if memory.Done != 12 || memory.Reloaded != 12*2000 {
		t.Errorf("with memory: got %d issues done and %d tokens read again, want 12 and 24000", memory.Done, memory.Reloaded)
	}
	if 2*memory.Reloaded > slots.Reloaded || 4*slots.Reloaded > cron.Reloaded {
		t.Errorf("got tokens read again: cron %d, bound slots %d, memory %d, want far fewer from left to right",
			cron.Reloaded, slots.Reloaded, memory.Reloaded)
	}
}

// A server gives a new conversation the idle slot that was used least recently, not the slot that the thread names.
func TestServerSlots(t *testing.T) {
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	slots := make(serverSlots, 2)
	for i, tt := range []struct {
		agent        string
		chain        int64
		from, to     int
		had          bool
		first, other int64 // chains in the slots
	}{
		{"a", 1, 0, 10, false, 1, 0},
		{"b", 2, 0, 20, false, 1, 2},
		{"a", 3, 12, 18, false, 3, 2}, // 2 is busy
		{"b", 4, 20, 22, false, 4, 2}, // 3 was used before 2
		{"b", 2, 23, 25, true, 4, 2},
		{"a", 2, 26, 28, false, 2, 2}, // of another agent
		{"c", 5, 27, 40, false, 2, 5}, // the first slot is busy
		{"d", 6, 27, 40, false, 2, 5}, // both are busy
	} {
		ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
		had := slots.occupy(serverSlot{agent: tt.agent, chain: ref(tt.chain), until: at(tt.to)}, at(tt.from))
		if had != tt.had || slots[0].chain.Number != tt.first || slots[1].chain.Number != tt.other {
			t.Errorf("session %d: take = %v, slots have %d and %d", i, had, slots[0].chain.Number, slots[1].chain.Number)
		}
	}
}
