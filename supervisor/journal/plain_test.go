package journal

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Every file that a start opens is a plain one: a pipe does not hold the start up, a link is not followed, and what it
// names is neither read nor written.
func TestStartOpensPlainFilesOnly(t *testing.T) {
	open := func(dir string) error {
		held, err := Lock(dir, os.Getpid())
		if err != nil {
			return err
		}
		defer held.Close()
		if _, _, err := Instance(dir); err != nil {
			return err
		}
		j, _, err := Open(dir, func(ledger.Record) {})
		if err != nil {
			return err
		}
		return errors.Join(j.SetAside(), j.Close())
	}
	for what, make := range map[string]func(target, path string) error{
		"a pipe":   func(_, path string) error { return unix.Mkfifo(path, 0o600) },
		"a link":   os.Symlink,
		"a device": func(_, path string) error { return os.Symlink("/dev/zero", path) },
		"a folder": func(_, path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, name := range []string{"lock", "instance", FileName, "journal.corrupt"} {
			dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
			if err := os.WriteFile(target, []byte("abcdefghij\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := make(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := open(dir); err == nil || what != "a folder" && !errors.Is(err, plainfile.ErrNotPlain) {
				t.Errorf("%s in place of %s: got the error %v, want that it is not a plain file", what, name, err)
			}
			if text, _ := os.ReadFile(target); string(text) != "abcdefghij\n" {
				t.Errorf("%s in place of %s: its target now contains %q", what, name, text)
			}
		}
	}
}

// A compaction writes a new file, whatever lies at its name.
func TestCompactionWritesItsOwnFile(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	j, _, err := Open(dir, func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	plant := map[string]func(string) error{
		"a link": func(path string) error { return os.Symlink(target, path) },
		"a pipe": func(path string) error { return unix.Mkfifo(path, 0o600) },
	}
	for what, make := range plant {
		err := os.WriteFile(target, []byte("kept"), 0o600)
		if err := errors.Join(err, make(filepath.Join(dir, FileName+".new"))); err != nil {
			t.Fatal(err)
		}
		if err := j.Rewrite(func() iter.Seq[ledger.Record] { return ledger.New().Compaction(noon) }); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if text, _ := os.ReadFile(target); string(text) != "kept" {
			t.Errorf("%s: its target now contains %q", what, text)
		}
		if info, err := os.Lstat(filepath.Join(dir, FileName)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: the journal is %v, %v, want a plain file", what, info, err)
		}
	}
}

// Gigabytes of nothing cost a start neither memory nor disk: the instance is made anew, the journal is read as a
// stream, and only the beginning of its corrupt lines is kept.
func TestStartWithGigabytesOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"instance", FileName} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 8<<30)); err != nil {
			t.Fatal(err)
		}
	}
	if id, _, err := Instance(dir); err != nil || !validInstance(id) {
		t.Errorf("Instance = %q, %v, want a new one", id, err)
	}
	j, corrupt, err := Open(dir, func(ledger.Record) { t.Error("a record from NULs") })
	if err != nil || corrupt != 1 {
		t.Fatalf("%d corrupt lines, %v, want 1", corrupt, err)
	}
	defer j.Close()
	for range 2 { // after a crash they are set aside once more
		if err := j.SetAside(); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "journal.corrupt")); err != nil || info.Size() != maxAside {
		t.Errorf("the corrupt lines are %v, %v, want %d bytes of them", info, err, maxAside)
	}
}
