package plainfile

import "golang.org/x/sys/unix"

// With these flags the kernel refuses a link, and does not wait for the other end of a pipe.
const (
	unlinked  = unix.O_NOFOLLOW
	unwaiting = unix.O_NONBLOCK | unix.O_NOCTTY
	folder    = unix.O_DIRECTORY // refuses everything but a folder
)
