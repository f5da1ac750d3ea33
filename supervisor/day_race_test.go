//go:build race

package supervisor_test

// longDays is why a test that lives through a whole day is left to `make check`; empty when it is not.
const longDays = "a virtual day takes ten seconds with the race detector: make check plays it without"

// thousand is how many random cases the tests try of which a thousand are asked for; make check tries them all.
const thousand = 60
