package main

import "golang.org/x/sys/unix"

// writable reports whether this process may write to a directory.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
