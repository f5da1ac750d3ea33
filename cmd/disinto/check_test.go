package main

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
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

// environ is the environment of a factory on the demo's forge: every token by its name, changed as a test wants it. An
// empty value takes a variable away.
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

// file writes the demo's factory.toml for this forge.
func (f *testForge) file(state string, edits ...string) (path string) {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	text := demo.Config(f.URL, state, []string{self, "demo-agent"})
	return factoryFile(f.t, strings.NewReplacer(edits...).Replace(text))
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// checkProblems are the lines that check calls wrong, in one line each.
func checkProblems(t *testing.T, environ []string, path string) (lines []string, code int) {
	t.Helper()
	got := disinto(t.Context(), environ, "check", "--config", path, "--json")
	if got.stderr != "" {
		t.Errorf("stderr %q, want nothing", got.stderr)
	}
	var answer struct{ Findings []finding }
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatalf("stdout is no JSON: %v", err)
	}
	for _, f := range answer.Findings {
		if f.Problem {
			lines = append(lines, f.Text)
		}
	}
	return lines, got.code
}

// Everything that can be wrong is said in one line that tells what to do, and all of it at once.
func TestCheck(t *testing.T) {
	f := newTestForge(t)
	readOnly := f.addReader()
	tests := []struct {
		name    string
		environ map[string]string
		edits   []string // pairs: what stands there in place of what
		want    []string // each in a line of its own, in any order
	}{
		{name: "nothing is wrong"},
		{
			name:  "broken TOML",
			edits: []string{"[forge]", "[forge"},
			want:  []string{"factory.toml:2: expected '.' or ']' to end table name"},
		},
		{
			name:  "unknown keys and contradictions, all of them",
			edits: []string{"max_concurrent = 2", "max_concurrent = 0\nslots = 2", `"dev-kimi", `, `"dev-kimi", "review-sonnet", `},
			want:  []string{"slots: unknown key", "max_concurrent:", "review-sonnet"},
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
			edits: []string{f.URL, "http://" + nobody(t)},
			want:  []string{"cannot reach the forge at http://"},
		},
		{
			name:  "no such repository",
			edits: []string{`repos = ["` + demo.Repo + `"]`, `repos = ["ada/nowhere"]`},
			want:  []string{"cannot see the repository ada/nowhere"},
		},
		{
			name:    "an account that may only read",
			environ: map[string]string{"FORGE_TOKEN": readOnly},
			want:    []string{"cannot write to " + demo.Repo},
		},
		{
			name:    "an agent whose login differs",
			environ: map[string]string{"FORGE_TOKEN_DEV_QWEN": f.Tokens[agents.TokenVar("dev-kimi")]},
			want:    []string{`dev-qwen: its token belongs to dev-kimi: give it the token of dev-qwen, or set forge_user = "dev-kimi"`},
		},
		{
			name:  "command not found",
			edits: []string{"[roles.dev]\non = \"issue\"\ncommand = [", "[roles.dev]\non = \"issue\"\ncommand = [\"no-such-agent\", "},
			want:  []string{"role dev: cannot find no-such-agent: no such program in PATH"},
		},
		{
			name:  "a backend that does not answer",
			edits: []string{"backend = \"local\"", "backend = \"local\"\nbase_url = \"http://" + nobody(t) + "/v1\""},
			want:  []string{"llama: no answer from http://"},
		},
		{
			name: "several at once",
			edits: []string{
				"backend = \"local\"", "backend = \"local\"\nbase_url = \"http://" + nobody(t) + "/v1\"",
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
				t.Errorf("exit code %d, want %d", code, want)
			}
			if len(lines) != len(tt.want) {
				t.Errorf("%d problems, want %d", len(lines), len(tt.want))
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
					t.Errorf("nothing says %q", want)
				}
			}
			for _, line := range lines {
				t.Log(line)
				if strings.Contains(line, "\n") {
					t.Errorf("more than one line: %q", line)
				}
				for name, token := range f.Tokens {
					if strings.Contains(line, token) {
						t.Errorf("the token %s is in %q", name, line)
					}
				}
			}
		})
	}
}

// The labels that were missing are there after a check.
func TestCheckCreatesLabels(t *testing.T) {
	f := newTestForge(t)
	if lines, code := checkProblems(t, f.environ(nil), f.file(t.TempDir())); code != exitDone {
		t.Fatalf("exit code %d: %q", code, lines)
	}
	var labels []struct{ Name string }
	f.get("/labels", &labels)
	if len(labels) < 5 {
		t.Errorf("labels %v", labels)
	}
}

func TestCheckBackendAnswers(t *testing.T) {
	f := newTestForge(t)
	backend := httptest.NewServer(http.NotFoundHandler()) // whatever it answers, it is there
	t.Cleanup(backend.Close)
	path := f.file(t.TempDir(), "backend = \"local\"", "backend = \"local\"\nbase_url = \""+backend.URL+"/v1\"")
	got := disinto(t.Context(), f.environ(nil), "check", "--config", path)
	if got.code != exitDone || !strings.Contains(got.stdout, "llama: "+backend.URL+"/v1 answers") {
		t.Errorf("exit code %d\n%s", got.code, got.stdout)
	}
}

func TestCheckWithoutFile(t *testing.T) {
	t.Chdir(t.TempDir())
	got := disinto(t.Context(), nil, "check")
	want := "wrong  file  cannot read factory.toml: there is no such file; write one\n             (factory.toml.example shows how) or say --config\n"
	if got.code != exitFailed || got.stdout != want {
		t.Errorf("exit code %d, stdout %q, want %q", got.code, got.stdout, want)
	}
}
