package main

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge/rest"
)

// factoryFile writes a factory.toml.
func factoryFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "factory.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// environ returns the environment of a factory on the demo's forge, with every token. changes replaces variables; an
// empty value removes one.
func (f *testForge) environ(changes map[string]string) []string {
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	tokens := maps.Clone(f.Tokens)
	maps.Copy(tokens, changes)
	for name, token := range tokens {
		if token != "" {
			environ = append(environ, name+"="+token)
		}
	}
	return environ
}

// file writes the demo's factory.toml for this forge, with edits.
func (f *testForge) file(state string, edits ...string) (path string) {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	text := demo.Config(f.URL, state, "", []string{self, "demo-agent"}, false)
	return factoryFile(f.t, strings.NewReplacer(edits...).Replace(text))
}

// deadAddress returns an address where nothing listens, at which the test may listen later. A bound socket reserves
// it: without that, another test once took the port first.
func deadAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	// With SO_REUSEADDR on both sockets, a listener may share the port of a socket that does not listen. The kernel
	// never assigns such a port to a socket that binds to port 0.
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + strconv.Itoa(bound.(*syscall.SockaddrInet4).Port)
}

// checkProblems returns the problems that check reports, one line each.
func checkProblems(t *testing.T, environ []string, path string) (lines []string, code int) {
	t.Helper()
	got := disinto(t.Context(), environ, "check", "--config", path, "--json")
	if got.stderr != "" {
		t.Errorf("stderr %q, want nothing", got.stderr)
	}
	var answer struct{ Findings []screen.Finding }
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatalf("stdout is not JSON: %v", err)
	}
	for _, f := range answer.Findings {
		if f.Problem {
			lines = append(lines, f.Text)
		}
	}
	return lines, got.code
}

// check reports all problems at once, each in one line that says what to do.
func TestCheck(t *testing.T) {
	f := newTestForge(t)
	readOnly := f.addReader()
	tests := []struct {
		name    string
		environ map[string]string
		edits   []string // pairs of old and new text
		want    []string // each on its own line, in any order
	}{
		{name: "nothing is wrong"},
		{
			name:  "broken TOML",
			edits: []string{"[forge]", "[forge"},
			want:  []string{"factory.toml:1: [forge is not closed: want ] at the end"},
		},
		{
			name: "unknown keys and contradictions, all of them",
			edits: []string{
				"max_concurrent = 2", "max_concurrent = 0\nslots = 2", `"dev-kimi", `,
				`"dev-kimi", "review-sonnet", `,
			},
			want: []string{"slots: unknown key", "max_concurrent:", "review-sonnet"},
		},
		{
			name:    "a variable that is not set",
			environ: map[string]string{"FORGE_TOKEN": ""},
			want:    []string{"forge.token: $FORGE_TOKEN is not set"},
		},
		{
			name:    "wrong token",
			environ: map[string]string{"FORGE_TOKEN": "0000000000000000000000000000000000000000"},
			want:    []string{"cannot use the forge token"},
		},
		{
			name:  "unreachable forge",
			edits: []string{f.URL, "http://" + deadAddress(t)},
			want:  []string{"cannot reach the forge at http://"},
		},
		{
			name:  "no such repository",
			edits: []string{`repos = ["` + demo.Repo + `"]`, `repos = ["ada/nowhere"]`},
			want: []string{
				"cannot see the repository ada/nowhere",
				"no agent can see ada/nowhere: if its name is right, make dev-kimi, dev-qwen, gardener-qwen, planner-sonnet, " +
					"review-sonnet collaborators",
			},
		},
		{
			name:    "an account that may only read",
			environ: map[string]string{"FORGE_TOKEN": readOnly},
			want:    []string{"cannot write to " + demo.Repo},
		},
		{
			name:    "an agent whose login differs",
			environ: map[string]string{"FORGE_TOKEN_DEV_QWEN": f.Tokens[agents.TokenVar("dev-kimi")]},
			want: []string{`dev-qwen: its token belongs to dev-kimi: give it the token of dev-qwen, or set forge_user = ` +
				`"dev-kimi"`},
		},
		{
			name: "command not found",
			edits: []string{
				"[roles.dev]\non = \"issue\"\ncommand = [",
				"[roles.dev]\non = \"issue\"\ncommand = [\"no-such-agent\", ",
			},
			want: []string{"role dev: cannot find no-such-agent: no such program in PATH"},
		},
		{
			name:  "a backend that does not answer",
			edits: []string{"backend = \"local\"", "backend = \"local\"\nbase_url = \"http://" + deadAddress(t) + "/v1\""},
			want:  []string{"llama: no answer from http://"},
		},
		{
			name: "several at once",
			edits: []string{
				"backend = \"local\"", "backend = \"local\"\nbase_url = \"http://" + deadAddress(t) + "/v1\"",
				"[roles.dev]\non = \"issue\"\ncommand = [", "[roles.dev]\non = \"issue\"\ncommand = [\"no-such-agent\", ",
			},
			environ: map[string]string{"FORGE_TOKEN": "0000000000000000000000000000000000000000"},
			want:    []string{"cannot use the forge token", "no-such-agent", "no answer from"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, code := checkProblems(t, f.environ(tt.environ), f.file(t.TempDir(), tt.edits...))
			if want := min(len(tt.want), 1); code != want {
				t.Errorf("got exit code %d, want %d", code, want)
			}
			if len(lines) != len(tt.want) {
				t.Errorf("got %d problems, want %d", len(lines), len(tt.want))
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
					t.Errorf("no line contains %q", want)
				}
			}
			for _, line := range lines {
				t.Log(line)
				if strings.Contains(line, "\n") {
					t.Errorf("a problem has more than one line: %q", line)
				}
				for name, token := range f.Tokens {
					if strings.Contains(line, token) {
						t.Errorf("a problem contains the token %s: %q", name, line)
					}
				}
			}
		})
	}
}

// check reports agents under the supervisor's account as a note, not as a problem.
func TestCheckNote(t *testing.T) {
	f := newTestForge(t)
	path := f.file(t.TempDir(), "[factory]\n", "[factory]\nsandbox = \"off\"\n")
	note := regexp.MustCompile(`(?m)^note +agents +agents run under the supervisor's own account`)
	got := disinto(t.Context(), f.environ(nil), "check", "--config", path)
	if got.code != exitDone || !note.MatchString(got.stdout) {
		t.Errorf("got exit code %d\n%s", got.code, got.stdout)
	}
	got = disinto(t.Context(), f.environ(nil), "check", "--json", "--config", path)
	var said struct{ Findings []screen.Finding }
	if err := json.Unmarshal([]byte(got.stdout), &said); err != nil {
		t.Fatal(err)
	}
	shared := screen.Finding{About: "agents", Note: true, Text: sharedAccount}
	if !slices.ContainsFunc(said.Findings, func(f screen.Finding) bool { return reflect.DeepEqual(f, shared) }) {
		t.Errorf("got findings %+v", said.Findings)
	}
}

// check finds an agent whose account or token lacks a right, before the agent works for an hour and cannot push.
func TestCheckAgentRights(t *testing.T) {
	f := newTestForge(t)
	owner, name, _ := strings.Cut(demo.Repo, "/")
	set := func(permission string) {
		t.Helper()
		if err := f.forge.AddCollaborator(owner, name, "dev-kimi", permission); err != nil {
			t.Fatal(err)
		}
	}
	set("read")
	lines, code := checkProblems(t, f.environ(nil), f.file(t.TempDir()))
	want := "dev-kimi: its account may only read " + demo.Repo + "; make it a collaborator with write access"
	if code != exitFailed || !slices.Equal(lines, []string{want}) {
		t.Errorf("got exit code %d, %q, want %q", code, lines, want)
	}
	if storms() { // a supervisor holds the agent for the same reason; TestRunHolds has two other reasons
		state := t.TempDir()
		r := f.startRun(state, nil, f.justOne()...)
		eventually(t, "dev-kimi is held in the repository", func() bool {
			return strings.Contains(r.read(r.stderr), "[dev-kimi] held in "+demo.Repo+": "+want[len("dev-kimi: "):])
		})
	}
	set("write")
	if lines, code := checkProblems(t, f.environ(nil), f.file(t.TempDir())); code != exitDone {
		t.Errorf("got exit code %d, %q", code, lines)
	}
}

// An agent without access to one of two repositories works in the other one, and check only says so while other agents
// do its work there. It also says where nothing tests what agents write.
func TestCheckSecondRepo(t *testing.T) {
	f := newTestForge(t)
	err := f.forge.AddRepo(t.Context(), "ada", "site", map[string]string{"README.md": "# site\n"})
	for _, who := range []string{"disinto", "dev-qwen", "review-sonnet", "gardener-qwen", "planner-sonnet"} {
		err = errors.Join(err, f.forge.AddCollaborator("ada", "site", who, "write"))
	}
	var main struct{ Commit struct{ ID string } }
	f.get("/branches/main", &main)
	status := map[string]any{"context": "ci", "state": "success"}
	human := rest.API{URL: f.URL, Token: f.HumanToken}
	err = errors.Join(err, human.Post(t.Context(), "/repos/"+demo.Repo+"/statuses/"+main.Commit.ID, status, nil))
	if err != nil {
		t.Fatal(err)
	}
	edits := []string{`["` + demo.Repo + `"]`, `["` + demo.Repo + `", "ada/site"]`}
	path := f.file(t.TempDir(), edits...)
	lines, code := checkProblems(t, f.environ(nil), path)
	if code != exitDone {
		t.Errorf("got exit code %d, %q", code, lines)
	}
	got := disinto(t.Context(), f.environ(nil), "check", "--config", path).stdout
	for _, want := range []string{
		"dev-kimi does not work in ada/site: its account may only read ada/site",
		`ada/site has neither checks on the forge nor verify: nothing tests what agents write before it is merged; set ` +
			`verify in [repos."ada/site"]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swant in it %s", got, want)
		}
	}
	if strings.Contains(got, "dev-qwen does not work") || strings.Contains(got, demo.Repo+" has neither") {
		t.Errorf("got\n%s", got)
	}
	path = f.file(t.TempDir(), append(edits, "[factory]", "[repos.\"ada/site\"]\nverify = [[\"true\"]]\n"+
		"agents = [\"dev-qwen\", \"gardener-qwen\", \"planner-sonnet\"]\n[factory]")...)
	got = disinto(t.Context(), f.environ(nil), "check", "--config", path).stdout
	const only = "ada/site has no checks on the forge: only verify"
	if strings.Contains(got, "dev-kimi does not") || !strings.Contains(got, only) {
		t.Errorf("with agents and verify: got\n%s", got)
	}
}

// check reports missing labels and hooks. Only --fix creates them.
func TestCheckFix(t *testing.T) {
	f := newTestForge(t)
	count := func(path string) int {
		var all []struct{ ID int64 }
		f.get(path, &all)
		return len(all)
	}
	path := f.file(t.TempDir(),
		"[forge]", "[forge]\nwebhook_secret = \"a secret\"", "[factory]", "[factory]\nlisten_hooks = \"127.0.0.1:7071\"")
	environ := f.environ(map[string]string{"FORGE_TOKEN": f.adminToken()})
	labels, hooks := count("/labels"), count("/hooks")
	const url = "http://127.0.0.1:7071/v1/hook"
	got := disinto(t.Context(), environ, "check", "--config", path)
	if got.code != exitFailed || !strings.Contains(got.stdout, "run or check --fix will create in-progress") {
		t.Errorf("got exit code %d\n%s", got.code, got.stdout)
	}
	if lines, _ := checkProblems(t, environ, path); len(lines) != 1 ||
		!strings.Contains(lines[0], "has no active web hook to "+url) {
		t.Errorf("got problems %q", lines)
	}
	if l, h := count("/labels"), count("/hooks"); l != labels || h != hooks {
		t.Errorf("without --fix: created %d labels and %d hooks", l-labels, h-hooks)
	}
	for range 2 {
		got = disinto(t.Context(), environ, "check", "--fix", "--config", path)
		if got.code != exitDone || !strings.Contains(got.stdout, "registered, to "+url) {
			t.Errorf("got exit code %d\n%s", got.code, got.stdout)
		}
		if l, h := count("/labels"), count("/hooks"); l <= labels || h != hooks+1 {
			t.Errorf("--fix created %d labels and %d hooks", l-labels, h-hooks)
		}
	}
	got = disinto(t.Context(), environ, "check", "--config", path)
	if got.code != exitDone || !strings.Contains(got.stdout, "all exist") ||
		!strings.Contains(got.stdout, "has a hook to "+url) {
		t.Errorf("after --fix: got exit code %d\n%s", got.code, got.stdout)
	}
}

// --fix registers the control room as an application of the forge, once, and prints the line for factory.toml.
// Without the right to do that, it prints the steps to do by hand. That is not a problem, because people can sign in
// with the token.
func TestCheckFixSignIn(t *testing.T) {
	f := newTestForge(t)
	path := f.file(t.TempDir(), "[factory]",
		"[factory]\nlisten_web = \"127.0.0.1:7080\"\nlisten_token = \"0123456789abcdef\"")
	environ := f.environ(map[string]string{"FORGE_TOKEN": f.adminToken()})
	if got := disinto(t.Context(), environ, "check", "--config", path); strings.Contains(got.stdout, "web_client_id") {
		t.Errorf("check without --fix registers the application\n%s", got.stdout)
	}
	line := regexp.MustCompile(`web_client_id = "(\S+)"`)
	var ids []string
	for range 2 {
		got := disinto(t.Context(), environ, "check", "--fix", "--config", path)
		m := line.FindStringSubmatch(got.stdout)
		if got.code != exitDone || m == nil {
			t.Fatalf("got exit code %d\n%s", got.code, got.stdout)
		}
		ids = append(ids, m[1])
	}
	if ids[0] != ids[1] {
		t.Errorf("got client ids %q, want the same twice", ids)
	}
	narrow, err := f.forge.AddToken(forgeAdmin, "write:repository", "write:issue", "read:user")
	if err != nil {
		t.Fatal(err)
	}
	path = f.file(t.TempDir(), "[factory]",
		"[factory]\nlisten_web = \"127.0.0.1:7081\"\nlisten_token = \"0123456789abcdef\"")
	got := disinto(t.Context(), f.environ(map[string]string{"FORGE_TOKEN": narrow}), "check", "--fix", "--config", path)
	if got.code != exitDone || !strings.Contains(strings.Join(strings.Fields(got.stdout), " "),
		"redirect URI http://127.0.0.1:7081/signin/callback") {
		t.Errorf("with a narrow token: got exit code %d\n%s", got.code, got.stdout)
	}
}

// A factory can work without an administrator's token. --fix then prints the steps to do by hand.
func TestCheckHookForbidden(t *testing.T) {
	f := newTestForge(t)
	path := f.file(t.TempDir(),
		"[forge]", "[forge]\nwebhook_secret = \"a secret\"", "[factory]", "[factory]\nlisten_hooks = \"127.0.0.1:7071\"")
	if lines, code := checkProblems(t, f.environ(nil), path); code != exitDone {
		t.Errorf("got exit code %d: %q", code, lines)
	}
	got := disinto(t.Context(), f.environ(nil), "check", "--fix", "--config", path, "--json")
	if got.code != exitFailed ||
		!strings.Contains(got.stdout, "or add the hook by hand: to http://127.0.0.1:7071/v1/hook") {
		t.Errorf("got exit code %d\n%s", got.code, got.stdout)
	}
	path = f.file(t.TempDir(), "[forge]", "[forge]\nwebhook_secret = \"a secret\"", "[factory]",
		"[factory]\nlisten_hooks = \":7071\"")
	if lines, code := checkProblems(t, f.environ(nil), path); code != exitFailed || len(lines) != 1 ||
		!strings.Contains(lines[0], "set [factory] hooks_url") {
		t.Errorf("without a host: got exit code %d, %q", code, lines)
	}
}

func TestCheckBackendAnswers(t *testing.T) {
	f := newTestForge(t)
	backend := httptest.NewServer(http.NotFoundHandler()) // any answer counts
	t.Cleanup(backend.Close)
	path := f.file(t.TempDir(), "backend = \"local\"", "backend = \"local\"\nbase_url = \""+backend.URL+"/v1\"")
	got := disinto(t.Context(), f.environ(nil), "check", "--config", path)
	if got.code != exitDone || !strings.Contains(got.stdout, "llama: "+backend.URL+"/v1 answers") {
		t.Errorf("got exit code %d\n%s", got.code, got.stdout)
	}
	if strings.Count(got.stdout, "ended by their shims") != 1 {
		t.Errorf("check does not say once how sessions are contained:\n%s", got.stdout)
	}
}

// The error names both places, because in a container the file is mounted at one of them. Docker creates a directory
// for a mount whose file does not exist.
func TestCheckWithoutFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	got := disinto(t.Context(), nil, "check")
	want := "wrong  file  cannot read the configuration: there is neither " + filepath.Join(dir, "factory.toml") +
		" nor /etc/disinto/factory.toml; write one, mount it there, or use --config\n"
	if got.code != exitFailed || got.stdout != want {
		t.Errorf("got exit code %d, stdout %q, want %q", got.code, got.stdout, want)
	}
	if err := os.Mkdir("factory.toml", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "simulate", "hire-an-agent dev-x"} {
		got := disinto(t.Context(), nil, strings.Fields(command)...)
		if text := got.stdout + got.stderr; got.code != exitFailed ||
			!strings.Contains(text, "it is a directory, which Docker creates") {
			t.Errorf("%s: got exit code %d, %s", command, got.code, text)
		}
	}
}

// check starts each agent CLI in its sandbox, as a session would. One that is found through links, beside what it
// needs, starts; one that needs a file elsewhere does not, and check says which with the CLI's own words.
func TestCheckStartsCLIs(t *testing.T) {
	f := newTestForge(t)
	if _, err := process.FindSandbox(); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	elsewhere := filepath.Join(root, "elsewhere")
	for path, text := range map[string]string{
		"lib/node_modules/x/bin/claude.js": "#!/bin/sh\ncat " + root + "/lib/node_modules/x/version\n",
		"lib/node_modules/x/version":       "9.9.9 (Claude Code)\n",
		"lib/node_modules/y/bin/codex.js": "#!/bin/sh\ncat " + elsewhere + " || " +
			`{ echo "Error: Missing $0's dependency" >&2; echo "}" >&2; exit 1; }` + "\n",
		"elsewhere": "1.0.0\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(root, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"claude": "x/bin/claude.js", "codex": "y/bin/codex.js"} {
		if err := os.Symlink("../lib/node_modules/"+target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	path := f.file(t.TempDir(),
		"[roles.dev]\non = \"issue\"\ncommand", "[roles.dev]\non = \"issue\"\ncli = \"claude\"#",
		"[roles.review]\non = \"review\"\ncommand",
		"[roles.review]\non = \"review\"\ncli = \"codex\"#")
	environ := append(f.environ(nil), "PATH="+bin+":"+os.Getenv("PATH"))
	got := disinto(t.Context(), environ, "check", "--offline", "--config", path)
	for _, want := range []string{
		"dev: claude starts in its sandbox: 9.9.9 (Claude Code)",
		"role review: codex does not start in its sandbox: codex: exit status 1; the sandbox denies access to ",
		"dependency",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("got\n%s, want %q", got.stdout, want)
		}
	}
}

// check reports a repository to which no agent can push the branch of an issue, and one without a commit, once.
func TestCheckRepositories(t *testing.T) {
	f := newTestForge(t)
	owner, _, _ := strings.Cut(demo.Repo, "/")
	token, err := f.forge.AddToken(owner)
	if err != nil {
		t.Fatal(err)
	}
	human := rest.API{URL: f.URL, Token: token}
	for path, form := range map[string]map[string]any{
		"/repos/" + demo.Repo + "/branches": {"new_branch_name": "fix"},
		"/user/repos":                       {"name": "bare"},
	} {
		if err := human.Post(t.Context(), path, form, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, login := range []string{"disinto", "dev-qwen", "dev-kimi", "gardener-qwen", "planner-sonnet", "review-sonnet"} {
		if err := f.forge.AddCollaborator(owner, "bare", login, "write"); err != nil {
			t.Log(err)
		}
	}
	path := f.file(t.TempDir(), `repos = ["`+demo.Repo+`"]`, `repos = ["`+demo.Repo+`", "`+owner+`/bare"]`)
	got := disinto(t.Context(), f.environ(nil), "check", "--fix", "--config", path)
	lines, code := checkProblems(t, f.environ(nil), path)
	want := []string{
		owner + "/bare is empty: push a first commit to it",
		demo.Repo + " has a branch named fix, so git cannot create fix/issue-1: rename or delete it",
	}
	if code != exitFailed || !slices.Equal(lines, want) {
		t.Errorf("got exit code %d, %q\n%s", code, lines, got.stdout)
	}
}
