package supervisor

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// A workspace is in use while a session of any agent works on its chain, while its agent's thread is parked, and while
// the forge is not read. Otherwise it is idle, or over once its issue and the pull requests for it are closed.
func TestLastUse(t *testing.T) {
	chain := forge.Ref{Repo: "o/r", Number: 1}
	for name, tt := range map[string]struct {
		change func(st *state)
		want   use
	}{
		"open":   {func(*state) {}, idle},
		"closed": {func(st *state) { st.facts.Issues[0].Closed = true }, over},
		"gone":   {func(st *state) { st.facts.Issues = nil }, over},
		"closed, with an open pull request": {func(st *state) {
			st.facts.Issues[0].Closed = true
			st.facts.Pulls = []forge.Pull{{Ref: forge.Ref{Repo: "o/r", Number: 2}, Closes: []forge.Ref{chain}}}
		}, idle},
		"not read":      {func(st *state) { st.facts.Repos = nil }, inUse},
		"written to":    {func(st *state) { st.busy[chain]++ }, inUse},
		"parked":        {parkUntil(time.Now().Add(time.Hour)), inUse},
		"parked before": {parkUntil(time.Now().Add(-time.Hour)), idle},
		"another agent's session": {func(st *state) {
			st.sessions["r"] = &session{Session: threads.Session{Agent: "other", Item: threads.Item{Chain: chain}}}
		}, inUse},
	} {
		cfg := &threads.Config{Agents: []agents.Agent{{Name: "dev", Thread: "api"}}}
		st := newState(cfg, nil, threads.Decide, func() bool { return false })
		st.facts.Repos = []forge.Repo{{Name: "o/r", AsOf: time.Now()}}
		st.facts.Issues = []forge.Issue{{Ref: chain}}
		tt.change(st)
		if _, got := st.lastUse("dev", chain); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func parkUntil(at time.Time) func(*state) {
	return func(st *state) { ledger.Entry(st.ledger.Threads, "api").ParkedUntil = at }
}
