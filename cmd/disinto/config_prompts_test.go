package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
)

// A repository's folder of prompts is relative to factory.toml. A file without the folder is refused, so that a reload
// keeps the old one.
func TestRepoPrompts(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "site"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := func(prompts string) *threads.Config {
		return &threads.Config{Repos: []threads.Repo{{Name: "o/r"}, {Name: "o/s", Prompts: prompts}}}
	}
	path := filepath.Join(dir, "factory.toml")
	for _, prompts := range []string{"site", filepath.Join(dir, "site")} {
		c := config(prompts)
		err := placeBuiltin(c, path)
		if got := c.Repos; err != nil || got[1].Prompts != filepath.Join(dir, "site") || got[0].Prompts != "" {
			t.Errorf("%s: got %+v, %v", prompts, c.Repos, err)
		}
	}
	err := placeBuiltin(config("none"), path)
	if want := `factory.toml: repos."o/s".prompts: is "none", and`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
