package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	held, err := Lock(dir, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(dir, 7)
	want := fmt.Sprintf("cannot start: pid %d already works on %s: end it, or use --state", os.Getpid(), dir)
	if err == nil || err.Error() != want {
		t.Errorf("a second supervisor got %v\nwant %s", err, want)
	}
	held.Close()
	again, err := Lock(dir, 7)
	if err != nil {
		t.Fatalf("after the first one ended: %v", err)
	}
	again.Close()
}

// After a kill of the init, the supervisor below it holds the lock for a moment longer.
func TestLockOfTheDying(t *testing.T) {
	dir := t.TempDir()
	held, err := Lock(dir, 1<<30) // no process has this number
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		held.Close()
	}()
	next, err := Lock(dir, 7)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	if text, err := os.ReadFile(filepath.Join(dir, "lock")); string(text) != "7\n" {
		t.Errorf("got lock file %q, %v, want the new holder's number", text, err)
	}
}

func TestInstance(t *testing.T) {
	dir := t.TempDir()
	first, origin, err := Instance(dir)
	if err != nil || !validInstance(first) || origin != first {
		t.Fatalf("Instance = %q, %v, want a valid id", first, err)
	}
	if again, _, err := Instance(dir); err != nil || again != first {
		t.Errorf("the second time it is %q, %v; want %q", again, err, first)
	}
	if id := NewRun(first); !strings.HasPrefix(id, first+"-") || id == NewRun(first) {
		t.Errorf("run id %q, want a unique one after the instance", id)
	}
	// A new identity keeps the first one, however often.
	for range 2 {
		id, err := NewInstance(dir)
		if again, origin, read := Instance(dir); err != nil || read != nil || again != id || id == first || origin != first {
			t.Errorf("the new identity is %q, %v, and read as %q of %q, %v; want another one of %q",
				id, err, again, origin, read, first)
		}
	}
	// An id that would match other processes is not used.
	for _, damaged := range []string{"", "a", strings.Repeat("x", 11), "abc=def\x00gh"} {
		if err := os.WriteFile(filepath.Join(dir, "instance"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, _, err := Instance(dir); err != nil || !validInstance(id) {
			t.Errorf("instance file %q gave %q, %v, want a new valid id", damaged, id, err)
		}
	}
}
