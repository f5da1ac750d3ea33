package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents/llama/fakellama"
)

// check asks a llama-server what it is, and says what does not fit the threads that use it, with the flag to set.
func TestCheckServer(t *testing.T) {
	small := &fakellama.Server{Model: "tiny", Slots: 1, Context: 4096}
	fits := &fakellama.Server{Model: "tiny", Slots: 2, Context: 40_960}
	for _, tt := range []struct {
		name   string
		server *fakellama.Server
		code   int
		says   []string
	}{
		{"it fits", fits, 0, []string{"llama: tiny, 2 slots, 40960 tokens of context each"}},
		{"it is too small", small, 1, []string{
			"start it with -np 2, or set max_concurrent to 1", "qwen needs 17000 to begin with: start it with -c 17000",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.server)
			defer server.Close()
			path := factoryFile(t, strings.NewReplacer(
				`backend = "anthropic"`, "backend = \"local\"\nmax_concurrent = 2", server.URL, server.URL+"/v1",
				"[threads.api]", "[threads.llama]", `"claude"`, `"qwen"`,
			).Replace(paidFactory(server.URL)))
			got := disinto(t.Context(), []string{"PATH=" + os.Getenv("PATH")}, "check", "--config", path, "--state", filepath.Join(t.TempDir(), "state"))
			for _, line := range tt.says {
				if !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), line) {
					t.Errorf("nothing says %q:\n%s", line, got.stdout)
				}
			}
			if strings.Contains(got.stdout, "-np") != (tt.code == 1) {
				t.Errorf("%s", got.stdout)
			}
			offline := disinto(t.Context(), []string{"PATH=" + os.Getenv("PATH")}, "check", "--config", path, "--offline")
			if strings.Contains(offline.stdout, "tiny") {
				t.Errorf("offline it asks the server:\n%s", offline.stdout)
			}
		})
	}
}
