package hire

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func mustWrite(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// expect compares a file's text and mode.
func expect(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != text || info.Mode().Perm() != mode {
		t.Errorf("%s is %q with mode %v, want %q with %v", path, raw, info.Mode().Perm(), text, mode)
	}
}

func TestFileWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	secret := File{Path: path, Mode: 0o600}
	if text, err := secret.Read(); text != "" || err != nil {
		t.Errorf("Read of a missing file = %q, %v, want \"\"", text, err)
	}
	mustWrite(t, filepath.Join(dir, ".f.new"), "torn", 0o644) // left by an interrupted run
	if backup, err := secret.Write("one"); err != nil || backup != "" {
		t.Fatalf("Write = backup %q, %v, want no backup", backup, err)
	}
	expect(t, path, "one", 0o600)

	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	plain := File{Path: link}
	if _, err := plain.Write("two"); err != nil {
		t.Fatal(err)
	}
	expect(t, path, "two", 0o640)
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Write replaced the link: %v", err)
	}
	if _, err := secret.Write("three"); err != nil {
		t.Fatal(err)
	}
	expect(t, path, "three", 0o600)
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("the folder holds %v, want only the file and the link", entries)
	}
}

// TestFileInPlace mounts a single file, as compose does: it can be written to, but not replaced.
func TestFileInPlace(t *testing.T) {
	dir := t.TempDir()
	outside, path := filepath.Join(dir, "outside"), filepath.Join(dir, "factory.toml")
	mustWrite(t, outside, "a long text from before", 0o644)
	mustWrite(t, path, "", 0o644)
	if err := unix.Mount(outside, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount a file on this system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	f := File{Path: path}
	backup, err := f.Write("short")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, outside, "short", 0o644)
	expect(t, backup, "a long text from before", 0o644)
	if backup != path+".bak" {
		t.Errorf("the backup is %s, want it beside the file", backup)
	}
	private := File{Path: path, Mode: 0o600}
	if _, err := private.Write("a secret, and longer"); err != nil {
		t.Fatal(err)
	}
	expect(t, outside, "a secret, and longer", 0o600)
	expect(t, backup, "short", 0o600)
}

// TestFileReadOnlyFolder writes a file in a folder in which no file can be created.
func TestFileReadOnlyFolder(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "f")
	mustWrite(t, path, "old", 0o644)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err == nil {
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	} else if os.Geteuid() == 0 || os.Chmod(dir, 0o500) != nil {
		t.Skip("cannot make a folder read-only on this system")
	} else {
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // so that the test can remove its files
	}
	f := File{Path: path}
	if _, err := f.Write("new"); err == nil {
		t.Error("Write succeeded without a folder for the backup")
	}
	expect(t, path, "old", 0o644)
	f.Backup = state
	if backup, err := f.Write("new"); err != nil || backup != filepath.Join(state, "f.bak") {
		t.Errorf("Write = backup %q, %v, want one in the folder Backup", backup, err)
	}
	expect(t, path, "new", 0o644)
	expect(t, filepath.Join(state, "f.bak"), "old", 0o644)
	if _, err := (&File{Path: filepath.Join(dir, "none")}).Write("x"); err == nil {
		t.Error("Write created a file in a read-only folder")
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); err != ErrBusy {
		t.Errorf("second Lock: %v, want ErrBusy", err)
	}
	unlock()
	unlock, err = Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
