package threads_test

import (
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// TestCold checks that a conversation of which the server had less than half gets its surest cause.
func TestCold(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	cold := agents.Resumption{Cached: 100, Computed: 7900}
	none := agents.Resumption{Computed: 8000}
	changed := agents.Resumption{Cached: 100, Computed: 7900, Changed: "line 12: the date"}
	big := &agents.Server{PerToken: 96 << 10}
	huge := &agents.Server{PerToken: 2 << 20}
	two := []string{"dev-a #1", "dev-b #2"}
	tests := []struct {
		name string
		r    threads.Resumed
		want string // a part of it; empty: warm
	}{
		{"warm", threads.Resumed{Resumption: agents.Resumption{Cached: 4000, Computed: 4000}, Others: two}, ""},
		{"nothing known", threads.Resumed{}, ""},
		{
			"another took the slot",
			threads.Resumed{Resumption: cold, Others: two},
			"had 1 % of 8000 tokens: its slot was taken by dev-a #1, dev-b #2, and no memory",
		},
		{
			"many did",
			threads.Resumed{Resumption: cold, Others: append(two, "x #3", "y #4", "z #5")},
			"dev-a #1, dev-b #2, x #3 and 2 more",
		},
		{"with too many", threads.Resumed{
			Resumption: none, Others: strings.Split(strings.Repeat("x,", 11), ","),
			Server: big,
		}, "with 12 sessions since then it takes 9.5 GiB"},
		{
			"too large for memory",
			threads.Resumed{Resumption: none, Others: two, Server: huge},
			"it takes 15.6 GiB, more than the server's memory",
		},
		{
			"the prompt changed",
			threads.Resumed{Resumption: changed, Others: two, Server: huge},
			"differs from the last session's, first in line 12: the date",
		},
		{
			"the model",
			threads.Resumed{Resumption: none, Others: two, Server: &agents.Server{Forgets: true}},
			"state cannot be kept token by token",
		},
		{
			"a restart",
			threads.Resumed{Resumption: changed, Last: at, Restarted: at.Add(time.Minute)},
			"restarted at 2026-11-22T12:01:00Z",
		},
		{
			"a restart before",
			threads.Resumed{Resumption: none, Last: at, Restarted: at.Add(-time.Minute)},
			"asks side questions",
		},
		{"it slept", threads.Resumed{Resumption: none, Last: at, Slept: at.Add(time.Minute)}, "had unloaded its model"},
		{
			"alone, and a part is the same",
			threads.Resumed{Resumption: cold},
			"the CLI's prompt changed after its first 100 tokens",
		},
	}
	for _, tt := range tests {
		got := tt.r.Cold()
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
