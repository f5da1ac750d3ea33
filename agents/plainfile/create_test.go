package plainfile

import (
	"os"
	"path/filepath"
	"testing"
)

// A new file replaces a link at its path, and not what the link names. A folder may be behind a link.
func TestCreateAndOpenFolder(t *testing.T) {
	dir := t.TempDir()
	target, path, folder := filepath.Join(dir, "target"), filepath.Join(dir, "path"), filepath.Join(dir, "folder")
	for _, err := range []error{
		os.WriteFile(target, []byte("kept"), 0o600), os.Symlink(target, path), os.Symlink(dir, folder),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("new"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "kept" {
		t.Errorf("the link's target contains %q, %v, want what it had", text, err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "new" {
		t.Errorf("the file contains %q, %v, want the new text", text, err)
	}
	d, err := OpenFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}
