package simtest

import (
	"os"
	"slices"
	"testing"
)

// Storms reports whether tests play every case of a long list, and whole days: `make check` sets DISINTO_STORMS.
// `make test` must end within three minutes, and plays a part. Call Storms while tests run: the cache of go test does
// not see what is read earlier.
func Storms() bool { return os.Getenv("DISINTO_STORMS") != "" }

// Size returns all with Storms, and some without.
func Size[T any](all, some T) T {
	if Storms() {
		return all
	}
	return some
}

// Skips reports whether make test leaves out a row of a table: one of those that are named.
func Skips(row string, named ...string) bool { return !Storms() && slices.Contains(named, row) }

// OnlyInStorms skips a test of whole days: with the race detector a virtual day takes ten seconds.
func OnlyInStorms(t testing.TB) {
	t.Helper()
	if !Storms() {
		t.Skip("a virtual day takes ten seconds with the race detector: needs DISINTO_STORMS=1")
	}
}

// Main runs a package's tests with their state directories in memory, if the system has /dev/shm. A supervisor writes
// several files per virtual minute, and creating them on a disk took a third of the processor time.
func Main(m *testing.M) (code int) {
	if dir, err := os.MkdirTemp("/dev/shm", "disinto"); err == nil {
		defer os.RemoveAll(dir)
		os.Setenv("TMPDIR", dir)
	}
	return m.Run()
}
