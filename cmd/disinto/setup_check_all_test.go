package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// One run of check reports everything: mistakes in the file keep nothing from being checked that is right of it.
func TestCheckAllAtOnce(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	owner, name, _ := strings.Cut(demo.Repo, "/")
	if err := f.forge.AddCollaborator(owner, name, "dev-kimi", "read"); err != nil {
		t.Fatal(err)
	}
	dead := deadAddress(t)
	edits := []string{
		"[factory]\n", "[factory]\nstop_grase = \"20s\"\nmax_log = 7\n",
		"backend = \"local\"", "backend = \"local\"\nbase_url = \"http://" + dead + "/v1\"",
		"[roles.dev]\non = \"issue\"\ncommand = [", "[roles.dev]\non = \"issue\"\ncommand = [\"no-such-agent\", ",
	}
	want := []string{
		"stop_grase: unknown key", "max_log", "secrets.env: others can read it",
		"dev-kimi: its account may only read " + demo.Repo, "no answer from http://" + dead, "cannot find no-such-agent",
	}
	for _, broken := range []string{"", "\n[nomad]\naddress = http://nomad\n"} { // a syntax error besides
		path := f.file(t.TempDir(), edits...)
		text := read(t, path) + broken
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		secrets := filepath.Join(filepath.Dir(path), "secrets.env")
		if err := os.WriteFile(secrets, []byte("OTHER=1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		lines, code := checkProblems(t, f.environ(nil), path)
		all := strings.Join(lines, "\n")
		for _, words := range want {
			if code != exitFailed || strings.Count(all, words) != 1 {
				t.Errorf("got %d, want once %q in\n%s", code, words, all)
			}
		}
		if extra := len(lines) - len(want); broken == "" && extra != 0 || broken != "" && extra != 1 {
			t.Errorf("got %d lines more than expected:\n%s", extra, all)
		}
	}
}

// check accepts any file without a panic: each line of the example in turn has a wrong value, or is missing.
func TestCheckHalfFiles(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../factory.toml.example")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(example), "\n")
	step := 3
	if storms() {
		step = 1
	}
	environ := []string{"PATH=/nowhere", "FORGE_URL=http://forge", "FORGE_TOKEN=x"}
	for n := 0; n < len(lines); n += step {
		key, _, isKey := strings.Cut(strings.TrimPrefix(lines[n], "# "), " = ")
		if !isKey || strings.Contains(key, " ") {
			continue
		}
		for _, wrong := range []string{key + " = [[1]]", key + " = ", "", "[" + key + "]"} {
			changed := slices.Clone(lines)
			changed[n] = wrong
			path := factoryFile(t, strings.Join(changed, "\n"))
			got := disinto(t.Context(), environ, "check", "--offline", "--config", path, "--state", t.TempDir())
			if got.stdout == "" || strings.Contains(got.stderr, "panic") {
				t.Errorf("line %d as %q: got %+v", n+1, wrong, got)
			}
		}
	}
}

// After a repository was added to repos, check names every account that lacks access to it in one run, and --fix gives
// the access with the token that may do it. No token changes.
func TestCheckFixAccess(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	path := f.file(t.TempDir())
	second := f.secondRepo(path)
	logins := []string{"dev-kimi", "dev-qwen", "gardener-qwen", "planner-sonnet", "review-sonnet"}
	lines, code := checkProblems(t, f.environ(nil), path)
	if all := strings.Join(lines, "\n"); code != exitFailed || len(lines) != 2 ||
		!strings.Contains(all, "make "+strings.Join(logins, ", ")+" collaborators") ||
		!strings.Contains(all, "cannot see the repository "+second) || !strings.Contains(all, "or add disinto") {
		t.Errorf("got %d\n%s", code, all)
	}
	for _, login := range logins[:2] { // now somebody sees it, and each of the others is named
		owner, name, _ := strings.Cut(second, "/")
		if err := f.forge.AddCollaborator(owner, name, login, "read"); err != nil {
			t.Fatal(err)
		}
	}
	lines, _ = checkProblems(t, f.environ(nil), path)
	for _, login := range logins {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, login+": its account ") }) {
			t.Errorf("check does not name %s:\n%s", login, strings.Join(lines, "\n"))
		}
	}
	got := disinto(t.Context(), f.environ(nil), "check", "--fix", "--config", path) // the supervisor may not do it
	if got.code != exitFailed ||
		!strings.Contains(got.stdout, "set $FORGE_ADMIN_TOKEN to the token of an administrator") {
		t.Errorf("--fix without an administrator: got %d\n%s", got.code, got.stdout)
	}
	environ := f.environ(map[string]string{"FORGE_ADMIN_TOKEN": f.adminToken()})
	got = disinto(t.Context(), environ, "check", "--fix", "--config", path)
	if got.code != exitDone || strings.Count(got.stdout, "may now write to "+second) != len(logins)+1 {
		t.Errorf("--fix: got %d\n%s", got.code, got.stdout)
	}
	if lines, code := checkProblems(t, f.environ(nil), path); code != exitDone {
		t.Errorf("afterwards: got %d %q", code, lines)
	}
	for _, login := range append(logins, "disinto") {
		var may struct{ Permission string }
		api := rest.API{URL: f.URL, Token: f.adminToken()}
		err := api.Get(t.Context(), "/repos/"+second+"/collaborators/"+login+"/permission", &may)
		if err != nil || may.Permission != "write" {
			t.Errorf("%s: got %q, %v, want write", login, may.Permission, err)
		}
	}
}

// A parent of the state folder that belongs to a third account makes every start fail, and check says so.
func TestCheckFolders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a folder to another account")
	}
	f := newTestForge(t)
	third := filepath.Join(t.TempDir(), "third")
	if err := os.Mkdir(third, 0o755); err != nil {
		t.Fatal(err)
	}
	path := f.file(filepath.Join(third, "state"), "[factory]\n", "[factory]\nuser = \"nobody\"\n")
	for owner, fails := range map[int]bool{0: false, 65533: true} {
		if err := os.Chown(third, owner, owner); err != nil {
			t.Fatal(err)
		}
		lines, _ := checkProblems(t, f.environ(nil), path)
		found := slices.ContainsFunc(lines, func(l string) bool {
			return strings.Contains(l, "cannot start: cannot create "+third) && strings.Contains(l, "permission denied")
		})
		if found != fails || exists(filepath.Join(third, "state")) {
			t.Errorf("owner %d: got %q; check wrote something: %v", owner, lines, exists(filepath.Join(third, "state")))
		}
	}
}
