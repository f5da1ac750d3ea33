package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The state directory is read from a file with mistakes, too: otherwise a command asks another directory, and run
// starts a second supervisor there.
func TestStateInFile(t *testing.T) {
	const named = "[forge]\nstate = \"/forge\"\n[factory]\n# where\nstate = \"/srv/st\"\n"
	for _, tt := range []struct{ name, text, want string }{
		{"a good file", named, "/srv/st"},
		{"an unknown key", named + "staet = 1\n", "/srv/st"},
		{"an open table", named + "[threads.api\n", "/srv/st"},
		{"a mistake before it", "[forge\nurl = \n" + named, "/srv/st"},
		{"another table's", "[forge]\nstate = \"/forge\"\n[threads.api\n", ""},
		{"no such key", "[factory]\nuser = \"a\"\n", ""},
		{"empty", "", ""},
	} {
		path := filepath.Join(t.TempDir(), "factory.toml")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := stateInFile(path); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := stateInFile(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("no file: got %q", got)
	}
}
