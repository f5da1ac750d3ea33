package control

import "golang.org/x/sys/unix"

// noFollow refuses a symbolic link: an agent may have put it there.
const noFollow = unix.O_NOFOLLOW
