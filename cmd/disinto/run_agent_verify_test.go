package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// inVerify returns the variable with a room that verifies. Like those of setup, these tests are not parallel.
func inVerify(tries int, verify ...[]string) string {
	return roomOf(agents.Room{Verify: agents.Commands{Argv: verify, Timeout: time.Minute}, Tries: tries})
}

// stepsOf counts the runs of commands, and those that failed.
func stepsOf(out *agents.Outcome) (runs, red int) {
	for i := range out.Steps {
		if out.Steps[i].Phase == agents.PhaseVerify {
			runs = max(runs, out.Steps[i].Run)
			if out.Steps[i].Failed() {
				red++
			}
		}
	}
	return runs, red
}

func wantVerdict(t *testing.T, out *agents.Outcome, verdict agents.Verdict, runs, red int) {
	t.Helper()
	gotRuns, gotRed := stepsOf(out)
	if out.Verified == nil || out.Verified.Verdict != verdict || gotRuns != runs || gotRed != red {
		t.Errorf("got %+v after %d runs, %d of them red, want %s after %d and %d\n%+v", out.Verified, gotRuns, gotRed,
			verdict, runs, red, out.Steps)
	}
}

// A module whose test fails until a marker exists: what fails goes back into the same conversation, with the command,
// its exit code and the end of its output, and one pull request is opened when it passes.
func TestAgentVerify(t *testing.T) {
	lookPath(t, "go")
	b := newBench(t)
	b.pushMain(map[string]string{
		"go.mod": "module example.org/a\n\ngo 1.21\n",
		"a_test.go": "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMarker(t *testing.T) {\n" +
			"\tif _, err := os.Stat(\"order.txt\"); err != nil {\n\t\treturn\n\t}\n" +
			"\tif _, err := os.Stat(\"marker\"); err != nil {\n\t\t" +
			"t.Fatal(\"no marker\", os.Getenv(\"FORGE_TOKEN\"), \"~~~~\")\n\t}\n}\n",
	})
	room := inVerify(3, []string{"go", "vet", "./..."}, []string{"go", "test", "-count=1", "./..."})
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
if grep -q "a command that verifies it fails, go test -count=1 ./..., exit 1" "$HOME/prompt"; then
touch marker; git add marker; git commit -qm "Add the marker"; else
`+writeOrder+`
exit 0; fi`+stubDone, room, "ANTHROPIC_API_KEY=sk-of-the-model")
	wantVerdict(t, &out, agents.GreenLater, 3, 2)
	p := b.prompt("dev-qwen")
	if !strings.Contains(p, "no marker [secret] ~~~~") || !strings.Contains(p, "~~~~~text") {
		t.Errorf("got the message\n%s", p)
	}
	if args := b.read(filepath.Join(b.home("dev-qwen"), "args")); strings.Count(args, "--resume") != 1 {
		t.Errorf("the message began another conversation: %s", args)
	}
	if out.Steps[0].Commit == out.Steps[len(out.Steps)-1].Commit || len(out.Steps[0].Commit) != 40 {
		t.Errorf("got the steps %+v", out.Steps)
	}
	out = b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12,
		`echo x >> order.txt; git commit -qam More`+stubDone, room)
	wantVerdict(t, &out, agents.GreenFirst, 1, 0)
	b.noSecrets()
}

// What fails and then passes is flaky: no message to the agent, and no green at the first try.
func TestAgentVerifyFlaky(t *testing.T) {
	b := newBench(t)
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder, inVerify(3, sh(
		`if test -e ../odd; then rm ../odd; else touch ../odd; exit 4; fi`)))
	wantVerdict(t, &out, agents.GreenFlaky, 2, 1)
	if len(b.nudged()) > 0 || !strings.HasSuffix(out.Verified.Words, "exit 4") {
		t.Errorf("got the messages %q, %+v", b.nudged(), out.Verified)
	}
}

// What stays red is no pull request, but a failed attempt whose work is kept. The same failure again and again is a
// loop.
func TestAgentVerifyRed(t *testing.T) {
	b := newBench(t)
	red := inVerify(1, sh(`test ! -e order.txt || { cat order.txt; exit 5; }`))
	out := b.want(agents.Failed, "exit 5", "dev-qwen", agents.KindIssue, 8, `
echo again >> order.txt; git add order.txt; git commit -qm "Add the order"`+stubDone, red)
	wantVerdict(t, &out, agents.Red, 5, 4) // two, two after a message, and at the base one green
	if !strings.HasPrefix(out.Reason, "verify: ") || len(b.nudged()) != 1 {
		t.Errorf("got %+v, messages %q", out, b.nudged())
	}
	var pulls []struct{ Number int }
	if b.get("/pulls?state=open", &pulls); len(pulls) > 0 {
		t.Errorf("got the pull requests %+v", pulls)
	}
	if got := b.files("fix/issue-8"); !slices.Contains(got, "order.txt") {
		t.Errorf("the work is not kept: %q", got)
	}
	out = b.want(agents.Looped, "in the same way 3 times", "dev-qwen", agents.KindIssue, 9, writeOrder,
		inVerify(5, sh(`test ! -e order.txt || { echo "always"; exit 5; }`)))
	if len(b.nudged()) != 3 {
		t.Errorf("got the messages %q", b.nudged())
	}
}

// A base commit that is red itself is judged once: the work is published, and says so.
func TestAgentVerifyBroken(t *testing.T) {
	b := newBench(t)
	room := inVerify(0, sh("echo x >> ../runs; exit 3"))
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder, room)
	wantVerdict(t, &out, agents.VerifyBroken, 4, 4)
	var pull struct{ Body string }
	b.get("/pulls/12", &pull)
	if !strings.Contains(pull.Body, "Not verified: the repository's commands fail at the base commit ") {
		t.Errorf("got the text %q", pull.Body)
	}
	if on := b.read2(b.at("dev-qwen", "order.txt")); on != "order\n" {
		t.Errorf("the worktree is not on its branch: %q", on)
	}
	out = b.want(agents.Done, "opened #13", "dev-qwen", agents.KindIssue, 9, writeOrder, room)
	wantVerdict(t, &out, agents.VerifyBroken, 2, 2)
}

// The commands see exactly the commit that is pushed. What they change, make and leave running is gone afterwards, and
// one that does not end is red.
func TestAgentVerifyLeavesNothing(t *testing.T) {
	b := newBench(t)
	rewrites := sh(`test ! -e notes.txt || exit 6; echo golden > order.txt; echo c > coverage.out
setsid sleep 600 >/dev/null 2>&1 & echo $! > ../pid; git commit -qam "A test commits"; exit 0`)
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
if grep -q "in no commit" "$HOME/prompt"; then :; else echo n > notes.txt; `+writeOrder+`
exit 0; fi`+stubDone, inVerify(1, rewrites))
	wantVerdict(t, &out, agents.GreenFirst, 1, 0)
	if got := b.read2(b.at("dev-qwen", "order.txt")); got != "order\n" {
		t.Errorf("the branch has %q", got)
	}
	if got := b.subjects(12); !slices.Equal(got, []string{"Add the order"}) {
		t.Errorf("got the commits %q", got)
	}
	if got := b.files("fix/issue-8"); slices.Contains(got, "coverage.out") || slices.Contains(got, "notes.txt") {
		t.Errorf("the branch has %q", got)
	}
	if kept := b.kept("dev-qwen"); !strings.Contains(kept, "notes.txt") {
		t.Errorf("got %s, want the file that stayed out", kept)
	}
	slow := agents.Room{Verify: agents.Commands{
		Argv: [][]string{sh("test ! -e order.txt || sleep 600")}, Timeout: 300 * time.Millisecond,
	}}
	b.want(agents.Failed, "no end within 300ms", "dev-qwen", agents.KindIssue, 9, writeOrder, roomOf(slow))
}

// A limit that is reached between two tries ends the session as any limit does, and so does a signal in the middle.
func TestAgentVerifyInterrupted(t *testing.T) {
	b := newBench(t)
	red := inVerify(3, sh(`test ! -e order.txt || exit 5`))
	b.want(agents.OverBudget, "tokens", "dev-qwen", agents.KindIssue, 8, writeOrder, red, "DISINTO_MAX_TOKENS=30")
	ctx, cancel := context.WithCancel(b.ctx)
	b.ctx = ctx
	go func() {
		for b.read2(filepath.Join(b.workspace("dev-qwen"), "begun")) == "" {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	waits := inVerify(3, sh(`echo changed > order.txt; echo x > ../begun; sleep 600`))
	other := strings.ReplaceAll(writeOrder, "Add the order", "Add it again") // else it is the commit of the other branch
	out := b.run("dev-qwen", agents.KindIssue, 9, other, waits)
	if !strings.HasPrefix(out.Reason, "ended by a signal") {
		t.Errorf("got %+v", out)
	}
	if got := b.read2(b.at("dev-qwen", "order.txt")); got != "order\n" {
		t.Errorf("the work that is kept has %q", got)
	}
	b.ctx = t.Context()
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 9, stubDone, inVerify(3, []string{"true"}))
}

// An agent that deletes the test passes here: only the reviewer can see it. A review runs no commands.
func TestAgentVerifyIsNoWall(t *testing.T) {
	b := newBench(t)
	b.pushMain(map[string]string{"check.sh": "exit 1\n"})
	room := inVerify(0, sh(`test ! -e check.sh || sh check.sh`))
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`git rm -q check.sh; git commit -qm "Remove the test"`+stubDone, room)
	wantVerdict(t, &out, agents.GreenFirst, 1, 0)
	out = b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, approve)
	if p := b.prompt("review-sonnet"); !strings.Contains(p, "check.sh") || len(out.Steps) > 0 {
		t.Errorf("got the prompt\n%s", p)
	}
}
