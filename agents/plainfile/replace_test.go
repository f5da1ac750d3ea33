package plainfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	for name, write := range map[string]func(string, []byte) error{"Replace": Replace, "Keep": ReplaceSynced} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			for _, text := range []string{"a longer text", "text", ""} {
				if err := write(path, []byte(text)); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(path)
				if err != nil || string(got) != text {
					t.Errorf("the file contains %q, %v; want %q", got, err, text)
				}
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file is %v, %v; want the mode 0600", info, err)
			}
		})
	}
}

// A file that cannot be replaced stays unchanged, and no temporary file remains.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if Replace(path, nil) == nil || ReplaceSynced(path, nil) == nil {
		t.Error("a file replaced a folder")
	}
	if Replace(filepath.Join(dir, "none", "file"), nil) == nil {
		t.Error("a file was written into a missing folder")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v; want only the original folder", left, err)
	}
}
