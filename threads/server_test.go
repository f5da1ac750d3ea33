package threads_test

import (
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// serverConfig returns a factory with a local thread whose agents use a CLI.
func serverConfig(slots int, cli string, names ...string) *threads.Config {
	c := &threads.Config{
		Threads: []threads.Thread{{
			Name: "llama", Backend: threads.Local, BaseURL: "http://box:8080/v1", Slots: slots, MaxSessions: slots,
			Agents: names,
		}},
		Roles: []agents.Role{{Name: "dev", On: agents.OnIssue, CLI: cli}},
	}
	for _, name := range names {
		c.Agents = append(c.Agents, agents.Agent{Name: name, Thread: "llama", Roles: []string{"dev"}})
	}
	return c
}

func TestServerProblems(t *testing.T) {
	two := serverConfig(2, "qwen", "a", "b")
	shared := serverConfig(2, "qwen", "a")
	shared.Threads = append(shared.Threads, threads.Thread{Name: "night", BaseURL: "http://box:8080/v1", Slots: 1})
	tests := []struct {
		name   string
		config *threads.Config
		server agents.Server
		want   []string // a part of each line
	}{
		{"the server fits", two, agents.Server{Slots: 2, Context: 20_480}, nil},
		{"the server reports nothing", two, agents.Server{}, nil},
		{
			"one slot", two,
			agents.Server{Slots: 1, Context: 20_480},
			[]string{"start it with -np 2, or set max_concurrent to 1"},
		},
		{
			"two threads on one server", shared,
			agents.Server{Slots: 2, Context: 20_480},
			[]string{"max_concurrent of llama and night wants 3"},
		},
		{
			"no room for the CLI", two,
			agents.Server{Slots: 2, Context: 8192},
			[]string{"qwen needs 17000 at its start: start it with -c 34000"},
		},
		{"codex", serverConfig(1, "codex", "a"), agents.Server{Slots: 1, Context: 16_384}, []string{
			"codex needs 18000 at its start: start it with -c 18000",
		}},
		{"a short CLI", serverConfig(1, "claude", "a"), agents.Server{Slots: 1, Context: 9_000}, nil},
		{"a program of the operator's", serverConfig(1, "", "a"), agents.Server{Slots: 1, Context: 512}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines(t, tt.config.ServerProblems(&tt.config.Threads[0], &tt.server), tt.want)
		})
	}
}

func TestServerNotes(t *testing.T) {
	emptied := []agents.ServerSlot{{ID: 0, Task: 3, Held: 0}, {ID: 1, Task: 7, Held: 900}, {ID: 2, Task: -1}}
	held := []agents.ServerSlot{{ID: 0, Task: 3, Held: 400}, {ID: 1, Task: 7, Held: 900}, {ID: 2, Task: -1}}
	overlap := serverConfig(2, "qwen", "a")
	overlap.Threads[0].Overlap = true
	tests := []struct {
		name   string
		config *threads.Config
		server agents.Server
		want   []string
	}{
		{"nothing known", serverConfig(2, "qwen", "a"), agents.Server{}, nil},
		{"own caches", serverConfig(2, "qwen", "a"), agents.Server{At: held}, nil},
		{"one cache for all", serverConfig(2, "qwen", "a"), agents.Server{At: emptied}, []string{"--no-kv-unified"}},
		{
			"one slot of three erased", serverConfig(3, "qwen", "a"),
			agents.Server{At: append(held, agents.ServerSlot{ID: 3, Task: 5})},
			nil,
		},
		{
			"a restore failed in the newest", serverConfig(2, "qwen", "a"),
			agents.Server{At: []agents.ServerSlot{{Task: 3}, {Task: 7}}},
			nil,
		},
		{"one cache, and agents share the slots", overlap, agents.Server{At: emptied}, nil},
		{"erased while nothing else ran", serverConfig(1, "qwen", "a"), agents.Server{At: emptied[:1]}, nil},
		{
			"memory for two of three", serverConfig(2, "qwen", "a", "b", "c"),
			agents.Server{PerToken: 96 << 10, Context: 40_960},
			[]string{"3 agents take up to 11.2 GiB", "--cache-ram 11520"},
		},
		{"memory for both", serverConfig(2, "qwen", "a", "b"), agents.Server{PerToken: 96 << 10, Context: 40_960}, nil},
		{"a window", serverConfig(2, "qwen", "a"), agents.Server{Forgets: true}, []string{"no file brings it back"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.config.ServerNotes(&tt.config.Threads[0], &tt.server)
			if tt.name == "memory for two of three" && len(got) == 1 {
				got = []string{got[0], got[0]} // both parts are in one line
			}
			lines(t, got, tt.want)
		})
	}
}

// lines compares lines with an expected part of each.
func lines(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got lines %q, want %q", got, want)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("got line %q, want %q in it", got[i], want[i])
		}
	}
}

func TestServerPast(t *testing.T) {
	var p threads.ServerPast
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	if p.Now() != (threads.Speed{}) || p.Hour() != (threads.Speed{}) || p.Slowed() != "" {
		t.Error("got speeds without any look, want none")
	}
	work := agents.ServerWork{}
	// minute makes the server read and write for half a minute each, at speeds in tokens per second.
	minute := func(reads, writes float64) {
		at = at.Add(time.Minute)
		work.Read += int64(30 * reads)
		work.Written += int64(30 * writes)
		work.ReadSeconds += 30
		work.WrittenSeconds += 30
		w := work
		p.Add(at, &agents.Server{Work: &w})
	}
	for range 40 {
		minute(400, 20)
	}
	if now, hour := p.Now(), p.Hour(); now != (threads.Speed{Read: 400, Written: 20}) || hour != now || p.Slowed() != "" {
		t.Errorf("got now %v, hour %v, slowed %q", now, hour, p.Slowed())
	}
	for range 3 {
		minute(400, 8)
	}
	if p.Slowed() != "" {
		t.Errorf("got %q while the mean of the last minutes is above half, want nothing", p.Slowed())
	}
	for range 3 {
		minute(400, 8)
	}
	if want := "it writes 8.0 tokens/s in a slot, and wrote 20 in the hour before"; p.Slowed() != want {
		t.Errorf("Slowed() = %q, want %q", p.Slowed(), want)
	}
	for range 70 {
		minute(400, 8)
	}
	if p.Slowed() != "" || p.Hour() != (threads.Speed{Read: 400, Written: 8}) {
		t.Errorf("an hour later: got slowed %q and hour %v, want only the new speed", p.Slowed(), p.Hour())
	}
	for range 6 {
		minute(90, 8)
	}
	if want := "it reads 90 tokens/s in a slot, and read 394 in the hour before"; p.Slowed() != want {
		t.Errorf("Slowed() = %q, want %q", p.Slowed(), want)
	}
	work = agents.ServerWork{}
	minute(400, 20) // the server restarted
	if p.Now() != (threads.Speed{}) || p.Restarted != at || p.Slowed() != "" {
		t.Errorf("after a restart: got now %v and restarted %v", p.Now(), p.Restarted)
	}
	for range 90 { // idle
		at = at.Add(time.Minute)
		w := work
		p.Add(at, &agents.Server{Work: &w})
	}
	if p.Hour() != (threads.Speed{}) {
		t.Errorf("after an hour without work: got %v, want none", p.Hour())
	}
}

func TestServerSlots(t *testing.T) {
	var p threads.ServerPast
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	look := func(slots ...agents.ServerSlot) {
		at = at.Add(time.Minute)
		p.Add(at, &agents.Server{At: slots})
	}
	look(agents.ServerSlot{ID: 0, Task: 5, Busy: true, Read: 1200}, agents.ServerSlot{
		ID: 1, Task: 4, Busy: true,
		Read: 50, Written: 10,
	})
	if p.Slot(0) != (threads.Speed{}) {
		t.Error("got a speed after one look, want none")
	}
	look(agents.ServerSlot{ID: 0, Task: 5, Busy: true, Read: 7200}, agents.ServerSlot{
		ID: 1, Task: 4, Busy: true, Read: 50,
		Written: 130,
	})
	if a, b := p.Slot(0), p.Slot(1); a != (threads.Speed{Read: 100}) || b != (threads.Speed{Written: 2}) {
		t.Errorf("got %v and %v, want 100 read and 2 written", a, b)
	}
	// Slot 0 reads and writes between the looks, and slot 1 has another request.
	look(agents.ServerSlot{ID: 0, Task: 5, Busy: true, Read: 7300, Written: 9},
		agents.ServerSlot{ID: 1, Task: 6, Busy: true, Read: 90, Written: 190})
	if a, b := p.Slot(0), p.Slot(1); a != (threads.Speed{}) || b != (threads.Speed{}) {
		t.Errorf("got %v and %v, want no speeds", a, b)
	}
	look(agents.ServerSlot{ID: 0, Task: 1, Busy: true}, agents.ServerSlot{ID: 1, Task: -1})
	if p.Restarted != at {
		t.Error("lower request numbers did not set Restarted")
	}
}
