package pid1

import (
	"runtime"
	"syscall"
	"unsafe"
)

// child describes how a child becomes the command between fork and execve. The child inherits descriptors unchanged.
type child struct {
	path, dir string
	argv, env []string
	session   bool // a session of its own, not only a process group
	terminal  bool // its group becomes the foreground of the terminal on stdin

	// Copies of path, dir, argv and env for the child, which must not allocate.
	rawPath, rawDir *byte
	rawArgv, rawEnv []*byte

	report [2]int // a pipe
	group  int32
	errno  syscall.Errno
}

// fork starts the program. If all our signals are blocked, syscall.ForkExec would leave them blocked in the program.
func (b *child) fork() (pid int, err error) {
	if keeps != keepsAll {
		return syscall.ForkExec(b.path, b.argv, &syscall.ProcAttr{
			Dir: b.dir, Env: b.env, Files: []uintptr{0, 1, 2},
			Sys: &syscall.SysProcAttr{Setsid: b.session, Setpgid: !b.session, Foreground: b.terminal},
		})
	}
	if err := b.convert(); err != nil {
		return 0, err
	}
	if err := syscall.Pipe2(b.report[:], syscall.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer syscall.Close(b.report[0])
	n, errno := b.clone()
	_ = syscall.Close(b.report[1])
	if errno != 0 {
		return 0, errno
	}
	// execve closes the pipe; otherwise the child writes the error to it before it ends.
	for read, err := 0, error(syscall.EINTR); err == syscall.EINTR; {
		text := (*[unsafe.Sizeof(b.errno)]byte)(unsafe.Pointer(&b.errno))
		if read, err = syscall.Read(b.report[0], text[:]); read <= 0 {
			b.errno = 0
		}
	}
	if b.errno != 0 {
		var ws syscall.WaitStatus
		for err := error(syscall.EINTR); err == syscall.EINTR; {
			_, err = syscall.Wait4(int(n), &ws, 0, nil)
		}
		return 0, b.errno
	}
	return int(n), nil
}

// convert fills the raw fields with C copies of the others.
func (b *child) convert() (err error) {
	if b.rawPath, err = syscall.BytePtrFromString(b.path); err != nil {
		return err
	}
	if b.dir != "" {
		if b.rawDir, err = syscall.BytePtrFromString(b.dir); err != nil {
			return err
		}
	}
	if b.rawArgv, err = syscall.SlicePtrFromStrings(b.argv); err == nil {
		b.rawEnv, err = syscall.SlicePtrFromStrings(b.env)
	}
	return err
}

// clone forks; the child does not return. It makes only system calls, because it has one thread and no scheduler. All
// its signals are blocked, TTOU among them, until just before execve.
//
//go:norace
//go:nosplit
//go:noinline
func (b *child) clone() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		runtime.KeepAlive(b)
		return pid, errno
	}
	if b.session {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	} else {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0)
	}
	if b.terminal {
		pid, _, _ = syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
		b.group = int32(pid)
		_, _, _ = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&b.group)))
	}
	if b.rawDir != nil {
		_, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(b.rawDir)), 0, 0)
	}
	if errno == 0 {
		const nofile, setmask = 7, 2 // the runtime raised the limit of descriptors
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, nofile, uintptr(unsafe.Pointer(&files)), 0, 0, 0)
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setmask, uintptr(unsafe.Pointer(&mask)), 0,
			unsafe.Sizeof(mask), 0, 0)
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(b.rawPath)),
			uintptr(unsafe.Pointer(&b.rawArgv[0])), uintptr(unsafe.Pointer(&b.rawEnv[0])))
	}
	b.errno = errno
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(b.report[1]), uintptr(unsafe.Pointer(&b.errno)),
		unsafe.Sizeof(b.errno))
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, exitNotFound, 0, 0)
	}
}
