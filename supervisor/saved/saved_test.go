package saved

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

func talk(n int64) Conversation {
	return Conversation{"dev-qwen", "qwen3.5:30b", forge.Ref{Repo: "johba/ha_rb", Number: n}}
}

func TestNames(t *testing.T) {
	plain := regexp.MustCompile(`^[A-Za-z0-9]+$`)
	for _, c := range []Conversation{
		talk(1),
		{"a", "", forge.Ref{Repo: "o/r", Number: math.MaxInt64}},
		{"Z", "Zä/../\x00", forge.Ref{Repo: "Z/Z", Number: 7}},
	} {
		name := c.File()
		if back, ok := parse(name); !plain.MatchString(name) || !ok || back != c {
			t.Errorf("%q is %+v, %v, want %+v", name, back, ok, c)
		}
	}
	if name := (Conversation{"a", strings.Repeat("-", 100), forge.Ref{Repo: "o/r", Number: 1}}).File(); name != "" {
		t.Errorf("File returned a name of %d bytes, want none", len(name))
	}
	for _, name := range []string{
		"", "disinto", "disintoZ", "other", Temporary("r1"), talk(1).File() + "Z",
		talk(1).File() + "Z2d",
	} {
		if c, ok := parse(name); ok && c.File() != name {
			t.Errorf("parse(%q) = %+v, which has another name", name, c)
		}
	}
	if name := Temporary("i-1/../" + strings.Repeat("x", 300)); !plain.MatchString(name) || len(name) > maxName {
		t.Errorf("Temporary = %q, want a short plain name", name)
	}
}

func FuzzName(f *testing.F) {
	f.Add(talk(1).File())
	f.Add(Temporary("r"))
	f.Fuzz(func(t *testing.T, name string) {
		if c, ok := parse(name); ok && c.File() != name {
			t.Errorf("parse(%q) = %+v, whose file is %q", name, c, c.File())
		}
	})
}

func slot(id int, task, held int64) agents.ServerSlot {
	return agents.ServerSlot{ID: id, Task: task, Held: held}
}

func TestFind(t *testing.T) {
	busy := slot(1, 9, 900)
	busy.Busy = true
	tests := []struct {
		name        string
		slots       []agents.ServerSlot
		since, size int64
		alone       bool
		want        int // -1: not known
	}{
		{"its size among others", []agents.ServerSlot{slot(0, 7, 500), slot(1, 9, 900)}, 3, 498, false, 0},
		{"a busy slot is another's", []agents.ServerSlot{slot(0, 7, 500), busy}, 3, 900, false, -1},
		{"two of one size", []agents.ServerSlot{slot(0, 7, 500), slot(1, 9, 510)}, 3, 505, false, -1},
		{"from before its start", []agents.ServerSlot{slot(0, 3, 500)}, 3, 500, true, -1},
		{"alone, with a title", []agents.ServerSlot{slot(0, 7, 500), slot(1, 9, 30)}, 3, 0, true, 0},
		{"alone, and a slot computes", []agents.ServerSlot{slot(0, 7, 500), busy}, 3, 0, true, -1},
		{"not alone, size unknown", []agents.ServerSlot{slot(0, 7, 500)}, 3, 0, false, -1},
		{"emptied", []agents.ServerSlot{slot(0, 7, 0)}, 3, 0, true, -1},
		{"no slots", nil, -1, 500, true, -1},
	}
	for _, tt := range tests {
		got, known := Find(tt.slots, tt.since, tt.size, tt.alone)
		if known != (tt.want >= 0) || known && got.ID != tt.want {
			t.Errorf("%s: slot %d, %v, want %d", tt.name, got.ID, known, tt.want)
		}
	}
}

func TestPlace(t *testing.T) {
	busy := slot(0, 1, 900)
	busy.Busy = true
	tests := []struct {
		name   string
		slots  []agents.ServerSlot
		tokens int64
		taken  []int
		want   int // -1: none
	}{
		{"an unused slot", []agents.ServerSlot{slot(0, 4, 500), slot(1, -1, 0)}, 100, nil, 1},
		{"the oldest", []agents.ServerSlot{slot(0, 4, 500), slot(1, 3, 400)}, 100, nil, 1},
		{"idle", []agents.ServerSlot{busy, slot(1, 3, 400)}, 100, nil, 1},
		{"another's", []agents.ServerSlot{slot(0, 4, 500), slot(1, -1, 0)}, 100, []int{1}, 0},
		{"all busy", []agents.ServerSlot{busy}, 100, nil, -1},
		{"still in a slot", []agents.ServerSlot{slot(0, 4, 500), slot(1, -1, 0)}, 500, nil, -1},
		{"size unknown", []agents.ServerSlot{slot(0, 4, 0)}, 0, nil, 0},
		{"no slots", nil, 100, nil, -1},
	}
	for _, tt := range tests {
		if got, ok := Place(tt.slots, tt.tokens, tt.taken); ok != (tt.want >= 0) || ok && got != tt.want {
			t.Errorf("%s: slot %d, %v, want %d", tt.name, got, ok, tt.want)
		}
	}
}

// write creates a file as a server does.
func write(t *testing.T, dir, name string, size int64, age time.Duration) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f := Folder{dir, 1000}
	if list, err := f.List(); len(list) > 0 || err != nil {
		t.Errorf("List of an empty folder = %v, %v", list, err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	write(t, dir, "people.bin", 5000, 0)
	for n := range int64(4) {
		write(t, dir, Temporary(fmt.Sprint("run", n)), 300, time.Duration(10-n)*time.Minute)
		if err := f.Adopt(talk(n+1), fmt.Sprint("run", n)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{talk(2).File(), talk(3).File(), talk(4).File(), "people.bin"}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("want only our oldest file deleted: %s", diff)
	}
	if info, err := os.Stat(filepath.Join(dir, talk(4).File())); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if !f.Has(talk(4)) || f.Has(talk(1)) {
		t.Error("Has finds the deleted conversation, or misses the kept one")
	}
	if err := f.Remove(talk(1), talk(2)); err != nil || f.Has(talk(2)) {
		t.Errorf("Remove: got %v, want the file gone", err)
	}
	f.Discard("run9")
}

func TestFolderRefuses(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	f := Folder{dir, 1000}
	secret := filepath.Join(elsewhere, "secret")
	write(t, elsewhere, "secret", 10, 0)
	if err := f.Adopt(talk(1), "none"); err == nil || !strings.Contains(err.Error(), "kv_folder must be the server's") {
		t.Errorf("for a server that saves elsewhere: %v", err)
	}
	write(t, dir, Temporary("large"), 1001, 0)
	if err := f.Adopt(talk(1), "large"); err == nil || !strings.Contains(err.Error(), "kv_save is") {
		t.Errorf("for a file above the limit: %v", err)
	}
	for _, name := range []string{Temporary("link"), talk(9).File()} {
		if err := os.Symlink(secret, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Adopt(talk(1), "link"); err == nil {
		t.Error("Keep accepted a link")
	}
	if f.Has(talk(9)) {
		t.Error("Has accepted a link")
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o644 || info.Size() != 10 {
		t.Errorf("the link's target: got %v, %v, want it unchanged", info, err)
	}
	write(t, dir, Temporary("late"), 10, 2*time.Hour)
	write(t, dir, Temporary("now"), 10, 0)
	if _, err := f.List(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{Temporary("now"), talk(9).File()}, names(t, dir)); diff != "" {
		t.Errorf("leftovers of late saves: %s", diff)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err == nil || !strings.Contains(err.Error(), "chmod 750") {
		t.Errorf("for a folder open to every account: %v", err)
	}
	if err := (Folder{filepath.Join(dir, "none"), 1}).Check(); err == nil {
		t.Error("Check accepted a missing folder")
	}
}

func TestUsing(t *testing.T) {
	asks := func(id int, task, had int64) agents.ServerSlot {
		s := slot(id, task, had+300)
		s.Busy, s.Cached = true, had
		return s
	}
	tests := []struct {
		name        string
		slots       []agents.ServerSlot
		since, size int64
		alone       bool
		want        int // -1: not known
	}{
		{"idle, its size", []agents.ServerSlot{slot(0, 7, 500), slot(1, 9, 900)}, 3, 905, false, 1},
		{"its request found as many tokens", []agents.ServerSlot{asks(0, 7, 500), asks(1, 9, 900)}, 3, 898, false, 1},
		{"its request grows to the size of another", []agents.ServerSlot{asks(0, 7, 600), slot(1, 9, 900)}, 3, 900, false, 1},
		{"two requests that found as many tokens", []agents.ServerSlot{asks(0, 7, 900), asks(1, 9, 900)}, 3, 900, false, -1},
		{"from before its start", []agents.ServerSlot{slot(0, 3, 500)}, 3, 500, false, -1},
		{"alone, in its first request", []agents.ServerSlot{asks(0, 7, 0), slot(1, 3, 900)}, 3, 0, true, 0},
		{"alone, with a title", []agents.ServerSlot{asks(0, 7, 0), slot(1, 8, 30)}, 3, 0, true, -1},
		{"its first request among others", []agents.ServerSlot{asks(0, 7, 0)}, 3, 0, false, -1},
	}
	for _, tt := range tests {
		got, known := Using(tt.slots, tt.since, tt.size, tt.alone)
		if known != (tt.want >= 0) || known && got.ID != tt.want {
			t.Errorf("%s: slot %d, %v, want %d", tt.name, got.ID, known, tt.want)
		}
	}
	was := asks(1, 9, 900)
	slots := []agents.ServerSlot{slot(0, 9, 1), slot(1, 9, 1200)}
	if got, same := Unchanged(slots, was); !same || got.ID != 1 || got.Busy {
		t.Errorf("Unchanged = %+v, %v, want the idle slot", got, same)
	}
	for _, now := range []agents.ServerSlot{slot(1, 10, 1200), slot(1, 9, 0), slot(0, 9, 1200)} {
		if got, still := Unchanged([]agents.ServerSlot{now}, was); still {
			t.Errorf("Still reports that %+v continues %+v", got, was)
		}
	}
}
