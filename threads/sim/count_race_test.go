//go:build race

package sim

// ordinary is how many worlds an ordinary test run plays. The race detector makes each of them ten times as long.
const ordinary = 400
