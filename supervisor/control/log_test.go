package control

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/plainfile"
)

func none() []string { return nil }

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
		err := log.Copy(t.Context(), &out, none, func() bool { return true })
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
	if err := (&Log{Path: path}).Copy(ctx, &out, none, live); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("first\n", 100) + "\ndisinto: the log has reached max_log and was cut; the rest is in " +
		path + "\nnext\n"
	if out.String() != want {
		t.Errorf("the reader got\n%s\nwant\n%s", out.String(), want)
	}
}

// A reader that follows waits for a log that does not exist yet, and continues in the file that is made after the log
// was moved away. It hides the secrets of the time.
func TestLogFollowsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	looks := 0
	var out strings.Builder
	live := func() bool {
		switch looks++; looks {
		case 2:
			write("one hidden-1\n")
		case 3:
			if out.String() != "one [secret]\n" {
				t.Errorf("got %q before the log was moved", out.String())
			}
			if err := os.Rename(path, path+".1"); err != nil {
				t.Error(err)
			}
		case 4:
			write("two hidden-1 hidden-2\n")
		case 5:
			return false
		}
		return true
	}
	secrets := func() []string { return []string{"hidden-" + strconv.Itoa(min(looks/2, 2))} }
	if err := (&Log{Path: path, From: 0}).Copy(t.Context(), &out, secrets, live); err != nil {
		t.Fatal(err)
	}
	if want := "one [secret]\ntwo hidden-1 [secret]\n"; out.String() != want {
		t.Errorf("the reader got %q, want %q", out.String(), want)
	}
}

// A reader of what is printed from now on begins at an offset.
func TestLogFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("old\nnew\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&Log{Path: path, From: 4}).Copy(t.Context(), &out, none, nil); err != nil || out.String() != "new\n" {
		t.Errorf("got %q, %v, want new", out.String(), err)
	}
}

// Copied is told the end of the last whole line, without what the redactor still holds back.
func TestLogCopied(t *testing.T) {
	for text, want := range map[string]int64{
		"":                               0,
		"one":                            0,
		"one\ntwo\nthr":                  8,
		"one\nsecr":                      4,
		"one\ntop secr":                  4,
		"one\nsecretly\ntwo\n":           17,
		strings.Repeat("x", longLine):    longLine,
		"one\n" + "sec\ncon":             4, // the end may begin a secret of two lines
		strings.Repeat("x", longLine-1):  0,
		strings.Repeat("x\n", longLine):  2 * longLine,
		strings.Repeat("x\n", 9) + "\nx": 19,
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := int64(-1)
		log := Log{Path: path, Copied: func(_ *os.File, offset int64) { got = offset }}
		secrets := func() []string { return []string{"secretly", "sec\nconceal"} }
		if err := log.Copy(t.Context(), io.Discard, secrets, nil); err != nil || got != want {
			t.Errorf("%.20q: got %d, %v, want %d", text, got, err, want)
		}
	}
}
