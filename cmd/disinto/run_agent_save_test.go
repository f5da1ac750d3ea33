package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

// save runs agent --save as a supervisor does before it deletes a workspace.
func (b *bench) save(agent, workspace string) agents.Outcome {
	b.t.Helper()
	result := filepath.Join(b.dir, "saved.json")
	_ = os.Remove(result)
	environ := withEnv(os.Environ(), []string{
		"HOME=" + b.home(agent), "DISINTO_RUN_ID=inst-9", "DISINTO_AGENT=" + agent, "DISINTO_KIND=issue",
		"DISINTO_REPO=" + demo.Repo, "DISINTO_NUMBER=8", "DISINTO_WORKSPACE=" + workspace, "DISINTO_RESULT=" + result,
		"FORGE_URL=" + b.URL, "FORGE_TOKEN=" + b.Tokens[agents.TokenVar(agent)],
		"GIT_AUTHOR_NAME=" + agent, "GIT_AUTHOR_EMAIL=" + agent + "@x", "GIT_COMMITTER_NAME=" + agent,
		"GIT_COMMITTER_EMAIL=" + agent + "@x",
	})
	p := session.Program{Environ: environ, Run: sessionRun(b.reaper), Out: &b.log, Now: time.Now}
	if err := p.Save(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	out, err := agents.ParseResult([]byte(b.read(result)))
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// git runs git as an agent's command would.
func (b *bench) git(dir string, args ...string) {
	b.t.Helper()
	var complaint strings.Builder
	err := b.reaper.Run(b.ctx, process.Cmd{
		Argv: append([]string{"git", "-c", "user.name=x", "-c", "user.email=x@x"}, args...), Dir: dir, Stderr: &complaint,
	})
	if err != nil {
		b.t.Fatalf("git %v: %v: %s", args, err, complaint.String())
	}
}

// kept returns the messages and files of all commits that the agent's clone keeps.
func (b *bench) kept(agent string) string {
	b.t.Helper()
	git := agentGit(b.reaper, os.Environ())
	mirror := filepath.Join(b.home(agent), "mirrors", strings.Replace(demo.Repo, "/", "_", 1)+".git")
	out, err := git(b.ctx, mirror, nil, "log", "--name-only", "--format=%s", "--glob=refs/disinto/kept")
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// Work that is on no branch of the forge is pushed to one, in whatever folder a program keeps its clone. Nothing else
// is pushed.
func TestAgentSaves(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	if out := b.save("dev-qwen", dir); out.Result != agents.Done || out.Reason != "" {
		t.Errorf("an empty workspace: got %+v", out)
	}
	remote := strings.Replace(b.URL, "://", "://x:"+b.Tokens[agents.TokenVar("dev-qwen")]+"@", 1) + "/" +
		demo.Repo + ".git"
	clone := filepath.Join(dir, "clone")
	b.git(dir, "clone", "--quiet", remote, clone)
	if out := b.save("dev-qwen", dir); out.Reason != "" || len(b.branches("wip/")) > 0 {
		t.Errorf("a clone without work: got %+v, branches %v", out, b.branches("wip/"))
	}
	b.git(clone, "checkout", "--quiet", "-b", "fix/issue-8")
	b.git(clone, "commit", "--quiet", "--allow-empty", "-m", "Half of it")
	b.git(clone, "checkout", "--quiet", "-b", "idea")
	b.git(clone, "commit", "--quiet", "--allow-empty", "-m", "Another idea")
	b.git(clone, "checkout", "--quiet", "fix/issue-8")
	for name, text := range map[string]string{
		"half.txt": "half", ".git/hooks/pre-push": "#!/bin/sh\nexit 1\n",
		".git/hooks/reference-transaction": "#!/bin/sh\nexit 1\n",
	} {
		if err := os.WriteFile(filepath.Join(clone, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out := b.save("dev-qwen", dir); out.Reason == "" || b.save("dev-qwen", dir).Reason != "" ||
		len(b.branches("wip/")) != 1 {
		t.Errorf("saved twice: got %+v, branches %v", out, b.branches("wip/"))
	}
	if err := os.WriteFile(filepath.Join(clone, "half.txt"), []byte("more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "secrets.txt"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.git(clone, "add", "half.txt")
	library := filepath.Join(dir, "library") // a clone of another repository
	b.git(dir, "init", "--quiet", library)
	b.git(library, "remote", "add", "origin", "https://example.org/some/library.git")
	b.git(library, "commit", "--quiet", "--allow-empty", "-m", "Not ours")
	b.git(dir, "init", "--quiet", filepath.Join(dir, "empty"))
	out := b.save("dev-qwen", dir)
	branches := b.branches("wip/")
	if out.Result != agents.Done || len(branches) != 2 ||
		!strings.HasPrefix(out.Reason, "its work is on wip/dev-qwen/issue-8-") {
		t.Fatalf("got %+v, branches %v\n%s", out, branches, b.log.String())
	}
	b.git(dir, "clone", "--quiet", "--branch", strings.TrimPrefix(out.Reason, "its work is on "), remote,
		filepath.Join(dir, "again"))
	if text := b.read(filepath.Join(dir, "again", "half.txt")); text != "more" {
		t.Errorf("got %q, want more", text)
	}
	// What is in no commit, and on no branch that is checked out, stays on this machine.
	if exists(filepath.Join(dir, "again", "secrets.txt")) {
		t.Error("an untracked file was pushed")
	}
	if kept := b.kept("dev-qwen"); !strings.Contains(kept, "secrets.txt") || !strings.Contains(kept, "Another idea") {
		t.Errorf("got %s, want the untracked file and the other branch", kept)
	}
	b.git(library, "remote", "set-url", "origin", b.URL+"/"+demo.Repo) // now a clone of the factory's
	b.Tokens[agents.TokenVar("dev-qwen")] = "wrong"
	if out := b.save("dev-qwen", dir); out.Result != agents.Failed || !strings.Contains(out.Reason, "library") {
		t.Errorf("a push that the forge refuses: got %+v", out)
	}
}
