package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// A log that an agent has replaced is neither waited for nor followed to another file.
func TestLogIsPlain(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	secret := filepath.Join(dir, "secrets.env")
	for _, err := range []error{
		unix.Mkfifo(pipe, 0o600), os.WriteFile(secret, []byte("x"), 0o600),
		os.Symlink(secret, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{pipe, link, "/dev/zero", dir} {
		var out strings.Builder
		log := Log{Path: path}
		err := log.Copy(t.Context(), &out, nil, func() bool { return true })
		if !errors.Is(err, plainfile.ErrNotPlain) || out.Len() > 0 {
			t.Errorf("%s: got %v, %q, want ErrNotPlain", path, err, out.String())
		}
	}
}

// A reader that follows a log past the cut at its limit reports the cut, and continues with new output.
func TestLogFollowsOverCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	put := func(text string, flag int) {
		f, err := os.OpenFile(path, os.O_WRONLY|flag, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	put(strings.Repeat("first\n", 100), os.O_CREATE)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	live := func() bool {
		switch looks++; looks {
		case 2:
			put("first\nend of cut\n", os.O_TRUNC)
		case 3:
			put("next\n", os.O_APPEND)
			return false
		}
		return true
	}
	var out strings.Builder
	if err := (&Log{Path: path}).Copy(ctx, &out, nil, live); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("first\n", 100) + "\ndisinto: the log has reached max_log and was cut; the rest is in " +
		path + "\nnext\n"
	if out.String() != want {
		t.Errorf("the reader got\n%s\nwant\n%s", out.String(), want)
	}
}
