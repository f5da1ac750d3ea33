//go:build !race

package supervisor_test

// longDays is why a test that lives through a whole day is left out; empty when it is not.
const longDays = ""
