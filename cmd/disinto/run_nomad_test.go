package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents/nomad"
)

// The factory's own prompts go to the node with the session; other files beside them do not.
func TestPromptsOf(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"dev.md": "be brief", "dev.md~": "be", "notes.txt": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{nil, {"disinto", "agent"}, {"disinto", "agent", agents.PromptsFlag}} {
		if f, err := promptsOf(command); f != nil || err != nil {
			t.Errorf("%q: got %+v, %v", command, f, err)
		}
	}
	command := []string{"disinto", "agent", "--cli", "claude", agents.PromptsFlag, dir}
	f, err := promptsOf(command)
	want := &nomad.Folder{Path: dir, Files: map[string]string{"dev.md": "be brief"}}
	if diff := cmp.Diff(want, f); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := os.WriteFile(filepath.Join(dir, "long.md"), []byte(strings.Repeat("x", mostPrompt+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := promptsOf(command); err == nil || !strings.Contains(err.Error(), "cannot read the prompts") {
		t.Errorf("a prompt that is too long: got %+v, %v", f, err)
	}
	if f, err := promptsOf([]string{agents.PromptsFlag, filepath.Join(dir, "none")}); err == nil {
		t.Errorf("without the folder: got %+v, want an error", f)
	}
}
