package threads

import (
	"fmt"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

const enforceConfig = `
[threads.api]
backend = "anthropic"
max_sessions = 1
agents = ["dev-api", "review-sonnet"]
[threads.llama]
backend = "local"
max_concurrent = 2
agents = ["dev-coder", "dev-qwen", "review-llama"]
[threads.slow]
backend = "anthropic"
agents = ["slow-opus"]
[roles.dev]
command = ["dev"]
[roles.slow]
on = "issue"
command = ["slow"]
waits_for_review = true
[roles.review]
command = ["review"]
`

// TestEnforce makes a plan and then changes the world or the plan. Enforce must report each start that now violates a
// rule, and turn it into a hold.
func TestEnforce(t *testing.T) {
	const issue, pull = "issue 1 backlog", "issue 2 backlog\npull 12 author=dev-qwen closes=2"
	const rework = pull + " ci=failure"
	tests := []struct {
		name  string
		world string // the plan is made from it
		then  string // applied before the plan is checked
		plan  func(*Plan)
		want  string // "" for nothing
	}{
		{"no breach", issue + "\n" + pull, "", nil, ""},
		{
			"item twice", issue, "session dev-qwen llama/0 issue 1", nil,
			"dev-api was to start issue o/r#1: dev-qwen works on it",
		},
		{"item twice in the plan", issue, "", func(p *Plan) {
			second := p.Starts[0]
			second.Agent, second.Thread, second.Slot = "dev-qwen", "llama", 0
			p.Starts = append(p.Starts, second)
		}, "dev-qwen was to start issue o/r#1: dev-api works on it"},
		{
			"agent twice", issue, "session dev-api llama/0 issue 7", nil,
			"dev-api was to start issue o/r#1: it works on o/r#7 already",
		},
		{"slot taken", issue, "session dev-coder llama/1 issue 7", onLlama(1), "slot 1 of llama is taken by dev-coder"},
		{"no such slot", issue, "", onLlama(2), "llama has no slot 2"},
		{"no session left", issue, "session review-sonnet api/0 issue 7", nil, "api has 1 sessions already"},
		{"another thread", issue, "", func(p *Plan) { p.Starts[0].Agent = "dev-qwen" }, "has no role dev on api"},
		{"another role", issue, "", func(p *Plan) { p.Starts[0].Role = "review" }, "has no role review on api"},
		{"no agent of ours", issue, "", func(p *Plan) { p.Starts[0].Agent = "dev-gone" }, "has no role dev on api"},
		{"paused", issue, "history paused thread=api", nil, "paused"},
		{"all paused", issue, "history paused", nil, "paused"},
		{"parked", issue, "history parked api +1m limit", nil, "api starts nothing now"},
		{"not read", issue, "unread", nil, "its repository was not read"},
		{"written to", issue, "history touched 1 now", nil, "older than our last write"},
		{"closed", issue, "issue 1 backlog closed", nil, "it is not open"},
		{"gone", issue, "unissue 1", nil, "it is not open"},
		{"not in the backlog", issue, "issue 1", nil, "it is not labelled backlog"},
		{"claimed", issue, "issue 1 backlog in-progress", nil, "it is labelled backlog, in-progress"},
		{"a label in the way", issue, "issue 1 backlog needs-human", nil, "it is labelled backlog, needs-human"},
		{"blocked", issue, "issue 1 backlog blocked-by=3", nil, "it is blocked"},
		{"blockers unknown", issue, "issue 1 backlog unread", nil, "it is blocked"},
		{"staged", issue, "issue 9 convoy staged blocked-by=1", nil, "its convoy is staged"},
		{"assigned to a person", issue, "issue 1 backlog assigned=johba", nil, "it is assigned to johba"},
		{"chain", pull, "session dev-coder llama/1 issue 2", nil, "dev-coder writes to its branch"},
		{"pull closed", pull, "pull 12 author=dev-qwen closes=2 rejected=now", nil, "it is not open"},
		{"pull draft", pull, "pull 12 author=dev-qwen closes=2 draft", nil, "it is a draft"},
		{
			"own work", pull, "history writers 2 review-sonnet", nil,
			"review-sonnet was to start review o/r#12: review-sonnet wrote it",
		},
		{"pull gone", pull, "unpull 12", nil, "it is not open"},
		{"pull claimed", pull, "pull 12 author=dev-qwen closes=2 in-progress", nil, "it is labelled in-progress"},
		{"pull labelled", pull, "pull 12 author=dev-qwen closes=2 needs-human", nil, "it is labelled needs-human"},
		{"no thread", issue, "", func(p *Plan) { p.Starts[0].Thread = "gone" }, "has no role dev on gone"},
		{"no slot at all", issue, "", onLlama(-1), "llama has no slot -1"},
		{"another slot taken", issue, "session dev-coder llama/0 issue 7", onLlama(1), ""},
		{"a repository that is gone", issue, "", func(p *Plan) { p.Starts[0].Item.Ref.Repo = "o/gone" }, "was not read"},
		{"written to before", issue, "history touched 1 -1s", nil, ""},
		{"plan not approved", issue, "issue 1 backlog plan-first", nil, "its plan is not approved"},
		{"plan approved", issue, "issue 1 backlog plan-first plan-approved", nil, ""},
		{"to be split", issue, "issue 1 backlog split-first plan-first plan-approved", nil, "it is to be split first"},
		{"to be planned", issue, "issue 1 backlog plan-first", func(p *Plan) { p.Starts[0].Item.Cause = CausePlan }, ""},
		{"another issue staged", issue, "issue 9 convoy staged blocked-by=2", nil, ""},
		{"its convoy is started", issue, "issue 9 convoy blocked-by=1", nil, ""},
		{"its convoy is closed", issue, "issue 9 convoy staged blocked-by=1 closed", nil, ""},
		{"staged, and no convoy", issue, "issue 9 staged blocked-by=1", nil, ""},
		{"another chain", pull, "session dev-coder llama/1 issue 7", nil, ""},
		{"a review on its chain", pull, "session dev-coder llama/1 review 13 chain=2", nil, ""},
		{"rework during a review", rework, "session review-llama llama/1 review 13 chain=2", nil, ""},
		{"rework beside a writer", rework, "session dev-coder llama/1 issue 2", nil, "dev-coder writes to its branch"},
		{
			"review beside a writer that waits for it", pull, "session slow-opus slow/0 issue 2", nil, "",
		},
		{
			"local on local", pull, "", func(p *Plan) { p.Starts[0].Agent, p.Starts[0].Thread = "review-llama", "llama" },
			"local work needs a reviewer that is not local",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newScriptWorld(t)
			w.lines("config\n" + enforceConfig + "----\n" + tt.world)
			plan := Decide(w.s)
			starts := len(plan.Starts)
			if tt.plan != nil {
				tt.plan(&plan)
				starts = len(plan.Starts)
			}
			w.lines(tt.then)
			got := ""
			found := Enforce(&w.s, &plan)
			for _, v := range found {
				got += v.Words + "\n"
			}
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got violations %q, want %q", got, tt.want)
			}
			held := 0
			for _, h := range plan.Holds {
				if h.Reason.Code == RuleBroken {
					held++
				}
			}
			if len(plan.Starts) != starts-len(found) || held != len(found) {
				t.Errorf("got %d of %d starts and %d holds after %d violations", len(plan.Starts), starts, held, len(found))
			}
		})
	}
}

// onLlama moves the first start to dev-qwen, in a slot of the local thread.
func onLlama(slot int) func(*Plan) {
	return func(p *Plan) {
		p.Starts = p.Starts[:1]
		p.Starts[0].Agent, p.Starts[0].Thread, p.Starts[0].Slot = "dev-qwen", "llama", slot
	}
}

// TestEnforceSessions checks that Enforce stops the younger of two conflicting sessions, and a session on a closed
// item, each only once.
func TestEnforceSessions(t *testing.T) {
	const old = "issue 1 backlog in-progress assigned=dev-qwen\nsession dev-qwen llama/0 issue 1 started=-10m\n"
	tests := []struct{ name, world, want string }{
		{"no breach", old, ""},
		{
			"item twice", old + "session dev-coder llama/1 issue 1 started=-5m",
			"run-dev-coder: kept back by a check: dev-qwen works on it",
		},
		{
			"agent twice", old + "issue 7 backlog in-progress\nsession dev-qwen llama/1 issue 7 started=-20m",
			"run-dev-qwen: kept back by a check: it works on o/r#7 already",
		},
		{"closed", old + "issue 1 backlog closed", "run-dev-qwen: kept back by a check: it is closed"},
		{
			"pull closed", "issue 2 backlog\npull 12 author=dev-qwen closes=2\n" +
				"session review-sonnet api/0 review 12 started=-5m\nunpull 12",
			"run-review-sonnet: kept back by a check: it is closed",
		},
		{
			"begun at once", old + "session dev-coder llama/1 issue 1 started=-10m",
			"run-dev-qwen: kept back by a check: dev-coder works on it",
		},
		{"the younger one stopping already", old + "session dev-coder llama/1 issue 1 started=-5m", ""},
		{"stopping already", old + "issue 1 backlog closed", ""},
		{"being claimed", "issue 1 backlog closed\nsession dev-qwen llama/0 issue 1 started=-10m claiming", ""},
		{"scheduled", "session dev-qwen llama/0 schedule gc started=-10m", ""},
		{"in a repository that is gone", "session dev-qwen llama/0 issue o/gone#1 started=-10m", ""},
		{"issue gone", old + "unissue 1", "run-dev-qwen: kept back by a check: it is closed"},
		{
			"another one merged", old + "issue 1 backlog closed\npull 12 author=dev-qwen closes=2 merged=now",
			"run-dev-qwen: kept back by a check: it is closed",
		},
		{
			"closed with an open pull request", old + "issue 1 backlog closed\npull 12 author=dev-qwen closes=1",
			"run-dev-qwen: kept back by a check: it is closed",
		},
		{"pull open", "pull 12 author=dev-coder\nsession dev-qwen llama/0 rework 12 started=-5m", ""},
		{
			"pull closed on the forge", "pull 12 author=dev-coder rejected=now\nsession dev-qwen llama/0 rework 12 started=-5m",
			"run-dev-qwen: kept back by a check: it is closed",
		},
		{"pull merged", "pull 12 author=dev-coder merged=now\nsession dev-qwen llama/0 rework 12 started=-5m", ""},
		{
			"two scheduled roles",
			"session dev-qwen llama/0 schedule gc started=-10m\nsession dev-coder llama/1 schedule plan started=-5m", "",
		},
		{"facts older than a write", old + "issue 1 backlog closed\nhistory touched 1 now", ""},
		{"merged", old + "issue 1 backlog closed\npull 12 author=dev-qwen closes=1 merged=now", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newScriptWorld(t)
			w.lines("config\n" + enforceConfig + "----\n" + tt.world)
			switch tt.name {
			case "agent twice":
				w.s.Sessions[1].RunID = "run-older"
			case "stopping already", "the younger one stopping already":
				w.s.Sessions[len(w.s.Sessions)-1].State = Stopping
			}
			var plan Plan
			found := Enforce(&w.s, &plan)
			got := ""
			for _, st := range plan.Stops {
				got += st.RunID + ": " + st.Reason.Text()
			}
			if got != tt.want || len(found) != len(plan.Stops) {
				t.Errorf("got stops %q and %d violations, want %q", got, len(found), tt.want)
			}
			if again := Enforce(&w.s, &plan); len(again) > 0 {
				t.Errorf("got violations %v again after the stop", again)
			}
		})
	}
}

// Enforce compares each of many sessions and starts with a few others, not with all.
func TestEnforceComparesFew(t *testing.T) {
	const n = 1000
	s := &Snapshot{Config: &Config{}}
	for i := range n {
		ref := forge.Ref{Repo: "o/r", Number: int64(i + 1)}
		s.Sessions = append(s.Sessions, Session{
			RunID: fmt.Sprint(i), Agent: fmt.Sprint("dev-", i), Thread: "api", Slot: i, Item: Item{Ref: ref, Chain: ref},
		})
	}
	e, compared := newEnforcer(s), 0
	for i := range s.Sessions {
		compared += len(e.beside(s.Sessions[i].Agent, &s.Sessions[i].Item))
	}
	if compared != 3*n { // each with itself: by its agent, its item and its chain
		t.Errorf("%d sessions: got %d comparisons, want %d", n, compared, 3*n)
	}
}
