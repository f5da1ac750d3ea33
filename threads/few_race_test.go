//go:build race

package threads_test

// fewWorlds says that the race detector makes worlds ten times as long.
const fewWorlds = true
