package mergediff

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// runGit runs commands as a session does.
func runGit(ctx context.Context, c agents.Cmd) error {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr
	return cmd.Run()
}

// history is a repository with the branches main and fix.
type history struct {
	*testing.T
	dir  string
	run  func(context.Context, agents.Cmd) error
	most Limits
	// rebases is Change.Rebases.
	rebases bool
}

func newHistory(t *testing.T) *history {
	t.Helper()
	t.Parallel()
	h := &history{T: t, dir: t.TempDir(), run: runGit, most: Limits{Part: 120 << 10, Whole: 1 << 20, Unseen: 100 << 10}}
	h.git("init", "-q", "-b", "main")
	h.write("README", lines("line", 40))
	h.commit("begin")
	h.git("branch", "fix")
	return h
}

func lines(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

func (h *history) git(args ...string) string {
	h.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x", "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *history) write(name, text string) {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

// commit commits everything on the present branch.
func (h *history) commit(message string) string {
	h.Helper()
	h.git("add", "--all")
	h.git("commit", "-q", "--allow-empty", "-m", message)
	return h.git("rev-parse", "HEAD")
}

// on checks a branch out.
func (h *history) on(branch string) { h.Helper(); h.git("checkout", "-q", branch) }

// change commits files on a branch; names and texts in turns.
func (h *history) change(branch string, files ...string) {
	h.Helper()
	h.on(branch)
	for pair := range slices.Chunk(files, 2) {
		h.write(pair[0], pair[1])
	}
	h.commit("change")
}

// see returns what a reviewer of fix sees.
func (h *history) see() *View {
	h.Helper()
	v, err := Read(h.Context(), h.run, os.Environ(), Change{
		Objects: filepath.Join(h.dir, ".git", "objects"), Base: h.git("rev-parse", "main"), Head: h.git("rev-parse", "fix"),
		Rebases: h.rebases,
	}, h.most)
	if err != nil {
		h.Fatal(err)
	}
	return v
}

func (v *View) text() string { return strings.Join(v.Parts, "") }

// want checks a text for words that it must have, and for words after a "!" that it must not have.
func (h *history) want(text string, words ...string) {
	h.Helper()
	for _, word := range words {
		absent, not := strings.CutPrefix(word, "!")
		if not == strings.Contains(text, absent) || !not && !strings.Contains(text, word) {
			h.Errorf("got\n%s\nwant %q", text, word)
		}
	}
}

// wantUnshown checks what keeps an approval from counting.
func (h *history) wantUnshown(v *View, words ...string) {
	h.Helper()
	var got []string
	for _, e := range v.Unshown() {
		got = append(got, e.String())
	}
	if len(got) != len(words) {
		h.Fatalf("got %q, want %q", got, words)
	}
	for i, word := range words {
		h.want(got[i], word)
	}
}

func TestPlainChange(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "README", lines("line", 40)+"more\n", "new.go", "package new\n")
	h.change("main", "other", "elsewhere\n")
	v := h.see()
	h.want(v.text(), "+more", "+package new", "what the merge does", "!base...head", "!elsewhere")
	h.wantUnshown(v)
	if len(v.Parts) != 1 || v.Conflict || len(v.Listed) != 0 || !strings.Contains(v.Patch, "+more") {
		t.Errorf("got %+v", v)
	}
}

// Both branches merged each other. main then got a security fix in a merge, which fix takes back in another one: from
// one of the merge bases nothing of it shows.
func TestCrissCross(t *testing.T) {
	h := newHistory(t)
	h.change("main", "auth.go", "package auth\n\nfunc check() { open() }\n")
	h.git("branch", "-f", "fix", "main")
	h.change("fix", "work", "work\n")
	before := h.git("rev-parse", "fix")
	h.change("main", "auth.go", "package auth\n\nfunc check() { verify() }\n")
	secured := h.git("rev-parse", "main")
	h.git("merge", "-q", "--no-edit", before)
	h.on("fix")
	h.git("merge", "-q", "--no-edit", "--no-commit", secured)
	h.write("auth.go", "package auth\n\nfunc check() { open() }\n") // takes the fix back
	h.commit("merge main")
	v := h.see()
	h.want(v.text(), "-func check() { verify() }", "+func check() { open() }", "2 merge bases")
	h.wantUnshown(v, "the history: 2 merge bases")
}

func TestSubmoduleIgnored(t *testing.T) {
	h := newHistory(t)
	first, second := strings.Repeat("1", 40), strings.Repeat("2", 40)
	h.on("main")
	h.write(".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib\n\tignore = all\n")
	h.git("add", ".gitmodules")
	h.git("update-index", "--add", "--cacheinfo", "160000,"+first+",lib")
	h.git("commit", "-q", "-m", "lib")
	h.git("branch", "-f", "fix", "main")
	h.git("symbolic-ref", "HEAD", "refs/heads/fix")
	h.git("update-index", "--add", "--cacheinfo", "160000,"+second+",lib")
	h.git("commit", "-q", "-m", "lib moves")
	v := h.see()
	h.want(v.text(), "-Subproject commit "+first, "+Subproject commit "+second)
	h.wantUnshown(v, "lib: submodule, from commit "+first+" to "+second)
}

// Neither the branch, nor the agent's own settings, nor an earlier session of it in the mirror hide a file.
func TestAttributesHideNothing(t *testing.T) {
	h := newHistory(t)
	h.change("main", ".gitattributes", "*.sh -diff\nREADME merge=ours\n", "run.sh", "ls\n")
	h.git("branch", "-f", "fix", "main")
	h.change("fix", "run.sh", "rm -r /\n", ".gitattributes", "* -diff binary\n")
	h.write(".git/info/attributes", "* -diff\n")
	h.git("config", "diff.noprefix", "true")
	h.git("config", "diff.context", "0")
	v := h.see()
	h.want(v.text(), "+rm -r /", "+* -diff binary", "+++ b/run.sh", "!Binary")
	h.wantUnshown(v)
}

func TestUserAttributesHideNothing(t *testing.T) {
	home := t.TempDir()
	h := newHistory(t)
	if err := os.MkdirAll(filepath.Join(home, "git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "git", "attributes"), []byte("* -diff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run = func(ctx context.Context, c agents.Cmd) error {
		c.Env = agents.Setenv(c.Env, []string{"XDG_CONFIG_HOME=" + home})
		return runGit(ctx, c)
	}
	h.change("fix", "run.sh", "rm -r /\n")
	h.want(h.see().text(), "+rm -r /", "!Binary")
}

// A replaced object in the mirror would show another file.
func TestReplacedObject(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "run.sh", "rm -r /\n")
	h.git("replace", h.git("rev-parse", "fix:run.sh"), h.git("rev-parse", "main:README"))
	h.want(h.see().text(), "+rm -r /")
}

func TestNUL(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "run.sh", "#!/bin/sh\n\x00\nrm -r /\n", "turn.go", "a \u202e b\rc\n", "latin", "f\xfcr\n")
	v := h.see()
	h.want(v.text(), "+\\x00\n+rm -r /", `+a \u202e b\x0dc`, `+f\xfcr`, "!Binary", "!\x00")
	h.wantUnshown(v)
}

func TestBinary(t *testing.T) {
	for _, row := range []struct {
		size  int
		shown bool
	}{{100 << 10, true}, {100<<10 + 1, false}} {
		t.Run(fmt.Sprint(row.size), func(t *testing.T) {
			h := newHistory(t)
			h.change("fix", "logo.png", string(bytes.Repeat([]byte{0x89, 0, 0xff, 'x'}, row.size))[:row.size])
			v := h.see()
			id := h.git("rev-parse", "fix:logo.png")
			h.want(v.text(), fmt.Sprintf("=== logo.png: binary, %d bytes, blob %s", row.size, id), "Binary files",
				"new file mode")
			if len(v.Listed) != 1 || v.Listed[0].Shown != row.shown {
				t.Errorf("got %+v, want shown %v", v.Listed, row.shown)
			}
		})
	}
}

func TestDeletedBinary(t *testing.T) {
	h := newHistory(t)
	h.change("main", "logo.png", strings.Repeat("\x00\xff", 100<<10))
	h.git("branch", "-f", "fix", "main")
	h.on("fix")
	h.git("rm", "-q", "logo.png")
	h.commit("remove")
	v := h.see()
	h.want(v.text(), "deleted file mode")
	h.wantUnshown(v)
}

func TestRenameAndMode(t *testing.T) {
	h := newHistory(t)
	h.on("fix")
	h.git("mv", "README", "docs")
	h.write("docs", lines("line", 40)+"more\n")
	if err := os.Chmod(filepath.Join(h.dir, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(h.dir, "link")); err != nil {
		t.Fatal(err)
	}
	h.commit("link")
	v := h.see()
	h.want(v.text(), "rename from README", "rename to docs", "old mode 100644", "new mode 100755", "+more",
		"new file mode 120000", "+/etc/passwd", "!-line 3")
	h.wantUnshown(v)
}

// A file becomes a link: git shows that as two patches of one file.
func TestTypeChange(t *testing.T) {
	h := newHistory(t)
	h.on("fix")
	if err := os.Remove(filepath.Join(h.dir, "README")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(h.dir, "README")); err != nil {
		t.Fatal(err)
	}
	h.write("after", "after\n")
	h.commit("link")
	h.want(h.see().text(), "-line 3", "+/etc/passwd", "+++ b/after")
}

// The name of a file cannot begin another patch, or look like our own lines.
func TestStrangeNames(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "a\ndiff --git a/b b/b", "one\n", "a\n=== fine: shown", "two\n", "Fäden und Knöpfe", "three\n",
		"z.bin\n=== y", strings.Repeat("\x00", 101<<10))
	v := h.see()
	h.want(v.text(), "+one", "+two", "+three", "+++ b/Fäden und Knöpfe", "!\n=== fine")
	h.wantUnshown(v, `"z.bin\n=== y": binary`)
}

func TestHugeFile(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "a-huge.txt", strings.Repeat("x\n", 1<<20), "small.go", "package small\n", "zz.txt",
		strings.Repeat("y\n", maxText))
	v := h.see()
	h.want(v.text(), "+package small", "=== a-huge.txt: too long", "!+x")
	h.wantUnshown(v, "a-huge.txt: too long", "zz.txt: more than 8M, 16777216 bytes, blob ")
}

// A long text comes in parts that together are the whole, and no part is longer than it may be.
func TestParts(t *testing.T) {
	h := newHistory(t)
	h.most.Part = 4 << 10
	long := strings.Repeat("é", 10<<10)
	h.change("fix", "long.txt", lines("some words of a long text", 1000), "one-line.txt", long+"\n")
	v := h.see()
	h.wantUnshown(v)
	if len(v.Parts) < 5 {
		t.Fatalf("got %d parts", len(v.Parts))
	}
	var whole strings.Builder
	for i, part := range v.Parts {
		if len(part) > h.most.Part {
			t.Errorf("part %d has %d bytes", i, len(part))
		}
		if i > 0 && strings.HasPrefix(part, "=== continued: ") {
			_, part, _ = strings.Cut(part, "\n")
		}
		whole.WriteString(part)
	}
	h.want(whole.String(), "+some words of a long text 999\n", long)
	h.want(v.Parts[1], "=== continued: diff --git a/long.txt b/long.txt\n")
	h.want(v.Parts[2], "=== continued: diff --git a/long.txt b/long.txt\n")
}

func TestLFS(t *testing.T) {
	pointer := func(id string, size int) string {
		return "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat(id, 64) +
			fmt.Sprintf("\nsize %d\n", size)
	}
	h := newHistory(t)
	h.change("main", "model.bin", pointer("a", 5), "small.bin", pointer("b", 5))
	h.git("branch", "-f", "fix", "main")
	h.change("fix", "model.bin", pointer("c", 5<<20), "small.bin", pointer("d", 6))
	v := h.see()
	h.want(v.text(), "small.bin: file in Git LFS, 6 bytes, sha256 "+strings.Repeat("d", 64))
	h.wantUnshown(v, "model.bin: file in Git LFS, 5242880 bytes, sha256 "+strings.Repeat("c", 64))
}

func TestLockFile(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "a/yarn.lock", lines("left-pad", 20), "b/go.sum", lines("example.org/module v1.0.0 h1:", 2000),
		"c/package-lock.json", lines("      \"resolved\": \"https://registry.example.org/left-pad\",", 3000))
	v := h.see()
	h.want(v.text(), "+left-pad 3", "b/go.sum: lock file", "!+example.org")
	h.wantUnshown(v, "c/package-lock.json: lock file, ")
}

func TestConflict(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "README", "mine\n")
	h.change("main", "README", "theirs\n")
	v := h.see()
	if !v.Conflict {
		t.Fatalf("got %+v, want a conflict", v)
	}
	h.want(v.text(), "=== This conflicts with its base", "+mine", "!theirs")
}

// Where the base has moved in a file of the change, comments count lines that the merge does not have.
func TestTwoDifferences(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "README", lines("line", 40)+"more\n", "new.go", "package new\n")
	h.change("main", "README", "first\nsecond\n"+lines("line", 40))
	v := h.see()
	h.want(v.text(), "@@ -40,3 +40,4 @@ line 36\n", "=== Of these files, base...head is another difference",
		"@@ -38,3 +38,4 @@ line 36\n")
	if n := strings.Count(v.text(), "+package new"); n != 1 {
		t.Errorf("the file that is the same in both is shown %d times", n)
	}
	h.want(v.Patch, "@@ -38,3 +38,4 @@", "!@@ -40,3", "+package new")
	h.wantUnshown(v)
}

// The base already has the same change: the merge adds nothing.
func TestNothingLeft(t *testing.T) {
	h := newHistory(t)
	h.change("fix", "new.go", "package new\n")
	h.change("main", "new.go", "package new\n", "other", "x\n")
	h.want(h.see().text(), "=== The merge changes nothing.", "another difference")
}

// A rebase drops merge commits, and with them what they alone changed.
func TestRebaseDiffers(t *testing.T) {
	for _, rebases := range []bool{false, true} {
		t.Run(fmt.Sprint(rebases), func(t *testing.T) {
			h := newHistory(t)
			h.rebases = rebases
			h.change("fix", "one", "one\n")
			h.change("main", "other", "other\n")
			h.on("fix")
			h.git("merge", "-q", "--no-edit", "--no-commit", "main")
			h.write("guard", "guard\n") // in the merge commit only
			h.commit("merge main")
			h.change("fix", "two", "two\n")
			h.change("main", "last", "last\n")
			text := h.see().text()
			h.want(text, "+one", "+two", "!+last", "!+other")
			first, _, _ := strings.Cut(text, "=== Of these files")
			if got := strings.Contains(first, "+guard"); got == rebases {
				t.Errorf("got the guard: %v\n%s", got, text)
			}
			if got := strings.Contains(text, "rebasing the commits"); got != rebases {
				t.Errorf("got\n%s", text)
			}
		})
	}
}

// A rebase that conflicts is refused by the forge, so the merge is shown. Nobody tries one of very many commits.
func TestRebaseFails(t *testing.T) {
	h := newHistory(t)
	h.rebases = true
	h.change("main", "README", "one\n")
	h.change("fix", "README", "two\n")
	h.change("fix", "README", "one\n")
	v := h.see()
	h.want(v.text(), "The merge changes nothing", "!rebasing")
	h.wantUnshown(v)

	tip, tree := h.git("rev-parse", "fix"), h.git("rev-parse", "fix^{tree}")
	for range maxCommits {
		tip = h.git("commit-tree", tree, "-p", tip, "-m", "nothing")
	}
	h.git("update-ref", "refs/heads/fix", tip)
	h.wantUnshown(h.see(), "the rebase: of more than 200 commits")
}

// A branch that merged another history has commits without a parent.
func TestRebaseOfAnotherHistory(t *testing.T) {
	h := newHistory(t)
	h.rebases = true
	h.git("checkout", "-q", "--orphan", "other")
	h.git("rm", "-rfq", ".")
	h.write("vendored", "vendored\n")
	h.commit("another beginning")
	h.on("fix")
	h.git("merge", "-q", "--no-edit", "--allow-unrelated-histories", "other")
	h.change("main", "more", "more\n")
	h.want(h.see().text(), "+vendored", "!+more")
}

// Ubuntu 22.04 has git 2.34: what the merge does cannot be shown, unless the branch has all of its base.
func TestOldGit(t *testing.T) {
	h := newHistory(t)
	h.run = func(ctx context.Context, c agents.Cmd) error {
		if c.Argv[1] == "merge-tree" {
			fmt.Fprintln(c.Stderr, "usage: git merge-tree <base-tree> <branch1> <branch2>")
			return fmt.Errorf("exit status 129")
		}
		return runGit(ctx, c)
	}
	h.change("fix", "new.go", "package new\n")
	h.wantUnshown(h.see())
	h.change("main", "other", "x\n")
	v := h.see()
	h.want(v.text(), "+package new")
	h.wantUnshown(v, "the merge: not known: git 2.38")
}

func TestNoCommonCommit(t *testing.T) {
	h := newHistory(t)
	h.git("checkout", "-q", "--orphan", "other")
	h.commit("another beginning")
	h.git("branch", "-f", "fix", "other")
	_, err := Read(t.Context(), h.run, os.Environ(), Change{
		Objects: filepath.Join(h.dir, ".git", "objects"), Base: h.git("rev-parse", "main"), Head: h.git("rev-parse", "fix"),
	}, h.most)
	if err == nil || !strings.Contains(err.Error(), "no common commit") {
		t.Errorf("got %v", err)
	}
}

// The mirror gets no object from looking at a merge, and nothing stays in the folder of temporary files.
func TestLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	h := &history{T: t, dir: t.TempDir(), run: runGit, most: Limits{Part: 1 << 10, Whole: 1 << 10}, rebases: true}
	h.git("init", "-q", "-b", "main")
	h.write("README", lines("line", 40))
	h.commit("begin")
	h.git("branch", "fix")
	h.change("fix", "README", lines("line", 40)+"more\n")
	h.change("main", "README", "first\n"+lines("line", 40))
	before := h.git("count-objects")
	h.want(h.see().text(), "+more")
	if after := h.git("count-objects"); after != before {
		t.Errorf("got %s, before it was %s", after, before)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestManyListed(t *testing.T) {
	h := newHistory(t)
	var files []string
	for i := range maxListed + 5 {
		files = append(files, fmt.Sprintf("pictures/%d.png", i), "\x00\xff"+fmt.Sprint(i))
	}
	h.change("fix", files...)
	v := h.see()
	h.wantUnshown(v, "5 more: not even listed")
}

// Reviews, outcomes and comments name the first of very many.
func TestWords(t *testing.T) {
	t.Parallel()
	all := []Entry{{Path: "a`\n", Kind: "binary", Size: 3, Hash: "blob 1"}}
	if got, want := Words(all), `"a`+"`"+`\n": binary, 3 bytes, blob 1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := List(all), "- `\"a'\\n\": binary, 3 bytes, blob 1`\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for range 59 {
		all = append(all, all[0])
	}
	if got := Words(all); !strings.HasSuffix(got, "; and 57 more") {
		t.Errorf("got %s", got)
	}
	if got := List(all); !strings.HasSuffix(got, "- and 10 more\n") || strings.Count(got, "\n") != 51 {
		t.Errorf("got %s", got)
	}
}
