package plainfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Only a regular file within the size limit is read or written, and nothing blocks.
func TestPlain(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("text"), 0o600),
		os.Symlink(at("file"), at("link")),
		os.Symlink("/nowhere", at("dangling")),
		unix.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, err := Read(at("file"), 4); err != nil || string(text) != "text" {
		t.Errorf("Read = %q, %v, want the text", text, err)
	}
	if text, err := Read(at("file"), 3); err == nil || text != nil {
		t.Errorf("Read of 4 bytes with a limit of 3 = %q, %v, want an error", text, err)
	}
	if _, err := Read(at("none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of a missing file: %v, want ErrNotExist", err)
	}
	for _, path := range []string{at("link"), at("dangling"), at("pipe"), at("socket"), "/dev/zero", dir} {
		if _, err := Read(path, 4); !errors.Is(err, ErrNotPlain) {
			t.Errorf("Read(%s): %v, want ErrNotPlain", path, err)
		}
		f, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
		if err == nil || f != nil {
			t.Errorf("Open(%s) for writing: %v, want an error", path, err)
		}
	}
	for path, want := range map[string]error{
		at("link"): nil, at("file"): nil, at("dangling"): fs.ErrNotExist,
		at("pipe"): ErrNotPlain, at("socket"): ErrNotPlain, "/dev/zero": ErrNotPlain, dir: ErrNotPlain,
	} {
		if text, err := ReadNamed(path, 4); !errors.Is(err, want) || want == nil && string(text) != "text" {
			t.Errorf("ReadNamed(%s) = %q, %v, want the error %v", path, text, err, want)
		}
	}
	if text, err := ReadNamed(at("link"), 3); err == nil || text != nil {
		t.Errorf("ReadNamed of a link to 4 bytes with a limit of 3 = %q, %v, want an error", text, err)
	}
	f, err := Open(at("new"), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
		t.Errorf("Open created %v, %v, want the mode 0600", info, err)
	}
}
