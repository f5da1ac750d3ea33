package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/forge/rest"
)

// bench runs single sessions of built-in agents on the demo's forge, with a script in place of the claude CLI.
type bench struct {
	*testForge
	dir string
	ctx context.Context
	log output
	cli string // the CLI's name; empty means claude
	// program changes the program before it runs; nil changes nothing.
	program func(*session.Program)
}

func newBench(t *testing.T) *bench {
	return &bench{testForge: newTestForge(t), dir: t.TempDir(), ctx: t.Context()}
}

// onEachBench is onEachForge with a bench.
func onEachBench(t *testing.T, test func(*bench)) {
	onEachForge(t, func(t *testing.T, f *testForge) { test(&bench{testForge: f, dir: t.TempDir(), ctx: t.Context()}) })
}

// stubHead starts every stub: it saves its prompt and arguments, and reports that it started.
const stubHead = `#!/bin/sh
cat > "$HOME/prompt"
echo "$@" >> "$HOME/args"
id=none
while [ $# -gt 0 ]; do case "$1" in --session-id|--resume) id="$2" ;; esac; shift; done
echo '{"type":"system","subtype":"init","session_id":"'$id'"}'
`

// stubAnswer is an answer of the model without the end of the run.
const stubAnswer = `
echo '{"type":"assistant","session_id":"'$id'","message":{"content":[{"type":"text","text":"Let me see."}]}}'
`

const stubDone = `
echo '{"type":"assistant","session_id":"'$id'","message":{"content":[{"type":"text","text":"All done."}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","session_id":"'$id'","result":"All done.","total_cost_usd":0.5,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":20}}'
`

// stub writes a claude that runs the script, and returns its folder.
func stub(t *testing.T, script string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "claude"), []byte(stubHead+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

func (b *bench) home(agent string) string { return filepath.Join(b.dir, "home", agent) }

func (b *bench) workspace(agent string) string { return filepath.Join(b.dir, "work", agent) }

// at returns the path of a file in the agent's worktree.
func (b *bench) at(agent, name string) string {
	return filepath.Join(b.workspace(agent), "repo", name)
}

// run runs one session of a built-in agent with a stub for its CLI.
func (b *bench) run(agent string, kind agents.Kind, number int, script string, more ...string) agents.Outcome {
	b.t.Helper()
	role, backend := agents.RoleFromName(agent), "local"
	if strings.HasSuffix(agent, "-sonnet") {
		backend = "anthropic"
	}
	if err := os.MkdirAll(b.home(agent), 0o700); err != nil {
		b.t.Fatal(err)
	}
	result := filepath.Join(b.dir, "result.json")
	_ = os.Remove(result)
	environ := withEnv(os.Environ(), []string{
		"PATH=" + stub(b.t, script) + ":" + os.Getenv("PATH"), "HOME=" + b.home(agent),
		"DISINTO_RUN_ID=inst-1", "DISINTO_AGENT=" + agent, "DISINTO_ROLE=" + role, "DISINTO_THREAD=t", "DISINTO_SLOT=0",
		"DISINTO_BACKEND=" + backend, "DISINTO_KIND=" + string(kind), "DISINTO_REPO=" + demo.Repo,
		"DISINTO_NUMBER=" + strconv.Itoa(number), "DISINTO_MODEL=m", "DISINTO_BASE_URL=",
		"DISINTO_WORKSPACE=" + b.workspace(agent), "DISINTO_RESULT=" + result, "DISINTO_MAX_UNSEEN=10000",
		"FORGE_URL=" + b.URL, "FORGE_TOKEN=" + b.Tokens[agents.TokenVar(agent)],
		"GIT_AUTHOR_NAME=" + agent, "GIT_AUTHOR_EMAIL=" + agent + "@x", "GIT_COMMITTER_NAME=" + agent,
		"GIT_COMMITTER_EMAIL=" + agent + "@x",
	})
	p := session.Program{
		CLI: cmp.Or(b.cli, "claude"), Environ: agents.Setenv(environ, more), Desk: b.desk(agent), Run: sessionRun(b.reaper),
		Out: &b.log, Now: time.Now,
	}
	if b.program != nil {
		b.program(&p)
	}
	if err := p.Do(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	text, err := os.ReadFile(result)
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := agents.ParseResult(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) desk(agent string) session.Desk {
	return forgejo.NewDesk(b.URL, b.Tokens[agents.TokenVar(agent)])
}

// want runs a session and checks its result and reason.
func (b *bench) want(result agents.Result, reason, agent string, kind agents.Kind, number int, script string,
	more ...string,
) agents.Outcome {
	b.t.Helper()
	out := b.run(agent, kind, number, script, more...)
	if out.Result != result || !strings.Contains(out.Reason, reason) {
		b.t.Fatalf("%s %s #%d: got %+v, want %s with %q\n%s", agent, kind, number, out, result, reason, b.log.String())
	}
	return out
}

func (b *bench) prompt(agent string) string { return b.read(filepath.Join(b.home(agent), "prompt")) }

func (b *bench) read(path string) string {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// branches returns the forge's branches with a prefix.
func (b *bench) branches(prefix string) (names []string) {
	var all []struct{ Name string }
	b.get("/branches?limit=50", &all)
	for _, br := range all {
		if strings.HasPrefix(br.Name, prefix) {
			names = append(names, br.Name)
		}
	}
	return names
}

// subjects returns the subjects of a pull request's commits, newest first.
func (b *bench) subjects(pull int) (all []string) {
	var commits []struct{ Commit struct{ Message string } }
	b.get(fmt.Sprintf("/pulls/%d/commits", pull), &commits)
	for _, c := range commits {
		all = append(all, strings.TrimSpace(c.Commit.Message))
	}
	return all
}

// files returns the names in a branch's top folder.
func (b *bench) files(branch string) (names []string) {
	var all []struct{ Name string }
	b.get("/contents?ref="+branch, &all)
	for _, f := range all {
		names = append(names, f.Name)
	}
	return names
}

// commitToMain adds a file to the default branch, as a person.
func (b *bench) commitToMain(name string) {
	b.t.Helper()
	human := rest.API{URL: b.URL, Token: b.HumanToken}
	form := map[string]any{"content": "eA==", "message": "Add " + name}
	if err := human.Post(b.t.Context(), "/repos/"+demo.Repo+"/contents/"+name, form, nil); err != nil {
		b.t.Fatal(err)
	}
}

const (
	writeOrder = `echo order > order.txt; git add order.txt; git commit -q -m "Add the order"` + stubDone
	approve    = `echo '{"verdict":"approve","summary":"Good."}' > "$DISINTO_WORKSPACE/verdict.json"` + stubDone
	objections = `echo '{"verdict":"request_changes","summary":"Not ` +
		`yet.","comments":[{"path":"order.txt","line":1,"body":"Say more."},{"path":"README.md","line":99,"body":"And ` +
		`here."}]}' > "$DISINTO_WORKSPACE/verdict.json"` + stubDone
)

// An issue is implemented, reviewed, reworked and approved, in the order in which a supervisor starts the sessions.
func TestAgentFlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`echo '{"title":"Check orders","summary":"It checks."}' > "$DISINTO_WORKSPACE/answer.json";`+writeOrder)
	if out.SessionID == "" || out.Usage != (agents.Usage{InputTokens: 15, CachedTokens: 100, OutputTokens: 20}) {
		t.Errorf("got outcome %+v, want a session id, and usage without cost on a local backend", out)
	}
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "Mind: a name may contain spaces.") ||
		!strings.Contains(p, "fix/issue-8") {
		t.Errorf("got the prompt\n%s", p)
	}
	var pull struct {
		Title, Body string
		User        struct{ Login string }
		Head        struct{ Ref, SHA string }
	}
	b.get("/pulls/12", &pull)
	if pull.Title != "Check orders (created by dev-qwen)" ||
		pull.Body != "created by dev-qwen\n\nIt checks.\n\nFixes #8" || pull.User.Login != "dev-qwen" ||
		pull.Head.Ref != "fix/issue-8" {
		t.Errorf("got pull request %+v", pull)
	}
	b.want(agents.Done, "asked for changes", "review-sonnet", agents.KindReview, 12, objections)
	if p := b.prompt("review-sonnet"); !strings.Contains(p, "+order") ||
		!strings.Contains(p, "Mind: a name may contain spaces.") {
		t.Errorf("got the reviewer's prompt\n%s", p)
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12,
		`echo more >> order.txt; git commit -qam "Say more"`+stubDone)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "Not yet.") ||
		!strings.Contains(p, "`README.md`, line 99: And here.") {
		t.Errorf("got the rework's prompt\n%s", p)
	}
	if args := b.read(filepath.Join(b.home("dev-qwen"), "args")); !strings.Contains(args, "--resume "+out.SessionID) {
		t.Errorf("the rework did not resume the conversation: %s", args)
	}
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, approve)
	if strings.Contains(b.lastArgs("review-sonnet"), "--resume") {
		t.Errorf("on an API: got %s, want no --resume", b.lastArgs("review-sonnet"))
	}
	var reviews []struct {
		State, Body string
		CommitID    string `json:"commit_id"`
		Comments    int    `json:"comments_count"`
	}
	b.get("/pulls/12/reviews", &reviews)
	if len(reviews) != 2 || reviews[0].State != "REQUEST_CHANGES" || reviews[0].CommitID != pull.Head.SHA ||
		reviews[0].Comments != 1 ||
		reviews[1].State != "APPROVED" || reviews[1].Body != "Good.\n\nreviewed by review-sonnet" ||
		reviews[1].CommitID == pull.Head.SHA {
		t.Errorf("got reviews %+v", reviews)
	}
	b.noSecrets()
}

// noSecrets fails if a token is in a file that sessions left, or in the log.
func (b *bench) noSecrets() {
	b.t.Helper()
	err := filepath.WalkDir(b.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for name, token := range b.Tokens {
			if strings.Contains(string(text), token) {
				b.t.Errorf("%s contains %s", path, name)
			}
		}
		return err
	})
	if err != nil {
		b.t.Error(err)
	}
	for name, token := range b.Tokens {
		if strings.Contains(b.log.String(), token) {
			b.t.Errorf("the log contains %s", name)
		}
	}
}

// The CLI's report decides the outcome, not its exit code. Success without a change is not progress. A reviewer may ask
// too, and then gives no verdict.
func TestAgentOutcomes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tests := []struct {
		name, script string
		result       agents.Result
		reason       string
	}{
		{"no commits", stubDone, agents.NoProgress, "no commits that change anything; its last words: All done."},
		{"usage limit", `echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795242424,"rateLimitType":"five_hour"}}'
echo '{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":429,"result":"You have hit your limit"}'; exit 1`, agents.Limited, "limit"},
		{"not signed in", `echo '{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":401,"result":"Invalid API key"}'; exit 0`, agents.Unanswered, "not signed in"},
		{"no last event", `exit 0`, agents.Unanswered, "ended without saying how"},
		{"no last event of an answer", stubAnswer + `exit 0`, agents.Failed, "ended without saying how"},
		{"dies with words", stubAnswer + `echo "something broke" >&2; exit 7`, agents.Failed, "exit status 7: something broke"},
		{"no credit", `echo '{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":400,"result":"Credit balance is too low"}'; exit 1`, agents.Unanswered, "claude: Credit balance is too low"},
		{"killed", stubAnswer + `kill -9 $$`, agents.Killed, "killed by SIGKILL"},
		{
			"refused", `echo '{"refused":"It does not say which orders."}' > "$DISINTO_WORKSPACE/answer.json"` + stubDone,
			agents.Refused, "It does not say which orders.",
		},
		{"forgets to commit", `echo x > forgotten.txt` + stubDone, agents.Done, "opened #12"},
	}
	// Only in make check.
	storm := []string{"not signed in", "no last event", "no last event of an answer", "dies with words"}
	for _, tt := range tests {
		if !storms() && slices.Contains(storm, tt.name) {
			continue
		}
		out := b.want(tt.result, tt.reason, "dev-qwen", agents.KindIssue, 8, tt.script)
		if want := time.Unix(1795242424, 0); tt.result == agents.Limited && !out.RetryAt.Equal(want) {
			t.Errorf("%s: retry at %s, want %s", tt.name, out.RetryAt, want)
		}
	}
	b.want(agents.Failed, "it wrote no verdict", "review-sonnet", agents.KindReview, 12, stubDone)
	b.want(agents.Question, "Is this meant?", "review-sonnet", agents.KindReview, 12, `
echo '{"question": "Is this meant?"}' > ../answer.json`+stubDone)
	if storms() {
		b.want(agents.Failed, `the verdict is "maybe"`, "review-sonnet", agents.KindReview, 12,
			`echo '{"verdict":"maybe"}' > "$DISINTO_WORKSPACE/verdict.json"`+stubDone)
	}
	var reviews []struct{ State string }
	b.get("/pulls/12/reviews", &reviews)
	if len(reviews) > 0 {
		t.Errorf("without a verdict: got reviews %+v", reviews)
	}
	if storms() {
		b.want(agents.NoProgress, "", "dev-qwen", agents.KindRework, 12, stubDone)
	}
}

// A missing CLI costs no issue an attempt.
func TestAgentWithoutCLI(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	empty := t.TempDir()
	for _, name := range []string{"git", "sh"} {
		path, err := filepath.EvalSymlinks(lookPath(t, name))
		if err == nil {
			err = os.Symlink(path, filepath.Join(empty, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.want(agents.Unanswered, "claude: no such program in PATH", "dev-qwen", agents.KindIssue, 8, "",
		"PATH="+empty)
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	t.Skip("found no " + name)
	return ""
}

// A session that failed was interrupted: the next one continues with its commits and its files, and is told why it
// stopped. Commits and changes of tracked files are on the issue's branch, untracked files in the agent's clone.
func TestD4_ContinuesAfterFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Failed, "", "dev-qwen", agents.KindIssue, 8,
		stubAnswer+`echo half > half.txt; echo c > c.txt; git add c.txt; git commit -qm c; echo more >> c.txt; exit 3`)
	if got := b.files("fix/issue-8"); !slices.Contains(got, "c.txt") || slices.Contains(got, "half.txt") {
		t.Errorf("got the files %q on the issue's branch, want c.txt and not half.txt", got)
	}
	b.commitToMain("elsewhere.txt") // the base moves on meanwhile
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`test -f half.txt && test "$(cat c.txt)" = "c
more" && test "$(git log -1 --format=%s)" = c || exit 9; git add half.txt; git commit -qam d`+stubDone)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "An earlier session stopped here") ||
		!strings.Contains(p, "exit status 3") {
		t.Errorf("the prompt does not say where and why the last session stopped:\n%s", p)
	}
	if got := b.subjects(12); !slices.Equal(got, []string{"d", "c"}) {
		t.Errorf("got the commits %q, want no snapshot among them", got)
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `echo e > e.txt; git add .; git commit -qm e`+stubDone)
	if p := b.prompt("dev-qwen"); strings.Contains(p, "An earlier session stopped here") {
		t.Error("a session whose work was handed in counts as interrupted")
	}
}

// Interrupted work comes back from the forge, for another agent or after the loss of the workspace, and from the
// agent's clone.
func TestAgentContinuesElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := func(agent string) {
		t.Helper()
		b.want(agents.Limited, "", agent, agents.KindIssue, 8, `echo c >> c.txt; git add c.txt; git commit -qm c; echo more >> c.txt; echo u > u.txt
echo '{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":429,"result":"You have hit your limit"}'; exit 1`)
	}
	goOn := `grep -q more c.txt && git diff --quiet HEAD~1 HEAD~1 || exit 9; `
	stop("dev-qwen")
	if err := os.RemoveAll(b.workspace("dev-qwen")); err != nil {
		t.Fatal(err)
	}
	b.want(agents.Unanswered, "", "dev-qwen", agents.KindIssue, 8, goOn+`test -f u.txt || exit 8; exit 3`)
	if !strings.Contains(b.prompt("dev-qwen"), "hit your limit") {
		t.Errorf("got the prompt\n%s", b.prompt("dev-qwen"))
	}
	if err := os.RemoveAll(b.home("dev-qwen")); err != nil { // and its clone
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.workspace("dev-qwen")); err != nil {
		t.Fatal(err)
	}
	b.want(agents.Done, "opened #12", "dev-kimi", agents.KindIssue, 8, goOn+`git commit -qam d`+stubDone)
	if got := b.subjects(12); !slices.Equal(got, []string{"d", "c"}) {
		t.Errorf("got the commits %q", got)
	}
}

// A push that fails holds nothing up: the work is in the clone, and the agent's next session pushes it.
func TestAgentPushesLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Unanswered, "", "dev-qwen", agents.KindIssue, 8, `
git config --file "$HOME/.gitconfig" url.http://127.0.0.1:1/.pushInsteadOf "$FORGE_URL/"
echo c > c.txt; git add c.txt; git commit -qm c; echo d >> c.txt; exit 3`, "DISINTO_WORKSPACE="+b.chain(8))
	if len(b.branches("fix/issue-8")) > 0 || !strings.Contains(b.log.String(), "cannot push the work in progress yet") {
		t.Fatalf("the push did not fail\n%s", b.log.String())
	}
	if err := os.Remove(filepath.Join(b.home("dev-qwen"), ".gitconfig")); err != nil {
		t.Fatal(err)
	}
	b.implement(1)
	if len(b.branches("fix/issue-8")) != 1 {
		t.Errorf("the next session did not push it\n%s", b.log.String())
	}
	b.want(agents.Unanswered, "", "dev-qwen", agents.KindIssue, 8, `
git config --file "$HOME/.gitconfig" url.http://127.0.0.1:1/.pushInsteadOf "$FORGE_URL/"
echo d > d.txt; git add d.txt; git commit -qm d; echo e >> d.txt; exit 3`, "DISINTO_WORKSPACE="+b.chain(8))
	if err := os.Remove(filepath.Join(b.home("dev-qwen"), ".gitconfig")); err != nil {
		t.Fatal(err)
	}
	b.want(agents.Done, "opened #", "dev-qwen", agents.KindIssue, 8, `grep -q e d.txt || exit 9`+stubDone,
		"DISINTO_WORKSPACE="+b.chain(8))
	if got := b.subjects(13); len(got) != 3 || got[1] != "d" || got[2] != "c" || len(b.branches("wip/")) > 0 {
		t.Errorf("got the commits %q, branches %q", got, b.branches("wip/"))
	}
}

// A session resumes a conversation only where the slot's cache may hold it: on the same slot of a local server. On
// another slot, and always on an API, it starts a new one.
func TestD7_Conversations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	rework := func(slot string) agents.Outcome {
		return b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `echo more >> order.txt; git commit -qam more`+
			stubDone, "DISINTO_SLOT="+slot)
	}
	if storms() { // TestAgentFlow does this too, and reviews twice
		if rework("0"); !strings.Contains(b.lastArgs("dev-qwen"), "--resume "+first.SessionID) {
			t.Errorf("on the same slot: got %s, want --resume", b.lastArgs("dev-qwen"))
		}
	}
	other := rework("1")
	if strings.Contains(b.lastArgs("dev-qwen"), "--resume") || other.SessionID == first.SessionID {
		t.Errorf("on another slot: got %s, want no --resume", b.lastArgs("dev-qwen"))
	}
	if !storms() {
		return
	}
	if rework("1"); !strings.Contains(b.lastArgs("dev-qwen"), "--resume "+other.SessionID) {
		t.Errorf("on that slot again: got %s, want --resume", b.lastArgs("dev-qwen"))
	}
	for range 2 {
		b.want(agents.Done, "", "review-sonnet", agents.KindReview, 12, objections)
		if strings.Contains(b.lastArgs("review-sonnet"), "--resume") {
			t.Errorf("on an API: got %s, want no --resume", b.lastArgs("review-sonnet"))
		}
	}
}

// An interrupted session pushes its work in progress and reports that. The next session continues from it.
func TestAgentInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.ctx = ctx
	begun := filepath.Join(b.dir, "begun")
	go func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(begun); err == nil {
				cancel()
				return
			}
		}
	}()
	b.want(agents.Failed, "ended by a signal; the work in progress is on fix/issue-8", "dev-qwen", agents.KindIssue, 8,
		fmt.Sprintf("echo half > half.txt; git add .; touch %s; exec sleep 60", begun))
	if own := b.branches("fix/issue-8"); len(own) != 1 {
		t.Fatalf("got branches %q, want one", own)
	}
	b.ctx = t.Context()
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`test -f half.txt || exit 9; git add half.txt; git commit -qm half`+stubDone)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "An earlier session stopped here") {
		t.Error("the prompt does not say that an earlier session stopped here")
	}
}

// A rework never overwrites another account's push, but may push a rewritten branch of its own.
func TestAgentPushesWithCare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `git commit -q --amend -m "Better said"`+stubDone)
	remote := "http://x:" + b.HumanToken + "@" + strings.TrimPrefix(b.URL, "http://") + "/" + demo.Repo + ".git"
	theirs := fmt.Sprintf(`(cd "$HOME"; rm -rf other; git clone -q -b fix/issue-8 %s other; cd other; `+
		`echo theirs > order.txt; git commit -qam theirs; git push -q);`, remote)
	b.want(agents.Failed, "rejected", "dev-qwen", agents.KindRework, 12,
		theirs+`echo more > order.txt; git commit -qam more`+stubDone)
	var commits []struct{ Commit struct{ Message string } }
	b.get("/pulls/12/commits", &commits)
	if !slices.ContainsFunc(commits, func(c struct{ Commit struct{ Message string } }) bool {
		return strings.Contains(c.Commit.Message, "theirs")
	}) {
		t.Errorf("another account's push is gone: %+v", commits)
	}
}

// Git commands of a CLI stay in its worktree, even if that is broken and the workspace is inside another repository.
func TestAgentStaysInItsTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	git := agentGit(b.reaper, os.Environ())
	if _, err := git(t.Context(), b.dir, nil, "init", "--quiet", "."); err != nil {
		t.Fatal(err)
	}
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`rm .git; echo x > x.txt; git add x.txt; git commit -q -m astray`+stubDone)
	if out, err := git(t.Context(), b.dir, nil, "log", "--all", "--oneline"); err == nil && out != "" {
		t.Errorf("got a commit outside the worktree: %s", out)
	}
}

// The factory's prompts replace the built-in ones, and a mistake in one is an error.
func TestAgentPrompts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := filepath.Join(b.dir, "prompts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "dev.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func() agents.Outcome {
		t.Helper()
		path := filepath.Join(b.dir, "result.json")
		environ := withEnv(os.Environ(), []string{
			"PATH=" + stub(t, writeOrder) + ":" + os.Getenv("PATH"), "HOME=" + b.home("dev-qwen"), "DISINTO_RUN_ID=r",
			"DISINTO_AGENT=dev-qwen",
			"DISINTO_ROLE=dev", "DISINTO_KIND=issue", "DISINTO_REPO=" + demo.Repo, "DISINTO_NUMBER=8",
			"DISINTO_WORKSPACE=" + b.workspace("dev-qwen"),
			"DISINTO_RESULT=" + path, "FORGE_URL=" + b.URL, "FORGE_TOKEN=" + b.Tokens["FORGE_TOKEN_DEV_QWEN"],
			"GIT_AUTHOR_NAME=d", "GIT_AUTHOR_EMAIL=d@x", "GIT_COMMITTER_NAME=d", "GIT_COMMITTER_EMAIL=d@x",
		})
		_ = os.MkdirAll(b.home("dev-qwen"), 0o700)
		p := session.Program{
			CLI: "claude", Prompts: dir, Environ: environ, Desk: b.desk("dev-qwen"),
			Run: sessionRun(b.reaper), Out: &b.log, Now: time.Now,
		}
		if err := p.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		out, err := agents.ParseResult([]byte(b.read(path)))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	write("Do {{.Titel}}")
	if out := run(); out.Result != agents.Unanswered ||
		out.Reason != "cannot use the prompt dev.md: there is no variable .Titel" {
		t.Errorf("got outcome %+v", out)
	}
	write("Please: {{.Title}}")
	if out := run(); out.Result != agents.Done {
		t.Errorf("got outcome %+v", out)
	}
	if p := b.prompt("dev-qwen"); p != "Please: ~~~~text\nRefuse an order without a name\n~~~~" {
		t.Errorf("got prompt %q", p)
	}
}
