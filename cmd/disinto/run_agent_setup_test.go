package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

// These tests are not parallel: what a command of the repository leaves behind is ended, and the tests of this package
// are one process.

// inRoom returns the variable with a room that has a setup.
func inRoom(setup ...[]string) string {
	return roomOf(agents.Room{Setup: agents.Commands{Argv: setup, Timeout: time.Minute}})
}

func roomOf(r agents.Room) string {
	r.Beat, r.Withheld = time.Minute, []string{"ANTHROPIC_API_KEY"}
	text, _ := json.Marshal(r)
	return agents.RoomVar + "=" + string(text)
}

func sh(script string) []string { return []string{"sh", "-c", script} }

// Setup runs in the worktree before the prompt, without the model's key and with git's header for the forge. A later
// session in the same worktree skips it, until its commands or a lock file change.
func TestAgentSetup(t *testing.T) {
	b := newBench(t)
	room := inRoom(sh(`tr '\0' '\n' < /proc/self/environ > environ.log; mkdir -p "$(git rev-parse --git-path info)"
echo '*.log' > "$(git rev-parse --git-path info/exclude)"
git ls-remote "$FORGE_URL/$DISINTO_REPO" HEAD >&2 || exit 8
echo once >> ../runs`), []string{"test", "-f", "environ.log"})
	key := "ANTHROPIC_API_KEY=sk-of-the-model"
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`cp environ.log "$HOME"; echo 1 > go.sum; echo order > order.txt; git add .
git commit -qm "Add the order"`+stubDone, room, key)
	environ := b.read(filepath.Join(b.home("dev-qwen"), "environ.log"))
	_ = os.Remove(filepath.Join(b.home("dev-qwen"), "environ.log")) // it has the agent's own token
	if strings.Contains(environ, "sk-of-the-model") || strings.Contains(environ, agents.RoomVar) ||
		!strings.Contains(environ, "extraHeader") || !strings.Contains(environ, "DISINTO_NUMBER=8") {
		t.Errorf("setup ran with\n%s", environ)
	}
	if len(out.Steps) != 2 || out.Steps[0].Phase != agents.PhaseSetup || out.Steps[0].Failed() ||
		out.Steps[1].Command != "test -f environ.log" || !(out.Steps[0].Seconds > 0) {
		t.Errorf("got the steps %+v", out.Steps)
	}
	more := `echo x >> order.txt; git commit -qam "Say more"` + stubDone
	runs := func() int { return strings.Count(b.read(filepath.Join(b.workspace("dev-qwen"), "runs")), "once") }
	rework := func(room string) []agents.Step {
		return b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, more, room, key).Steps
	}
	if steps := rework(room); len(steps) != 2 || runs() != 2 {
		t.Errorf("a new lock file: got the steps %+v, %d runs", steps, runs())
	}
	if steps := rework(room); len(steps) != 0 || runs() != 2 {
		t.Errorf("nothing changed: got the steps %+v, %d runs", steps, runs())
	}
	_ = os.Remove(b.at("dev-qwen", "environ.log"))
	if steps := rework(inRoom(sh("echo once >> ../runs"))); len(steps) != 1 {
		t.Errorf("another command: got the steps %+v", steps)
	}
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, approve)
	b.noSecrets()
}

// At the base commit a failure is the repository's fault, and the CLI does not start. On a branch the agent gets the
// end of the output, without secrets and as data.
func TestAgentSetupFails(t *testing.T) {
	b := newBench(t)
	broken := inRoom(sh(`for i in 1 2 3; do head -c 4000 /dev/zero | tr '\0' z; echo; done; echo "token $FORGE_TOKEN ~~~~"
exit 7`), sh("touch ../never"))
	out := b.want(agents.SetupFailed, "~~~~\"", "dev-qwen", agents.KindIssue, 8, writeOrder, broken)
	if !strings.HasSuffix(out.Reason, ", exit 7") || len(out.Steps) != 1 || out.Steps[0].Exit != 7 {
		t.Errorf("got %+v", out)
	}
	for _, path := range []string{b.home("dev-qwen") + "/prompt", b.workspace("dev-qwen") + "/never"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
	if out := b.run("dev-qwen", agents.KindIssue, 8, writeOrder, inRoom([]string{"no-such-program"})); out.Result !=
		agents.SetupFailed || out.Steps[0].Exit != -1 || !strings.Contains(out.Reason, "no-such-program") {
		t.Errorf("without the program: got %+v", out)
	}
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12,
		`echo x >> order.txt; git commit -qam "More"`+stubDone, broken)
	p := b.prompt("dev-qwen")
	at := strings.Index(p, "The commands that set up the repository failed on this branch")
	if at < 0 || !strings.Contains(p[at:], "token [secret] ~~~~\n~~~~~") ||
		strings.Contains(p, strings.Repeat("z", 8000)) {
		t.Errorf("got the prompt\n%s", p)
	}
	b.noSecrets()
}

// What setup makes and git does not ignore is published neither by us nor by the agent, and is gone afterwards.
func TestAgentSetupMakesFiles(t *testing.T) {
	b := newBench(t)
	room := inRoom(sh(`echo KEY=1 > .env; mkdir -p deps/a; echo d > deps/a/b; echo changed >> README.md`))
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
test -f .env && test -f deps/a/b || exit 9
if grep -q "which the setup of the repository made" "$HOME/prompt"
then git reset -q HEAD~1; git add order.txt; git commit -qm "Add it"
else echo order > order.txt; git add -A; git commit -qm "Add it all"; fi`+stubDone, room)
	if got := b.files("fix/issue-8"); slices.Contains(got, ".env") || slices.Contains(got, "deps") ||
		!slices.Contains(got, "order.txt") {
		t.Errorf("the branch has %q", got)
	}
	if n := b.nudged(); len(n) != 1 || !strings.Contains(n[0], "leave it out of git") {
		t.Errorf("got the messages %q", n)
	}
	for _, name := range []string{".env", "deps"} {
		if _, err := os.Stat(b.at("dev-qwen", name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if strings.Contains(b.read(b.at("dev-qwen", "README.md")), "changed") {
		t.Error("what setup changed in a tracked file is in the branch")
	}
	// An agent that commits nothing itself: everything else is committed for it.
	b.want(agents.Done, "opened #13", "dev-qwen", agents.KindIssue, 9, `echo more > more.txt`+stubDone, room)
	if got := b.files("fix/issue-9"); slices.Contains(got, ".env") || slices.Contains(got, "deps") ||
		!slices.Contains(got, "more.txt") {
		t.Errorf("the branch has %q", got)
	}
	b.want(agents.Failed, ".env, which the setup", "dev-qwen", agents.KindIssue, 10,
		`git add -A; git commit -qm all`+stubDone, room)
	if b.branches("fix/issue-10") != nil || b.branches("wip/") != nil {
		t.Error(".env is on the forge")
	}
}

// What setup leaves running is ended before the agent begins, and one that does not end in time is ended itself.
func TestAgentSetupLeftovers(t *testing.T) {
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `kill -0 $(cat ../pid) && exit 9; `+writeOrder,
		inRoom(sh(`setsid sh -c 'echo $$ > ../pid; exec sleep 600' >/dev/null 2>&1 &
while ! test -s ../pid; do sleep 0.01; done`)))
	slow := agents.Room{Setup: agents.Commands{
		Argv: [][]string{sh(`echo $$ > ../slow; sleep 600 & wait`)}, Timeout: 300 * time.Millisecond,
	}}
	out := b.want(agents.SetupFailed, "no end within 300ms", "dev-qwen", agents.KindIssue, 9, writeOrder, roomOf(slow))
	if out.Steps[0].Exit != -1 {
		t.Errorf("got %+v", out.Steps)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(b.read(filepath.Join(b.workspace("dev-qwen"), "slow"))))
	if err != nil || syscall.Kill(pid, 0) == nil {
		t.Errorf("the setup %d still runs, %v", pid, err)
	}
}

// A session that is ended during setup, as by a supervisor that stops, is no failure of the repository. What its setup
// had made by then is not the next session's work.
func TestAgentSetupInterrupted(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(b.ctx)
	b.ctx = ctx
	go func() {
		for !strings.Contains(b.read2(b.at("dev-qwen", ".env")), "KEY") {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	out := b.run("dev-qwen", agents.KindIssue, 8, writeOrder, inRoom(sh("echo KEY=1 > .env; sleep 600")))
	if !strings.HasPrefix(out.Reason, "ended by a signal") {
		t.Errorf("got %+v", out)
	}
	b.ctx = t.Context()
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `echo order > order.txt`+stubDone,
		inRoom(sh("echo KEY=1 > .env")))
	if got := b.files("fix/issue-8"); slices.Contains(got, ".env") || !slices.Contains(got, "order.txt") {
		t.Errorf("the branch has %q", got)
	}
}

// read2 is read for a file that may not be there.
func (b *bench) read2(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// pushMain commits files to the default branch, as a person, and with them what a command makes of them.
func (b *bench) pushMain(files map[string]string, command ...string) {
	b.t.Helper()
	clone := filepath.Join(b.t.TempDir(), "clone")
	remote := strings.Replace(b.URL, "://", "://x:"+b.HumanToken+"@", 1) + "/" + demo.Repo
	b.git(b.dir, "clone", "--quiet", remote, clone)
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(clone, name)), 0o700); err != nil {
			b.t.Fatal(err)
		}
		b.write(filepath.Join(clone, name), text)
	}
	if len(command) > 0 {
		var said strings.Builder
		err := b.reaper.Run(b.t.Context(), process.Cmd{Argv: command, Dir: clone, Stdout: &said, Stderr: &said})
		if err != nil {
			b.t.Skipf("%v: %s", err, said.String())
		}
	}
	b.git(clone, "add", ".")
	b.git(clone, "commit", "--quiet", "-m", "Add files")
	b.git(clone, "push", "--quiet", "origin", "HEAD:main")
}

// Git's submodules, Git LFS and package managers work as setup. What a branch's package.json says is not run.
func TestAgentSetupGit(t *testing.T) {
	b := newBench(t)
	b.submodule()
	b.largeFiles()
	room := inRoom([]string{"git", "submodule", "update", "--init", "lib"}, []string{"git", "lfs", "pull"})
	out := b.want(agents.Done, "opened #", "dev-qwen", agents.KindIssue, 8,
		`test "$(head -c 6 old.bin)" = oldold && test -f lib/README.md || exit 9; `+writeOrder, room)
	if len(out.Steps) != 2 {
		t.Errorf("got the steps %+v", out.Steps)
	}
}

func TestAgentSetupNPM(t *testing.T) {
	lookPath(t, "npm")
	b := newBench(t)
	b.pushMain(map[string]string{
		"package.json": `{"name":"a","version":"1.0.0","dependencies":{"b":"file:b"}}`, ".gitignore": "node_modules\n",
		"b/package.json": `{"name":"b","version":"1.0.0","scripts":{"install":"touch ../../evil"}}`,
	}, "npm", "install", "--package-lock-only", "--offline", "--no-audit")
	room := inRoom([]string{"npm", "ci", "--ignore-scripts", "--offline", "--no-audit"})
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `test -f node_modules/b/package.json || exit 9
sed -i 's/"version":"1.0.0",/&"scripts":{"preinstall":"touch ..\/evil"},/' package.json
git add .; git commit -qm "Change it"`+
		stubDone, room)
	again := strings.Replace(room, "--no-audit", "--no-fund", 1)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12,
		`echo x > x.txt; git add .; git commit -qm x`+stubDone, again)
	if _, err := os.Stat(filepath.Join(b.workspace("dev-qwen"), "evil")); err == nil {
		t.Error("setup ran a script of the branch")
	}
}

func TestAgentSetupGo(t *testing.T) {
	lookPath(t, "go")
	b := newBench(t)
	b.pushMain(map[string]string{
		"go.mod":   "module example.org/a\n\ngo 1.21\n\nrequire example.org/b v0.0.0\n\nreplace example.org/b => ./b\n",
		"b/go.mod": "module example.org/b\n\ngo 1.21\n", "b/b.go": "package b\n",
		"a.go": "package a\n\nimport _ \"example.org/b\"\n",
	})
	room := inRoom([]string{"go", "mod", "download"}, []string{"go", "vet", "./..."})
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder, room)
}
