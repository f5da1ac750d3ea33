//go:build !linux

package control

// noFollow has no meaning where no supervisor runs: nothing opens its logs.
const noFollow = 0
