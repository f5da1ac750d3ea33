//go:build !linux

package plainfile

// guarded has no meaning where no supervisor runs: no agent writes there.
const guarded = 0
