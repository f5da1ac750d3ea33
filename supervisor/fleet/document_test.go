package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A host is idle when an agent could start and none works, since its last agent became idle.
func TestSum(t *testing.T) {
	noon := time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	idle := func(minutes int) Agent {
		return Agent{Idle: true, IdleSince: noon.Add(time.Duration(minutes) * time.Minute)}
	}
	for _, tt := range []struct {
		name   string
		agents []Agent
		want   string
	}{
		{"none", nil, `"idle":false,"pending_count":0,`},
		{
			"all idle",
			[]Agent{idle(1), idle(5), idle(3)},
			`"idle":true,"idle_since":"2026-11-03T12:05:00Z","pending_count":0,`,
		},
		{"one works", []Agent{idle(1), {Active: "o/r#1", PendingCount: 2}}, `"idle":false,"pending_count":2,`},
		{
			"one is gated",
			[]Agent{{PendingCount: 4}, idle(1), {PendingCount: 3}},
			`"idle":true,"idle_since":"2026-11-03T12:01:00Z","pending_count":7,`,
		},
		{"all are gated", []Agent{{PendingCount: 4}}, `"idle":false,"pending_count":4,`},
	} {
		d := Document{Idle: true, IdleSince: noon, PendingCount: 9, Agents: tt.agents}
		d.Sum()
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), tt.want) {
			t.Errorf("%s: got %s, want %s", tt.name, text, tt.want)
		}
	}
}
