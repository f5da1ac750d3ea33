package supervisor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// What changes plans makes the next tick decide again, and what is reported every few seconds does not.
func TestChanges(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	start := ledger.Start{
		Run: "r", Thread: "llama", Agent: "dev", Role: "dev",
		Item:  ledger.Key{Kind: agents.KindIssue, Ref: ledger.Ref{Repo: "o/r", Number: 1}},
		Chain: ledger.Ref{Repo: "o/r", Number: 1}, Attempt: 1,
	}
	said := &agents.Server{}
	for name, tt := range map[string]struct {
		before, change func(st *state)
		want           bool
	}{
		"a record": {
			change: func(st *state) { st.apply(ledger.Record{At: now, Pause: &ledger.Pause{}}, nil) }, want: true,
		},
		"usage below every limit": {
			change: func(st *state) { st.apply(ledger.Record{At: now, Used: &ledger.Used{Run: "r"}}, nil) },
		},
		"a server's first cache": {
			change: func(st *state) { st.recordCache("http://a", said, now) }, want: true,
		},
		"the same cache": {
			before: func(st *state) { st.recordCache("http://a", said, now) },
			change: func(st *state) { st.recordCache("http://a", said, now) },
		},
		"less room than a session needs": {
			change: func(st *state) { st.setRooms(map[string]threads.Room{"dev-qwen": {Memory: 1}}) }, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newState(&threads.Config{Factory: threads.Factory{MinFreeMemory: 2}}, nil, nil, nil)
			st.until, st.base = context.Background(), context.Background()
			st.apply(ledger.Record{At: now, Start: &start}, nil)
			if tt.before != nil {
				tt.before(st)
			}
			before := st.changes
			tt.change(st)
			if got := st.changes > before; got != tt.want {
				t.Errorf("decides again: %t, want %t", got, tt.want)
			}
		})
	}
}

// A reload leaves sessions with the secrets of the old configuration, which are searched for once, not once a session:
// each line that a session prints is searched for all of them.
func TestSecretsOfManySessions(t *testing.T) {
	old, now := new(threads.Config), new(threads.Config)
	st := newState(now, nil, threads.Decide, func() bool { return false })
	for i := range 100 {
		run := fmt.Sprint(i)
		x := &session{config: old, secrets: []string{"old-secret-1", "old-secret-2"}}
		x.RunID, st.sessions[run] = run, x
	}
	found := 0
	for _, secret := range st.secretsOf(now) {
		if secret == "old-secret-1" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("got a secret %d times, want once", found)
	}
}
