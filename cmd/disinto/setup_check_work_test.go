package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// paidFactory returns a factory.toml whose agents run claude and codex on paid backends.
func paidFactory(api string) string {
	return `
[forge]
url = "http://127.0.0.1:1"
token = "t"
repos = ["o/r"]

[threads.api]
backend = "anthropic"
base_url = "` + api + `"
agents = ["dev-a", "review-b"]

[agents.dev-a]
token = "x"
[agents.review-b]
token = "y"

[roles.dev]
cli = "claude"
[roles.review]
on = "review"
cli = "codex"
`
}

// check reports configurations in which no work would be done: no agent, none that takes issues, a CLI without a
// credential, a key that the backend refuses. With --offline it sends no request.
func TestCheckWork(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if key != "" {
			asked = append(asked, r.URL.Path+" "+key)
		}
		if key == "revoked" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	home := t.TempDir()
	path := "PATH=" + os.Getenv("PATH")
	for _, tt := range []struct {
		name    string
		text    string
		environ []string
		args    string
		says    []string
		not     []string
	}{
		{
			name: "no agents", text: "[forge]\nurl = \"http://127.0.0.1:1\"\ntoken = \"t\"\nrepos = [\"o/r\"]\n" +
				"[threads.api]\nbackend = \"anthropic\"\nagents = []\n",
			args: "--offline", says: []string{"does nothing without"},
		},
		{
			name: "only reviewers", text: strings.ReplaceAll(strings.Replace(paidFactory(server.URL), `"dev-a", `, "", 1),
				"[agents.dev-a]\ntoken = \"x\"\n", ""),
			environ: []string{"OPENAI_API_KEY=good"}, args: "--offline", says: []string{"none of them takes issues"},
		},
		{
			name: "no credential", text: paidFactory(server.URL),
			says: []string{
				"dev-a: claude finds no credential: set one of", "ANTHROPIC_API_KEY",
				"review-b: codex finds no credential",
			},
		},
		{
			name: "a key that is refused", text: paidFactory(server.URL),
			environ: []string{"ANTHROPIC_API_KEY=revoked", "OPENAI_API_KEY=good"},
			says:    []string{"refuses $ANTHROPIC_API_KEY (401 Unauthorized)"},
			not:     []string{"revoked", "$OPENAI", "no credential"},
		},
		{
			name: "offline", text: paidFactory(server.URL), args: "--offline",
			environ: []string{"ANTHROPIC_API_KEY=revoked", "OPENAI_API_KEY=good"}, not: []string{"refuses", "no answer"},
		},
		{ // on Nomad, this machine need not have a session's program, account or login
			name: "elsewhere", args: "--offline",
			text: strings.NewReplacer("[agents.dev-a]", "executor = \"nomad\"\n[agents.dev-a]\nuser = \"no-such-account\"",
				`cli = "codex"`, `command = ["/no/such/program"]`, `cli = "claude"`, "cli = \"claude\"\nsandbox = \"off\"",
			).Replace(paidFactory(server.URL)),
			not: []string{"no credential", "no-such", "/no/such", "sandbox", "claude", "secrets", "shims"},
		},
		{
			name: "a file", text: paidFactory(server.URL),
			environ: []string{"CLAUDE_CONFIG_DIR=" + home, "CODEX_HOME=" + home}, not: []string{"finds no credential"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked = nil
			for _, name := range []string{".credentials.json", "auth.json"} {
				if err := os.WriteFile(filepath.Join(home, name), []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"check", "--config", factoryFile(t, tt.text), "--state", t.TempDir()},
				strings.Fields(tt.args)...)
			got := disinto(t.Context(), append([]string{path, "HOME=" + t.TempDir()}, tt.environ...), args...)
			for _, want := range tt.says {
				if !strings.Contains(got.stdout, want) || got.code != exitFailed {
					t.Errorf("got exit code %d, want 1 and %q in\n%s", got.code, want, got.stdout)
				}
			}
			for _, no := range tt.not {
				if strings.Contains(got.stdout+got.stderr, no) {
					t.Errorf("got %q in\n%s", no, got.stdout)
				}
			}
			if strings.Contains(tt.args, "offline") && len(asked) > 0 {
				t.Errorf("--offline: got the requests %v", asked)
			}
			if tt.name == "a key that is refused" && strings.Join(asked, ", ") != "/v1/models revoked, /v1/models good" {
				t.Errorf("got the requests %v", asked)
			}
		})
	}
}

// A key of an older version is a note with what to do, and no problem.
func TestCheckRemovedKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "factory.toml")
	text := "factory.decide = \"shadow:/opt/new\"\n" + paidFactory("http://127.0.0.1:1")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := disinto(t.Context(), nil, "check", "--config", path, "--offline", "--json")
	note := path + `:1: factory.decide: no longer used: decisions are not compared with another build's any more; remove it`
	var answer struct{ Findings []screen.Finding }
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatal(err)
	}
	is := func(f screen.Finding) bool { return f.Text == note && f.Note && !f.Problem }
	if !slices.ContainsFunc(answer.Findings, is) {
		t.Errorf("got %s, want the note %s", got.stdout, note)
	}
}
