//go:build !race

package sim

// ordinary is how many worlds an ordinary test run plays: a few seconds' worth.
const ordinary = 4000
