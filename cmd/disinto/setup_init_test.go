package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

// A supervisor that is root has its agents under another account, where there is one.
func TestAgentsUser(t *testing.T) {
	for _, tt := range []struct {
		euid      int
		err       error
		user, say string
	}{
		{0, nil, "agent", ""},
		{0, user.UnknownUserError("agent"), "", "useradd"},
		{1000, nil, "", ""},
	} {
		name, note := agentsUser(tt.euid, func(string) (*user.User, error) { return nil, tt.err })
		if name != tt.user || (note != "") != (tt.say != "") || !strings.Contains(note, tt.say) {
			t.Errorf("%d, %v: got %q, %q", tt.euid, tt.err, name, note)
		}
		var b strings.Builder
		if err := firstFile.Execute(&b, initFlags{User: name}); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(b.String(), "[factory]\nuser = \"agent\" "); has != (tt.user != "") {
			t.Errorf("%d, %v: got\n%s", tt.euid, tt.err, b.String())
		}
	}
}

// init creates a factory that check accepts, with only an administrator's token. A second init changes nothing.
func TestInit(t *testing.T) {
	f := newTestForge(t)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "claude"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "FORGE_ADMIN_TOKEN=" + f.adminToken(),
		"ANTHROPIC_API_KEY=sk-not-asked",
	}
	path := filepath.Join(t.TempDir(), "etc", "factory.toml")
	args := []string{"init", "--config", path, "--state", t.TempDir(), "--offline"}
	first := append([]string{
		"--url", f.URL, "--repo", demo.Repo, "--api", "haiku", "--local", "http://127.0.0.1:1/v1",
		"--local-model", "Qwen3.5-Coder",
	}, args[1:]...)

	dry := disinto(t.Context(), environ, append(append([]string{"init"}, first...), "--dry-run")...)
	if dry.code != exitDone || !strings.Contains(dry.stdout, "[threads.llama]") || exists(path) ||
		!strings.HasSuffix(dry.stdout, "\nnext        nothing was done: repeat without --dry-run\n") {
		t.Fatalf("dry run: got %+v", dry)
	}
	got := disinto(t.Context(), environ, append([]string{"init"}, first...)...)
	if got.code != exitDone || !strings.Contains(got.stdout, "its token logs in as review-haiku") {
		t.Fatalf("got %d %s%s", got.code, got.stdout, got.stderr)
	}
	if n := strings.Count(got.stdout, "\nnext "); n != 1 ||
		!strings.HasSuffix(got.stdout, "disinto run, then give an issue the label backlog\n") {
		t.Errorf("got %d next steps, want one, at the end:\n%s", n, got.stdout)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`["dev-qwen3-5-coder"]`, `["review-haiku"]`, `"$FORGE_TOKEN"`, `cli = "claude"`} {
		if !strings.Contains(string(written), want) {
			t.Errorf("want %s in\n%s", want, written)
		}
	}
	var tokens []string
	for _, name := range []string{"FORGE_TOKEN", "FORGE_TOKEN_DEV_QWEN3_5_CODER", "FORGE_TOKEN_REVIEW_HAIKU"} {
		token := secretOf(t, path, name)
		if !f.lives(token) || strings.Contains(got.stdout+got.stderr+string(written), token) {
			t.Errorf("want the token %s valid, and not printed", name)
		}
		tokens = append(tokens, token)
	}
	// A second init with another model keeps the existing file.
	got = disinto(t.Context(), environ, append(args, "--url", f.URL+"/", "--repo", demo.Repo, "--api", "opus")...)
	again, err := os.ReadFile(path)
	if err != nil || got.code != exitDone || string(again) != string(written) {
		t.Errorf("second init: got error %v, exit code %d, %s%s, want an unchanged file:\n%s", err, got.code, got.stdout,
			got.stderr, again)
	}
	for flag, other := range map[string]string{"--url": "http://elsewhere", "--repo": "other/repo"} {
		got := disinto(t.Context(), environ, append(args, flag, other)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, "correct it there, or delete the file") {
			t.Errorf("%s %s: got %d %s%s", flag, other, got.code, got.stdout, got.stderr)
		}
	}
	// After any failure, the last line says how to continue.
	for why, tt := range map[string]struct{ environ, args []string }{
		"s, and repeat disinto check until it finds none": {append([]string{"PATH=/nowhere"}, environ[1:]...), args},
		" or correct the command, then run disinto init again: it continues from there": {environ, []string{
			"init", "--config", path + ".other", "--url", "http://127.0.0.1:1", "--repo", demo.Repo, "--api", "sonnet",
		}},
	} {
		got := disinto(t.Context(), tt.environ, tt.args...)
		if got.code != exitFailed || !strings.HasSuffix(got.stdout, "next        fix the problem"+why+"\n") {
			t.Errorf("want the last line %q: got %+v", why, got)
		}
	}
	for i, name := range []string{"FORGE_TOKEN", "FORGE_TOKEN_DEV_QWEN3_5_CODER", "FORGE_TOKEN_REVIEW_HAIKU"} {
		if secretOf(t, path, name) != tokens[i] {
			t.Errorf("second init: %s changed", name)
		}
	}
}

// Without a terminal, init names every missing option and writes nothing.
func TestInitAsks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "factory.toml")
	for _, tt := range []struct {
		args string
		says []string
	}{
		{"", []string{"use --url", "use --repo", "use --api MODEL or --local URL"}},
		{"--url http://h --repo no --api x", []string{`cannot use "no" as a repository`}},
		{"--url http://h --repo a/b --api x --cli emacs", []string{`cannot use "emacs" as a CLI`}},
		{"--url http://h --repo a/b --api \"x", []string{`cannot write "\"x" into a factory.toml`}},
	} {
		got := disinto(t.Context(), nil, append([]string{"init", "--config", path}, strings.Fields(tt.args)...)...)
		for _, want := range tt.says {
			if got.code != exitUsage || !strings.Contains(got.stderr, want) {
				t.Errorf("%q: got exit code %d, stderr %q, want %q", tt.args, got.code, got.stderr, want)
			}
		}
		if exists(path) {
			t.Fatalf("%q: wrote %s", tt.args, path)
		}
	}
}
