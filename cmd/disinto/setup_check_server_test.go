package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents/llama/fakellama"
)

// check asks a llama-server for its settings, and reports those that do not fit its threads, with the flag to set.
func TestCheckServer(t *testing.T) {
	small := &fakellama.Server{Model: "tiny", Slots: 1, Context: 4096}
	fits := &fakellama.Server{Model: "tiny", Slots: 2, Context: 40_960}
	folder, open := t.TempDir(), t.TempDir()
	for dir, mode := range map[string]os.FileMode{folder: 0o700, open: 0o755} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	saves := &fakellama.Server{Model: "tiny", Slots: 2, Context: 40_960, Folder: folder}
	for _, tt := range []struct {
		name   string
		server *fakellama.Server
		says   []string
		folder string // the folder of kv_save; empty without kv_save
	}{
		{"it saves", saves, []string{"llama: 0 conversations saved in " + folder + ": 0B of 10G"}, folder},
		{"it has no folder", fits, []string{"llama: kv_save: cannot use", "Start it with `--slot-save-path`"}, folder},
		{"others can read its files", saves, []string{"every account can enter", "chmod 750"}, open},
		{"its folder is on another machine", saves, []string{"cannot open the folder of saved conversations"}, "/none"},
		{"it fits", fits, []string{"llama: tiny, 2 slots, 40960 tokens of context each"}, ""},
		{"it is too small", small, []string{
			"start it with -np 2, or set max_concurrent to 1", "codex needs 18000 at its start: start it with -c 18000",
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.server)
			defer server.Close()
			keys := "backend = \"local\"\nmax_concurrent = 2"
			if tt.folder != "" {
				keys += fmt.Sprintf("\nkv_save = \"10G\"\nkv_folder = %q", tt.folder)
			}
			path := factoryFile(t, strings.NewReplacer(
				`backend = "anthropic"`, keys, server.URL, server.URL+"/v1",
				"[threads.api]", "[threads.llama]", `"claude"`, `"qwen"`,
			).Replace(paidFactory(server.URL)))
			got := disinto(t.Context(), []string{"PATH=" + os.Getenv("PATH")}, "check", "--config", path, "--state",
				filepath.Join(t.TempDir(), "state"))
			for _, line := range tt.says {
				if !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), line) {
					t.Errorf("the output lacks %q:\n%s", line, got.stdout)
				}
			}
			if strings.Contains(got.stdout, "-np") != (tt.server == small) {
				t.Errorf("got\n%s\nwant -np only for the small server", got.stdout)
			}
			offline := disinto(t.Context(), []string{"PATH=" + os.Getenv("PATH")}, "check", "--config", path, "--offline")
			if strings.Contains(offline.stdout, "tiny") {
				t.Errorf("check --offline asks the server:\n%s", offline.stdout)
			}
		})
	}
}
