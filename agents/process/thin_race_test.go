//go:build race

package process

// thin is how many times fewer processes a storm has. The race detector makes each ten times as slow; `make check` has all
// of them without it.
const thin = 10
