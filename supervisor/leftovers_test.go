package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// What older versions kept is removed once and told once. A link in its place stays, and what it leads to.
func TestRemovesLeftovers(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	var said bytes.Buffer
	s := &Supervisor{StateDir: dir, Log: hclog.New(&hclog.LoggerOptions{Output: &said})}
	s.init()
	if err := os.MkdirAll(filepath.Join(dir, "decisions"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"decisions/1", "eta.json", "journal.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(elsewhere, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"shadow": elsewhere, "decisions/link": elsewhere} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s.removeLeftovers()
	s.removeLeftovers()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "shadow")}; !slices.Equal(left, want) {
		t.Errorf("left are %s, %v, want %s", left, err, want)
	}
	if !exists(mine) {
		t.Error("a file behind a link was removed")
	}
	if strings.Count(said.String(), "decisions, eta.json") != 1 || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("told %q, want one line", said.String())
	}
}
