//go:build !race

package process

// thin is how many times fewer processes a storm has: not any fewer.
const thin = 1
