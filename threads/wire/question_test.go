package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// small returns a factory with a free agent and two issues, one of which blocks the other.
func small() *threads.Snapshot {
	now := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	issue := func(n int64, blockers ...forge.Blocker) forge.Issue {
		return forge.Issue{
			Ref: ref(n), Title: "do it", Labels: []string{"backlog"}, Created: now.Add(-time.Hour), AsOf: now,
			Blockers: blockers, BlockersKnown: true,
		}
	}
	s := &threads.Snapshot{Now: now, History: threads.NewHistory(), Config: &threads.Config{
		Forge: threads.Forge{Repos: []string{"o/r"}, MaxUnreviewed: 3, MaxReviewRounds: 5, MaxCIFixes: 3},
		Roles: []agents.Role{{Name: "dev", On: agents.OnIssue, Command: []string{"dev"}}},
		Threads: []threads.Thread{{
			Name: "llama", Backend: threads.Local, Slots: 1, MaxSessions: 1,
			Agents: []string{"dev-a"},
		}},
		Agents: []agents.Agent{{Name: "dev-a", Login: "dev-a", Roles: []string{"dev"}, Thread: "llama", Token: "t"}},
	}}
	s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: now, DefaultBranch: "main"}}
	s.Facts.Issues = []forge.Issue{issue(1), issue(2, forge.Blocker{Ref: ref(1), State: forge.BlockerOpen})}
	return s
}

// TestAnswerOfTheSameBuild checks that the same build answers with the same plan.
func TestAnswerOfTheSameBuild(t *testing.T) {
	s := small()
	here := threads.Decide(*s)
	if len(here.Starts) != 1 || len(here.Holds) != 1 {
		t.Fatalf("got starts %+v and %d holds, want one of each", here.Starts, len(here.Holds))
	}
	text, err := Ask(s)
	if err != nil {
		t.Fatal(err)
	}
	noise := "disinto: sandbox: Landlock\n"
	program, there, err := ReadAnswer([]byte(noise + string(Answer(text, "v1.2")) + "\n"))
	if err != nil || program != "v1.2" {
		t.Fatalf("got %q, %v", program, err)
	}
	if diff := cmp.Diff(&here, there); diff != "" {
		t.Error(diff)
	}
	if list := Differences(s, &here, there); len(list) > 0 {
		t.Errorf("got differences %+v, want none", list)
	}
}

// TestNoAnswer checks that a question without a possible plan gets an error as its answer.
func TestNoAnswer(t *testing.T) {
	for question, want := range map[string]string{
		`{"format":2,"snapshot":{}}`: "it does not decide: it reads questions of format 1, and was asked in format 2",
		`{"snapshot":{}}`:            "it does not decide: it reads questions of format 1, and was asked in format 0",
		`{"format":1,"snapshot":[]}`: "it does not decide: cannot decode a snapshot",
		`{"format":1}`:               "it does not decide: cannot decode a snapshot",
		`[`:                          "it does not decide: cannot decode a question",
		// No supervisor has a session in such a slot.
		`{"format":1,"snapshot":{"Config":{"Threads":[{"Name":"t","Slots":1}]},"Sessions":[{"Thread":"t","Slot":-1}]}}`://
		"it does not decide: it panicked: ",
	} {
		_, _, err := ReadAnswer(Answer([]byte(question), "v1"))
		if want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", question, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                   `cannot decode the answer: it is ""`,
		"{}":                                 `cannot decode the answer: it is "{}"`,
		"usage:\n  no such thing\x1b[31m\n":  `cannot decode the answer: it is "  no such thing [31m"`,
		strings.Repeat("x", 5000):            `cannot decode the answer: it is "xxx`,
		`{"format":2,"plan":{}}`:             "it answers in format 2, and this build reads format 1",
		`{"format":1}`:                       "cannot decode a plan",
		`{"format":1,"error":"no\u001b[2J"}`: "it does not decide: no [2J",
	} {
		_, _, err := ReadAnswer([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 2*maxWords {
			t.Errorf("%.40q: got %v, want %s", text, err, want)
		}
	}
}

// TestStrangeDifferences: a plan for unknown items, agents and roles with very long names gives bounded differences,
// of one line each.
func TestStrangeDifferences(t *testing.T) {
	long := strings.Repeat("x\x1b[2J\n", 1<<18)
	item := threads.Item{Kind: "odd", Ref: forge.Ref{Repo: long, Number: -1}, Role: long}
	other := item
	other.Role += "y"
	there := &threads.Plan{
		Starts: []threads.Start{{Item: item, Agent: long, Thread: long, Slot: -9}, {Item: other, Agent: long}},
		Stops:  []threads.Stop{{RunID: long, Reason: threads.Reason{Code: "odd"}}}, Merges: []threads.Merge{{Ref: item.Ref}},
		Marks: []threads.Mark{{Action: "explode", Ref: item.Ref, Agent: long}},
		Holds: []*threads.Hold{{Item: item, Reason: &threads.Reason{Code: threads.Code(long), Note: long}}},
	}
	list := Differences(small(), &threads.Plan{}, there)
	if len(list) != 4 {
		t.Fatalf("got %d differences, want 4", len(list))
	}
	keys := make(map[string]bool)
	for _, d := range list {
		keys[d.Key] = true
		for _, text := range []string{d.Ref.Repo, d.Role, d.Here, d.There} {
			if len(text) > maxWords || strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("got %d bytes: %.80q", len(text), text)
			}
		}
		if len(d.Key) > 10*maxWords {
			t.Errorf("a key has %d bytes", len(d.Key))
		}
	}
	if len(keys) != len(list) {
		t.Errorf("got %d different keys of %d differences, want as many", len(keys), len(list))
	}
}

// TestDifferences checks that each kind of decision shows as a difference, with the words of both sides, and that
// times and numbers in reasons do not.
func TestDifferences(t *testing.T) {
	s := small()
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	item := func(n int64) threads.Item { return threads.Item{Kind: agents.KindIssue, Ref: ref(n)} }
	hold := func(n int64, r threads.Reason) *threads.Hold { return &threads.Hold{Item: item(n), Reason: &r} }
	s.Sessions = []threads.Session{{RunID: "run-4", Agent: "dev-a", Item: item(4)}}
	start := threads.Start{Item: item(1), Thread: "llama", Slot: 1, Agent: "dev-a", Role: "dev", Attempt: 1}
	here := &threads.Plan{
		Starts: []threads.Start{start},
		Merges: []threads.Merge{{Ref: ref(3), HeadSHA: "0123456789", Base: "main"}},
		Holds: []*threads.Hold{
			hold(2, threads.Reason{Code: threads.BlockerOpen, Refs: []forge.Ref{ref(1)}}),
			hold(5, threads.Reason{Code: threads.BlockerOpen, Refs: []forge.Ref{ref(1)}}),
		},
	}
	job := threads.Item{Kind: agents.KindSchedule, Ref: forge.Ref{Repo: "o/r"}, Role: "planner"}
	there := &threads.Plan{
		Stops: []threads.Stop{{RunID: "run-4", Reason: threads.Reason{Code: "of-tomorrow"}}, {RunID: "run-9"}},
		Marks: []threads.Mark{{Action: threads.ActClose, Ref: ref(3), Reason: threads.Reason{Code: "merged\x1b[2J"}}},
		Holds: []*threads.Hold{
			hold(1, threads.Reason{Code: threads.BlockerOpen, Refs: []forge.Ref{ref(7)}}),
			hold(2, threads.Reason{Code: threads.BlockerOpen, Refs: []forge.Ref{ref(1), ref(9)}}),
			{Item: job, Reason: &threads.Reason{Code: "of-tomorrow", Note: strings.Repeat("x", 1000)}},
		},
	}
	var got []string
	for _, d := range Differences(s, here, there) {
		got = append(got, d.Ref.String()+" "+d.Role+": "+d.There+"; here: "+d.Here)
	}
	want := []string{
		": stop run-9, which does not run; here: do nothing",
		"o/r planner: hold it: of-tomorrow; here: do nothing",
		"o/r#1 : hold it: blocked by o/r#7 (blocked); here: start dev-a (issue) on llama, slot 1",
		"o/r#3 : mark it close: merged [2J; here: merge 01234567 into main",
		"o/r#4 : stop dev-a: of-tomorrow; here: do nothing",
		"o/r#5 : do nothing; here: hold it: blocked by o/r#1 (blocked)",
	}
	for i := range want {
		want[i] = strings.TrimPrefix(want[i], " ")
	}
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if list := Differences(s, here, here); len(list) > 0 {
		t.Errorf("got differences %+v of a plan from itself, want none", list)
	}
	for _, change := range []func(*threads.Start){
		func(x *threads.Start) { x.Slot++ },
		func(x *threads.Start) { x.Agent = "dev-b" },
		func(x *threads.Start) { x.Thread = "api" },
		func(x *threads.Start) { x.Item.Kind = agents.KindRework },
	} {
		other := start
		change(&other)
		list := Differences(s, here, &threads.Plan{Starts: []threads.Start{other}, Merges: here.Merges, Holds: here.Holds})
		if len(list) != 1 || list[0].Here == list[0].There {
			t.Errorf("%+v instead of %+v: got differences %+v, want one", other, start, list)
		}
	}
}
