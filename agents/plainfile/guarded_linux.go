package plainfile

import "golang.org/x/sys/unix"

// guarded has the kernel refuse a link, and not wait for the other end of a pipe.
const guarded = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
