package simtest

import (
	"os"
	"runtime/debug"
	"testing"
)

// Storms reports whether tests play every case of a long list and live through whole days. `make check` sets
// DISINTO_STORMS for that. `make test` must end within three minutes, and plays a part of the cases. It must be
// called while tests run: the cache of go test does not see what is read before.
func Storms() bool { return os.Getenv("DISINTO_STORMS") != "" }

// Size returns all with Storms, and some without.
func Size[T any](all, some T) T {
	if Storms() {
		return all
	}
	return some
}

// OnlyInStorms skips a test that lives through whole days: with the race detector a virtual day takes ten seconds.
func OnlyInStorms(t testing.TB) {
	t.Helper()
	if !Storms() {
		t.Skip("make check plays it: a virtual day takes ten seconds with the race detector")
	}
}

// Main runs the tests of a package with their state directories in memory, where the system has /dev/shm. A
// supervisor writes several files per virtual minute, and creating them on a disk took a third of the processor time.
func Main(m *testing.M) (code int) {
	debug.SetGCPercent(600) // a world makes much garbage and keeps next to nothing
	if dir, err := os.MkdirTemp("/dev/shm", "disinto"); err == nil {
		defer os.RemoveAll(dir)
		os.Setenv("TMPDIR", dir)
	}
	return m.Run()
}
