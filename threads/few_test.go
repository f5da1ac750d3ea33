//go:build !race

package threads_test

const fewWorlds = false
