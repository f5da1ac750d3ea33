package disk_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/supervisor/disk"
)

// world is a state directory with a workspace and one of our files beside it, and a folder outside.
type world struct {
	t                    *testing.T
	state, work, outside string
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{t: t, state: filepath.Join(dir, "state"), outside: filepath.Join(dir, "outside")}
	w.work = filepath.Join(w.state, "work", "dev", "o_r_1")
	for _, d := range []string{w.work, w.outside, filepath.Join(w.state, "home", "dev")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{
		w.outside + "/file", w.state + "/journal.jsonl", w.state + "/home/dev/file",
		w.work + "/file",
	} {
		if err := os.WriteFile(f, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// remove removes every listed entry of work.
func (w *world) remove() error {
	w.t.Helper()
	s, err := disk.Open(w.state)
	w.do(err)
	defer s.Close()
	for _, e := range s.List(disk.Work) {
		if err := s.Remove(e); err != nil {
			return err
		}
	}
	return nil
}

// untouched checks that only work was removed.
func (w *world) untouched() {
	w.t.Helper()
	for _, f := range []string{w.outside + "/file", w.state + "/journal.jsonl", w.state + "/home/dev/file"} {
		if text, err := os.ReadFile(f); err != nil || string(text) != "text" {
			w.t.Errorf("%s: got %q, %v, want its text", f, text, err)
		}
		if info, err := os.Stat(filepath.Dir(f)); err != nil || info.Mode().Perm() != 0o700 {
			w.t.Errorf("%s: got %v, %v, want mode 0700", filepath.Dir(f), info.Mode(), err)
		}
	}
}

func (w *world) isGone() bool {
	_, err := os.Lstat(w.work)
	return os.IsNotExist(err)
}

// Deleting a workspace deletes nothing else, whatever an agent has put into it, or in its place.
func TestRemoveStaysBelow(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plant func(w *world)
		stays bool // the entry in the workspace's place is not deleted
	}{
		{"plain", func(*world) {}, false},
		{"links inside", func(w *world) {
			w.do(os.Symlink(w.outside, w.work+"/out"))
			w.do(os.Symlink("/", w.work+"/root"))
			w.do(os.Symlink("../../../home", w.work+"/home"))
			w.do(os.Link(w.outside+"/file", w.work+"/hard"))
			w.do(os.Symlink(w.work, w.work+"/loop"))
		}, false},
		{"pipe, socket and odd names inside", func(w *world) {
			w.do(unix.Mkfifo(w.work+"/pipe", 0o600))
			w.do(os.WriteFile(w.work+"/-rf\n\x01*", nil, 0o600))
			w.do(os.WriteFile(w.work+"/...", nil, 0o600))
		}, false},
		{"a link in its place", func(w *world) {
			w.do(os.RemoveAll(w.work))
			w.do(os.Symlink(w.outside, w.work))
		}, false},
		{"a link in the place of the agent's folder", func(w *world) {
			w.do(os.RemoveAll(filepath.Dir(w.work)))
			w.do(os.Symlink(w.outside, filepath.Dir(w.work)))
		}, true},
		{"a link to another folder of the state", func(w *world) {
			w.do(os.RemoveAll(filepath.Dir(w.work)))
			w.do(os.Symlink("../home/dev", filepath.Dir(w.work)))
		}, true},
		{"a link in the place of all work", func(w *world) {
			w.do(os.RemoveAll(w.state + "/work"))
			w.do(os.Symlink("home", w.state+"/work"))
		}, true},
		{"folders without rights", func(w *world) {
			deep := w.work + "/go/pkg/mod"
			w.do(os.MkdirAll(deep, 0o700))
			w.do(os.WriteFile(deep+"/file", nil, 0o400))
			w.do(os.Symlink(w.outside, deep+"/out"))
			w.do(os.Chmod(deep, 0o500))
			w.do(os.Chmod(w.work+"/go/pkg", 0))
		}, false},
		{"deep", func(w *world) {
			w.do(os.MkdirAll(w.work+strings.Repeat("/d", 1000), 0o700))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.plant(w)
			if err := w.remove(); err != nil {
				t.Error(err)
			}
			if w.isGone() == tt.stays && !tt.stays {
				t.Error("the workspace still exists")
			}
			w.untouched()
		})
	}
}

// A folder without rights whose owner is not root gets them before it is deleted.
func TestRemoveWithoutRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	w := newWorld(t)
	w.do(os.MkdirAll(w.work+"/shut/file", 0o700))
	w.do(os.Symlink(w.outside, w.work+"/out"))
	for _, d := range []string{
		w.state, w.state + "/work", w.state + "/work/dev", w.work, w.work + "/file",
		w.work + "/shut", w.work + "/shut/file",
	} {
		w.do(os.Lchown(d, 65534, 65534))
	}
	w.do(os.Chmod(w.work+"/shut", 0))
	w.do(os.Chmod(w.work, 0o500))
	for dir := w.state; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && dir != w.state {
			w.do(os.Chmod(dir, info.Mode().Perm()|0o011))
		}
	}
	asNobody(t, func() { w.do(w.remove()) })
	if !w.isGone() {
		t.Error("the folder still exists")
	}
}

// asNobody runs f on a thread with the rights of an account without rights.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	for _, err := range []error{syscall.Setresgid(-1, 65534, -1), syscall.Setresuid(-1, 65534, -1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := syscall.Setresuid(-1, 0, -1); err != nil {
			t.Fatal(err)
		}
		_ = syscall.Setresgid(-1, 0, -1)
	}()
	f()
}

func TestNames(t *testing.T) {
	s, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, agent := range []string{"", ".", "..", "a/b", "../.."} {
		if err := s.Remove(disk.Entry{Folder: disk.Work, Agent: agent, Name: "x"}); err == nil {
			t.Errorf("Remove entered %q", agent)
		}
	}
}
