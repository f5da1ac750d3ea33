//go:build !race

package simtest

// thin is how many of the cases of a long list are tried together: all of them.
const thin = 1

// longDays is why a test that lives through whole days is left out; empty when it is not.
const longDays = ""
