// Package gate makes the sockets of a session, which reach this machine only, and is the proxy through which the
// session reaches the hosts that its rules allow. It runs in the session's shim, outside of the sandbox. Linux only.
//
// A seccomp filter asks the shim for each socket of IPv4 and TCP, and refuses all others of the Internet. The shim
// makes it, binds it to the device lo, and puts it into the program, which cannot undo that without CAP_NET_RAW in the
// network namespace. The numbers of a call to socket(2) cannot change between the question and the answer.
//
// Of the sockets, only those of IPv4 and TCP stay there (Linux 6.18, as an account without capabilities): one of UDP
// leaves lo after connect(2) with AF_UNSPEC, by IP_PKTINFO, and with IPv6 by the scope of an address; one of TCP over
// IPv6 leaves it by bind(2) to a link-local address with another scope, even if that fails, and then reaches any host,
// also over IPv4.
package gate

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/seccomp"
)

// question is the kernel's struct seccomp_notif.
type question struct {
	id    uint64
	pid   uint32
	flags uint32
	call  int32
	arch  uint32
	at    uint64
	args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// gift is struct seccomp_notif_addfd.
type gift struct {
	id         uint64
	flags      uint32
	from       uint32
	to         uint32
	closeOnRun uint32
}

const (
	// addFD is SECCOMP_IOCTL_NOTIF_ADDFD, which x/sys lacks. It is used without SECCOMP_ADDFD_FLAG_SEND: when a signal
	// interrupted that, the program got 0 for a socket (Linux 6.18, once in 10,000).
	addFD    = 0x40182103
	loopback = "lo"
)

// Answer answers the questions of the filter of seccomp.Restrict until no process has that filter.
func Answer(listener int) {
	defer unix.Close(listener)
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			return
		}
		switch {
		case poll[0].Revents&unix.POLLIN != 0:
			answerOne(listener)
		case poll[0].Revents != 0:
			return
		}
	}
}

func answerOne(listener int) {
	var q question
	if _, errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); errno != 0 {
		return // who asked is gone
	}
	fd, errno := give(listener, &q)
	a := answer{id: q.id, value: int64(fd), errno: -int32(errno)}
	_, _ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
}

// give makes what the question asks for, puts it into the program, and returns its number there.
func give(listener int, q *question) (fd int, errno unix.Errno) {
	family, kind, protocol := uint32(q.args[0]), uint32(q.args[1]), uint32(q.args[2])
	flags := kind & (unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)
	// The filter refuses all others, and a supervisor that is root could make them.
	if family != unix.AF_INET || kind&^flags != unix.SOCK_STREAM || protocol != 0 && protocol != unix.IPPROTO_TCP {
		return 0, unix.EPERM
	}
	ours, err := local(int(flags))
	if err != nil {
		return 0, errnoOf(err)
	}
	defer unix.Close(ours)
	g := gift{id: q.id, from: uint32(ours), closeOnRun: flags & unix.SOCK_CLOEXEC}
	return ioctl(listener, addFD, unsafe.Pointer(&g))
}

// local makes a socket of TCP that cannot leave this machine. Binding to a device is free for everyone since Linux 5.7.
func local(flags int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags&unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.BindToDevice(fd, loopback); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func errnoOf(err error) unix.Errno {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return unix.EPERM
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) (int, unix.Errno) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// Find tries the whole mechanism on a thread that ends afterwards. The error says what forbids it.
func Find() error {
	fd, err := local(0)
	if err != nil {
		return fmt.Errorf("no socket can be bound to the device %s: %w", loopback, err)
	}
	unix.Close(fd)
	listeners, tried := make(chan int), make(chan error)
	onThread(func() {
		listener, err := -1, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			listener, err = seccomp.Restrict(true)
		}
		listeners <- listener
		if err == nil {
			var fd int
			if fd, err = ask(); err == nil {
				var on string
				if on, err = unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err == nil && on != loopback {
					err = fmt.Errorf("the socket is bound to %q", on)
				}
				unix.Close(fd)
			}
		}
		tried <- err
	})
	if listener := <-listeners; listener >= 0 {
		go Answer(listener)
	}
	err = <-tried
	switch {
	case errors.Is(err, unix.EBUSY):
		return errors.New("another program answers the system calls of this container (seccomp's user notification)")
	case errors.Is(err, unix.EINVAL):
		return errors.New("the kernel is older than Linux 5.19")
	case err != nil:
		return fmt.Errorf("seccomp's user notification: %w", err)
	}
	return nil
}

// ask makes a socket as a session does. unix.Socket would keep the processor while it waits, and the answer comes from
// this process.
func ask() (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// onThread runs f on a thread that ends with it. The runtime parks the main thread instead of ending it, so a goroutine
// that begins there gives up its place once f has another thread.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		over := make(chan struct{})
		onThread(func() { defer close(over); f() })
		<-over
	}()
}
