//go:build !race

package supervisor_test

// longDays is why a test that lives through a whole day is left out; empty when it is not.
const longDays = ""

// thousand is how many random cases the tests try of which a thousand are asked for: all of them.
const thousand = 1000
