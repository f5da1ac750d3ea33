package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

// nudged returns the messages that the CLI got after its first prompt in a session, one a line.
func (b *bench) nudged() (all []string) {
	for line := range strings.Lines(b.log.String()) {
		if words, ok := strings.CutPrefix(line, "nudged: "); ok {
			all = append(all, strings.TrimSpace(words))
		}
	}
	return all
}

// Beside an agent's own commits, only changes of tracked files are committed for it. It is told once about the rest,
// which stays out of the pull request, is listed there, and is kept in the agent's clone.
func TestAgentLeavesUntrackedOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
if grep -q "in no commit" "$HOME/prompt"; then git add late.txt; git commit -qm late; else
echo order > order.txt; echo '*.log' > .gitignore; git add .; git commit -qm order; echo more >> order.txt
mkdir -p venv/lib; for i in 1 2 3; do echo $i > venv/lib/$i; done
echo n > notes.txt; echo l > late.txt; echo x > x.log; git init -q nested; fi`+stubDone)
	want := []string{"These files are in the repository, in no commit, and not ignored: `late.txt`, `nested/`, " +
		"`notes.txt`, `venv/` (3 files). Commit those that belong to the change, with git. The others stay out of the pull " +
		"request."}
	if got := b.nudged(); !slices.Equal(got, want) {
		t.Errorf("got the messages %q, want %q", got, want)
	}
	for _, name := range []string{"venv", "notes.txt", "x.log", "nested"} {
		if slices.Contains(b.files("fix/issue-8"), name) {
			t.Errorf("%s is in the pull request", name)
		}
	}
	for _, name := range []string{"order.txt", "late.txt"} {
		if !slices.Contains(b.files("fix/issue-8"), name) {
			t.Errorf("%s is not in the pull request", name)
		}
	}
	var pull struct{ Body string }
	b.get("/pulls/12", &pull)
	const left = "Left out, because dev-qwen did not commit it: "
	if !strings.Contains(pull.Body, left+"`nested/`, `notes.txt`, `venv/` (3 files).") {
		t.Errorf("got the text %q", pull.Body)
	}
	if kept := b.kept("dev-qwen"); !strings.Contains(kept, "venv/lib/3") || strings.Contains(kept, "x.log") {
		t.Errorf("got %s, want the files that stayed out, and no ignored one", kept)
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `test ! -e notes.txt || exit 9
echo more >> order.txt; git commit -qam more; echo n > again.txt`+stubDone)
	var comments []struct{ Body string }
	b.get("/issues/12/comments", &comments)
	if len(comments) != 1 || !strings.Contains(comments[0].Body, left+"`again.txt`.") {
		t.Errorf("got the comments %+v", comments)
	}
}

// Whatever a session does to its folder, its commits reach the pull request, or are kept in the agent's clone, and the
// next session starts.
func TestAgentAnyFolder(t *testing.T) {
	t.Parallel()
	const commit = `echo order > order.txt; git add order.txt; git commit -q -m "Add the order"; `
	tests := []struct {
		name, script string
		files        []string // in the pull request
		kept         string   // in the agent's clone
	}{
		{"looks at another commit", commit + `git checkout -q --detach HEAD~1`, []string{"order.txt"}, ""},
		{"works on another branch", `git checkout -q -b mine; ` + commit, []string{"order.txt"}, ""},
		{
			"begins again on another branch", `echo a > a.txt; git add .; git commit -qm first; git checkout -q -b mine HEAD~1; ` +
				commit, []string{"order.txt"}, "first",
		},
		{
			"loses a commit", `git checkout -q --detach; echo a > a.txt; git add .; git commit -qm lost; git checkout -q fix/issue-8; ` +
				commit, []string{"order.txt"}, "lost",
		},
		{"deletes its folder", commit + `rm -rf "$PWD"`, []string{"order.txt"}, ""},
		{"deletes .git", commit + `echo more > more.txt; git add more.txt; rm .git`, []string{"order.txt", "more.txt"}, ""},
		{
			"makes a repository of its own", `rm .git; git init -q; ` + commit, []string{"order.txt"}, "",
		},
		{
			"forbids its folders", commit + `mkdir -p pkg/mod; echo x > pkg/mod/x; chmod 400 pkg/mod/x; chmod 555 pkg/mod pkg`,
			[]string{"order.txt"},
			"pkg/mod/x",
		},
		{
			"leaves pipes and odd names", commit + `mkfifo pipe; echo x > "$(printf 'a\nb')"; ln -s /nowhere link`,
			[]string{"order.txt"},
			"link",
		},
		{
			"leaves locks", commit + `touch "$(git rev-parse --git-dir)/index.lock" "$(git rev-parse --git-dir)/HEAD.lock"`,
			[]string{"order.txt"},
			"",
		},
		{"signs commits", commit + `git config commit.gpgsign true; echo more >> order.txt`, []string{"order.txt"}, ""},
		{"hides untracked files", `git config status.showUntrackedFiles no; echo order > order.txt`, []string{"order.txt"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
				`if grep -q "in no commit" "$HOME/prompt"; then :; else
`+tt.script+`
fi`+stubDone)
			got := b.files("fix/issue-8")
			for _, name := range tt.files {
				if !slices.Contains(got, name) {
					t.Errorf("%s is not among the files %q\n%s", name, got, b.log.String())
				}
			}
			if kept := b.kept("dev-qwen"); !strings.Contains(kept, tt.kept) {
				t.Errorf("got %q, want %q\n%s", kept, tt.kept, b.log.String())
			}
			b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `echo again > again.txt; git add again.txt; git commit -qm again`+
				stubDone)
			if got := b.files("fix/issue-8"); !slices.Contains(got, "again.txt") {
				t.Errorf("the next session's file is not among %q", got)
			}
		})
	}
}

// A session that was killed saved nothing: its worktree tells that it was interrupted. If its branch has moved since,
// the prompt names the commit that has its work.
func TestAgentContinuesKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	kill := func(name string) {
		t.Helper()
		path := filepath.Join(b.workspace("dev-qwen"), "session.json")
		killed := strings.Replace(b.read(path), `"running":false`, `"running":true`, 1)
		for path, text := range map[string]string{path: killed, b.at("dev-qwen", name): "half"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	kill("half.txt")
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `git add half.txt && git commit -qm half || exit 9`+stubDone)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "it left no word, as a killed session does") {
		t.Errorf("got the prompt\n%s", p)
	}
	kill("lost.txt")
	remote := strings.Replace(b.URL, "://", "://x:"+b.HumanToken+"@", 1) + "/" + demo.Repo + ".git"
	b.git(b.dir, "clone", "-q", "-b", "fix/issue-8", remote, "theirs")
	b.git(filepath.Join(b.dir, "theirs"), "commit", "-q", "--allow-empty", "-m", "theirs")
	b.git(filepath.Join(b.dir, "theirs"), "push", "-q")
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `test ! -e lost.txt || exit 9
git show "$(grep -A1 'is the commit' "$HOME/prompt" | grep -o '[0-9a-f]\{40\}')":lost.txt > found.txt || exit 8
git add found.txt; git commit -qm found`+stubDone)
	if got := b.files("fix/issue-8"); !slices.Contains(got, "found.txt") || !slices.Contains(b.subjects(12), "theirs") {
		t.Errorf("got the files %q, commits %q", got, b.subjects(12))
	}
	if strings.Contains(b.lastArgs("dev-qwen"), "--resume") {
		t.Error("a conversation about another tree was resumed")
	}
}

// A workspace is saved before it is deleted, even if its .git is gone.
func TestAgentSavesBrokenWorktree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	for _, name := range []string{"order.txt", "loose.txt"} {
		if err := os.WriteFile(b.at("dev-qwen", name), []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(b.at("dev-qwen", ".git")); err != nil {
		t.Fatal(err)
	}
	out := b.save("dev-qwen", b.workspace("dev-qwen"))
	if out.Result != agents.Done || !strings.Contains(out.Reason, "wip/dev-qwen/issue-8-") ||
		!strings.Contains(b.kept("dev-qwen"), "loose.txt") {
		t.Errorf("got %+v, and in the clone %s", out, b.kept("dev-qwen"))
	}
}

// An interrupted rebase is not published; the next session finishes it.
func TestAgentLeavesRebase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Failed, "the agent left a rebase unfinished", "dev-qwen", agents.KindIssue, 8, `
echo a > a.txt; git add .; git commit -qm a; git checkout -q -b other HEAD~1; echo b > a.txt; git add .; git commit -qm b
git checkout -q fix/issue-8; git rebase other`+stubDone)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
echo c > a.txt; git add a.txt; GIT_EDITOR=true git rebase --continue >/dev/null`+stubDone)
	if got := b.subjects(12); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got the commits %q\n%s", got, b.log.String())
	}
}

// An answer or verdict that cannot be read is asked for once more, with the error and its line. One that can be meant
// in one way only is read.
func TestAgentReadsLeniently(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Question, "Which port?", "dev-qwen", agents.KindIssue, 8,
		`printf '{"question":"Which\nport?"}' > "$DISINTO_WORKSPACE/answer.json"`+stubDone)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
if grep -q "cannot be read" "$HOME/prompt"; then echo '{"title":"Better"}' > "$DISINTO_WORKSPACE/answer.json"; else
printf '{"title":"Good"\n"summary":"x"}' > "$DISINTO_WORKSPACE/answer.json"; echo x > x.txt; git add .; git commit -qm x; fi`+
		stubDone)
	want := []string{fmt.Sprintf("Your answer cannot be read: answer.json is not a JSON object: invalid character '\"' "+
		`after object key:value pair, in line 2: "summary":"x"} Write the file %s again, with the JSON that was asked for, and `+
		"nothing else in it.", filepath.Join(b.workspace("dev-qwen"), "answer.json"))}
	if got := b.nudged(); !slices.Equal(got, want) {
		t.Errorf("got the messages %q, want %q", got, want)
	}
	var pull struct{ Title string }
	if b.get("/pulls/12", &pull); !strings.HasPrefix(pull.Title, "Better ") {
		t.Errorf("got the title %q", pull.Title)
	}
	b.log = output{}
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, `
printf '\357\273\277`+"```json\\n"+`{"verdict":"approve","summary":["a","b"],"comments":[{"path":"x.txt","line":"1","body":"typo"}]}`+
		"\\n```"+`' > "$DISINTO_WORKSPACE/verdict.json"`+stubDone)
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, `
if grep -q LGTM "$HOME/prompt"; then v=approve; else v=LGTM; fi
echo '{"verdict":"'$v'","summary":"Good."}' > "$DISINTO_WORKSPACE/verdict.json"`+stubDone)
	if got := b.nudged(); len(got) != 1 || !strings.Contains(got[0], `the verdict is "LGTM"`) {
		t.Errorf("got the messages %q", got)
	}
	var reviews []struct {
		Body     string
		Comments int `json:"comments_count"`
	}
	if b.get("/pulls/12/reviews", &reviews); len(reviews) != 2 || reviews[0].Comments != 1 ||
		!strings.HasPrefix(reviews[0].Body, "a\nb") {
		t.Errorf("got the reviews %+v", reviews)
	}
	if _, err := os.Stat(b.at("dev-qwen", "x.txt")); err != nil {
		t.Error(err)
	}
}
