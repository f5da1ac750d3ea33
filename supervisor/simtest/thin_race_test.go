//go:build race

package simtest

// thin is how many of the cases of a long list are tried together: one of so many. The race detector makes each ten
// times as long; `make check` tries them all without it.
const thin = 5

// longDays is why a test that lives through whole days is left to `make check`; empty when it is not.
const longDays = "a virtual day takes ten seconds with the race detector: make check plays it without"
