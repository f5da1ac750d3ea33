package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"codeberg.org/johba/disinto/agents/session/fakemodel"
)

// mcpClients are the command lines of real clients, configured as docs/control-room.md describes.
var mcpClients = map[string]func(model, self, state string) (argv, environ []string){
	"claude": func(model, self, state string) (argv, environ []string) {
		config := fmt.Sprintf(`{"mcpServers": {"disinto": {"command": %q, "args": ["mcp", "--state", %q]}}}`, self, state)
		return []string{
				"claude", "-p", "--strict-mcp-config", "--mcp-config", config, "--allowedTools", "mcp__disinto", "--",
				"What waits?",
			},
			[]string{
				"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
				"ENABLE_TOOL_SEARCH=false",
			}
	},
	"codex": func(model, self, state string) (argv, environ []string) {
		return []string{
			"codex", "exec", "--skip-git-repo-check", "--json", "--model", "fake-model",
			"-c", `model_provider="test"`, "-c", `model_providers.test.name="test"`, "-c",
			fmt.Sprintf("model_providers.test.base_url=%q", model+"/v1"),
			"-c", `model_providers.test.env_key="OPENAI_API_KEY"`, "-c", `model_providers.test.wire_api="responses"`,
			"-c", fmt.Sprintf("mcp_servers.disinto.command=%q", self), "-c",
			fmt.Sprintf(`mcp_servers.disinto.args=["mcp", "--state", %q]`, state),
			"What waits?",
		}, []string{"OPENAI_API_KEY=none"}
	},
}

// In real clients a model finds the tools, calls one, and gets its answer.
func TestRealMCPClients(t *testing.T) {
	bin := os.Getenv("DISINTO_CLIS")
	if bin == "" {
		t.Skip("$DISINTO_CLIS names no folder with the real CLIs: make agents-e2e installs them")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := newAsked(t, map[string]string{"GET /v1/why?ref=17": readTestdata(t, "why/cycle.json")})
	for cli, line := range mcpClients {
		t.Run(cli, func(t *testing.T) {
			var mu sync.Mutex // guards read
			var read string
			model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: func(ask fakemodel.Prompt) fakemodel.Turn {
				if !ask.Answer {
					return fakemodel.Turn{Tool: "why", Input: map[string]any{"name": "17"}}
				}
				mu.Lock()
				defer mu.Unlock()
				read = ask.Text
				return fakemodel.Turn{Text: "I have read it."}
			}})
			defer model.Close()
			home := t.TempDir()
			argv, environ := line(model.URL, self, a.state)
			argv[0] = filepath.Join(bin, argv[0])
			r := start(t, append(environ, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "IS_SANDBOX=1", "PWD="+home), argv...)
			code := r.wait()
			mu.Lock()
			defer mu.Unlock()
			if asked := a.taken(); code != exitDone || len(asked) != 1 || !strings.Contains(read, "cycle") ||
				!strings.Contains(r.read(r.stdout), "I have read it.") {
				t.Errorf("got exit code %d, requests to the supervisor %q, the model's input %q, stdout %q", code, asked,
					read, r.read(r.stdout))
			}
			t.Logf("the model's input: %s", read[max(0, len(read)-3000):])
		})
	}
}
