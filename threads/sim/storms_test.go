package sim

import "os"

// storms reports whether all loads are played, as in `make check`. `make test` plays some of them. It reads the
// variable while tests run: the cache of go test does not see what is read earlier.
func storms() bool { return os.Getenv("DISINTO_STORMS") != "" }

// sized returns all with DISINTO_STORMS, and some without.
func sized[T any](all, some T) T {
	if storms() {
		return all
	}
	return some
}
