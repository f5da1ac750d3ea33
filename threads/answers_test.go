package threads

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// answers formats the answers of the present plan for items, agents and threads.
func (w *scriptWorld) answers() string {
	plan := Decide(w.s)
	var out strings.Builder
	for a := range Answers(&w.s, &plan) {
		of := a.Name
		if of == "" {
			of = string(a.Kind) + " " + a.Ref.Short()
		}
		fmt.Fprintf(&out, "%s: %s\n", of, a.Verdict())
		if a.Reason == nil {
			continue
		}
		if what := a.Reason.WaitsFor(); what != "" {
			fmt.Fprintf(&out, "    for %s\n", what)
		}
	}
	return out.String()
}

// A caller may take some of the answers only.
func TestAnswersBreakOff(t *testing.T) {
	after := func(s *Snapshot) {
		plan := Decide(*s)
		all := 0
		for range Answers(s, &plan) {
			all++
		}
		for n := range all {
			left := n
			for range Answers(s, &plan) { // panics if an answer follows the break
				if left--; left < 0 {
					break
				}
			}
		}
	}
	playWith(t, "testdata/answers.txt", after)
	for a := range Answers(&Snapshot{}, &Plan{}) {
		t.Errorf("%+v without a configuration", a)
	}
}

// Two reasons are the same if they differ only in what changes while an item goes on to wait.
func TestReasonSame(t *testing.T) {
	at, ref := time.Unix(1, 0), []forge.Ref{{Repo: "o/r", Number: 1}}
	for _, c := range []struct {
		a, b *Reason
		same bool
	}{
		{nil, nil, true},
		{nil, &Reason{}, false},
		{&Reason{}, nil, false},
		{&Reason{Code: NoSlot}, &Reason{Code: OverBudget}, false},
		{&Reason{Code: NoSlot, Thread: "a"}, &Reason{Code: NoSlot, Thread: "b"}, false},
		{&Reason{Code: OverBudget, Agent: "a"}, &Reason{Code: OverBudget, Agent: "b"}, false},
		{&Reason{Code: NoSlot, Count: 1}, &Reason{Code: NoSlot, Count: 2, Note: "x", Until: at}, true},
		{&Reason{Code: AgentBusy, Note: "dev agent", Count: 1}, &Reason{Code: AgentBusy, Note: "dev agent", Refs: ref}, true},
		{&Reason{Code: AgentBusy, Note: "dev agent"}, &Reason{Code: AgentBusy, Note: "review agent"}, false},
		{&Reason{Code: CoolDown, Until: at, Refs: ref}, &Reason{Code: CoolDown, Until: at, Refs: ref}, true},
		{&Reason{Code: CoolDown}, &Reason{Code: CoolDown, Note: "x"}, false},
		{&Reason{Code: CoolDown}, &Reason{Code: CoolDown, Person: "x"}, false},
		{&Reason{Code: CoolDown}, &Reason{Code: CoolDown, Why: "x"}, false},
		{&Reason{Code: CoolDown}, &Reason{Code: CoolDown, Count: 1}, false},
		{&Reason{Code: CoolDown}, &Reason{Code: CoolDown, Limit: 1}, false},
		{&Reason{Code: CoolDown}, &Reason{Code: CoolDown, Until: at}, false},
		{&Reason{Code: CoolDown}, &Reason{Code: CoolDown, Refs: ref}, false},
	} {
		if got := c.a.Same(c.b); got != c.same {
			t.Errorf("%+v and %+v: same is %v", c.a, c.b, got)
		}
	}
}

func TestWaitsFor(t *testing.T) {
	refs := []forge.Ref{{Repo: "o/r", Number: 1}, {Repo: "o/r", Number: 2}}
	for _, c := range []struct {
		why  Reason
		want string
	}{
		{Reason{Code: AgentBusy, Note: "dev agent"}, "a free dev agent"},
		{Reason{Code: AgentBusy, Agent: "dev-a"}, "dev-a"},
		{Reason{Code: SlotKept, Agent: "dev-a", Thread: "llama"}, "a free slot on llama"},
		{Reason{Code: HasPull, Refs: refs}, "o/r#1, o/r#2"},
		{Reason{Code: MergeQueued, Refs: refs[:1]}, "o/r#1"},
		{Reason{Code: ChainBusy, Agent: "dev-a", Refs: refs[1:]}, "o/r#2"},
		{Reason{Code: PinnedTo, Agent: "dev-a"}, "dev-a"},
		{Reason{Code: NoSkill, Note: "go"}, "a person"},
		{Reason{Code: HasSession, Agent: "dev-a"}, ""},
		{Reason{Code: BlockersUnknown}, ""},
	} {
		if got := c.why.WaitsFor(); got != c.want {
			t.Errorf("%+v waits for %q, want %q", c.why, got, c.want)
		}
	}
}
