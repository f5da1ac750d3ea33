package supervisor

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// heldByOld returns a state in which the old secrets of a configuration have held everything that they can hold.
func heldByOld(cfg *threads.Config, now time.Time) *state {
	st := newState(cfg, nil, threads.Decide, nil)
	late := now.Add(time.Hour)
	ledger.Entry(st.ledger.Agents, "dev-a").HoldAs(threads.TokenRejected, late, "the forge refuses its token")
	ledger.Entry(st.ledger.Agents, "dev-b").HoldAs(threads.NoAnswer, late, "invalid key")
	ledger.Entry(st.ledger.Agents, "dev-c").HoldAs(threads.NoPlace, late, "no node")
	limited := ledger.Entry(st.ledger.Threads, "limited")
	limited.ParkedUntil, limited.ParkedWhy, limited.ParkedAs = late, "usage limit", threads.ThreadPark
	down := ledger.Entry(st.ledger.Threads, "down")
	down.ParkedUntil, down.ParkedAs, down.Unanswered = late, threads.ThreadDown, "dev-b"
	ledger.Entry(st.ledger.Items, threads.Key{Ref: forge.Ref{Repo: "o/r", Number: 1}}).CoolDown = late
	unanswered := ledger.Entry(st.ledger.Items, threads.Key{Ref: forge.Ref{Repo: "o/r", Number: 2}})
	unanswered.CoolDown, unanswered.Downs = late, 3
	ledger.Entry(st.ledger.Repos, "o/r").Bar("dev-a", late, "its token may not write")
	ledger.Entry(st.ledger.Repos, "o/r").Bar("dev-b", late, "its account may not write")
	return st
}

// A reload ends what an old secret held, and nothing else: an agent with a rejected token is asked about at once, and
// is only then well; a usage limit ends with the key of its account, a missing right with the token that lacked it. A
// late answer about an old token holds nobody.
func TestRotatedSecretsEndHolds(t *testing.T) {
	now := time.Now()
	old := func() *threads.Config {
		key := []agents.Var{{Name: "MODEL_KEY", Value: "old"}}
		return &threads.Config{
			Threads: []threads.Thread{{Name: "down"}, {Name: "limited", Vars: key}},
			Agents:  []agents.Agent{{Name: "dev-a", Token: "old"}, {Name: "dev-b", Token: "same"}, {Name: "dev-c"}},
		}
	}
	newKey, newInherited, newToken := old(), old(), old()
	newKey.Threads[1].Vars = []agents.Var{{Name: "MODEL_KEY", Value: "new"}}
	newInherited.Newer = []agents.Var{{Name: "ANTHROPIC_API_KEY", Value: "new"}}
	newToken.Agents[0].Token = "new"
	for name, tt := range map[string]struct {
		next            *threads.Config
		limited, barred bool
	}{
		"nothing":       {old(), true, true},
		"thread's key":  {newKey, false, true},
		"inherited key": {newInherited, false, true},
		"token":         {newToken, true, false},
	} {
		st := heldByOld(old(), now)
		st.reload(tt.next, func() {})
		at := time.Now()
		a, b, c := st.ledger.Agent("dev-a"), st.ledger.Agent("dev-b"), st.ledger.Agent("dev-c")
		if a.Held(at) || !a.Rejected() || b.Held(at) || !c.Held(at) {
			t.Errorf("%s: got agents %+v, %+v, %+v, want the first in doubt, the second free and the third held", name, a, b, c)
		}
		if got := st.ledger.Thread("limited").ParkedUntil.After(at); got != tt.limited {
			t.Errorf("%s: the usage limit lasts: %v, want %v", name, got, tt.limited)
		}
		if st.ledger.Thread("down").ParkedUntil.After(at) {
			t.Errorf("%s: the thread without an answer is still held", name)
		}
		repo := st.ledger.Repo("o/r")
		if _, got := repo.Barred["dev-a"]; got != tt.barred || len(repo.Barred) == 0 {
			t.Errorf("%s: got %+v, want dev-b barred, and dev-a: %v", name, repo.Barred, tt.barred)
		}
		for key, it := range st.ledger.Items {
			if rests := it.CoolDown.After(at); rests != (key.Ref.Number == 1) {
				t.Errorf("%s: %v rests: %v", name, key.Ref, rests)
			}
		}
		late := &doubt{why: "the forge refuses its token", rest: time.Hour, code: threads.TokenRejected}
		st.holdAgent(&old().Agents[0], "o/r", late) // asked before the reload
		if got := st.ledger.Agent("dev-a").Held(at); got != tt.barred {
			t.Errorf("%s: a late answer about the old token holds dev-a: %v", name, got)
		}
	}
}
