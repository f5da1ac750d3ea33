package upstream_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents/upstream"
)

func TestLogs(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "data/logs/dev/dev-agent.log")
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(l *upstream.Logs, text string) {
		t.Helper()
		var b strings.Builder
		if err := l.Copy(&b); err != nil || b.String() != text {
			t.Errorf("got %q, %v, want %q", b.String(), err, text)
		}
	}
	want(upstream.NewLogs(home), "") // the folder does not exist yet
	write("old\n")
	l := upstream.NewLogs(home)
	want(l, "")
	write("old\nnew\n")
	want(l, "new\n")
	want(l, "")
	write("turned\n") // rotated
	want(l, "turned\n")
	path = filepath.Join(home, "data/logs/review/review.log")
	write("seen\n")
	want(l, "seen\n")
}
