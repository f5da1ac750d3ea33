// Package supervisor is the shell around the pure scheduler: it scans the forge, asks threads.Decide what to do, does
// it, and remembers in a journal what the forge cannot.
package supervisor
