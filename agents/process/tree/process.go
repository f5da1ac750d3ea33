package tree

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of the times in /proc/PID/stat. USER_HZ is 100 on every Linux that Go supports.
const tick = 10 * time.Millisecond

// Process holds the fields of /proc/PID/stat that are needed to find a tree, and to distinguish two processes with
// the same number.
type Process struct {
	PID, PPID int
	Group     int           // its process group
	State     byte          // as ps shows it, such as R, S, D, T or Z
	Start     uint64        // ticks since boot
	CPU       time.Duration // its own and that of the children it has waited for
}

// ID distinguishes two processes with the same number.
type ID struct {
	PID   int
	Start uint64
}

// ID identifies the process among all processes since boot.
func (p Process) ID() ID { return ID{p.PID, p.Start} }

// Dead reports whether only the exit status is left: the process can no longer receive signals or have children.
func (p Process) Dead() bool { return p.State == 'Z' || p.State == 'X' }

// parseStat reads /proc/PID/stat. The program's name, in parentheses, may itself contain blanks and parentheses, so
// fields are counted from the last parenthesis.
func parseStat(b []byte) (Process, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open {
		return Process{}, false
	}
	pid, err := strconv.Atoi(string(b[:open-1]))
	f := bytes.Fields(b[end+1:])
	if err != nil || len(f) < 20 || len(f[0]) != 1 {
		return Process{}, false
	}
	number := func(field int) (n int64) { // as proc(5) counts; the state is field 3
		n, e := strconv.ParseInt(string(f[field-3]), 10, 64)
		err = cmp.Or(err, e)
		return n
	}
	p := Process{PID: pid, State: f[0][0], PPID: int(number(4)), Group: int(number(5)), Start: uint64(number(22))}
	p.CPU = time.Duration(number(14)+number(15)+number(16)+number(17)) * tick // user, system, and its children's
	return p, err == nil
}

// Find reads the process with this number; the error is ESRCH when there is none.
func Find(pid int) (Process, error) {
	var buf [1024]byte // a stat line is under 400 bytes
	n, err := ReadFile(pid, "stat", buf[:])
	if err == syscall.ENOENT {
		return Process{}, syscall.ESRCH
	}
	if err != nil {
		return Process{}, err
	}
	p, ok := parseStat(buf[:n])
	if !ok {
		return Process{}, syscall.EINVAL
	}
	return p, nil
}

// ReadFile fills buf from /proc/PID/name and returns the number of bytes. It is os.ReadFile without allocations and
// without the poller: a walk reads one file for every process of the machine.
func ReadFile(pid int, name string, buf []byte) (int, error) {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	total := 0
	for total < len(buf) {
		n, err := syscall.Read(fd, buf[total:])
		if err != nil && err != syscall.EINTR {
			return total, err
		}
		if n == 0 {
			break
		}
		total += max(n, 0)
	}
	return total, nil
}

// ErrNoProc says that processes cannot be found because there is no /proc.
var ErrNoProc = errors.New("/proc is not mounted")

// Walk calls visit for every process, sorted by number. It reads /proc a few entries at a time on purpose: the kernel
// looks for the next number at each call, so at its end the walk meets even a process that forks a successor and
// exits, again and again. A list made before the walk would always be one fork behind.
//
// After an error there may be processes that Walk has not met. The error is ErrNoProc when there is no /proc, or an
// empty folder in its place, as in a chroot.
func Walk(visit func(Process)) error { return walk("/proc", visit) }

func walk(dir string, visit func(Process)) (missed error) {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT {
		return ErrNoProc
	}
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	met := false
	var buf [256]byte
	names := make([]string, 0, 16)
	for {
		n, err := syscall.ReadDirent(fd, buf[:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n <= 0 && !met { // not even this process
			return ErrNoProc
		}
		if n <= 0 {
			return missed
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			met = true
			switch p, err := Find(pid); err {
			case nil:
				visit(p)
			case syscall.ESRCH: // ended meanwhile
			default:
				missed = err // for example out of descriptors
			}
		}
	}
}

// pidfd_open and pidfd_send_signal have these numbers on every architecture. Package unix also has them, but
// importing it would delay pid1.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// Signal sends sig to exactly this process; the error is ESRCH when it has ended. Meanwhile its number may belong to
// another process. So Signal first opens a pidfd and then compares the start time. Where pidfds are refused (kernels
// before 5.3, old container profiles) a window of microseconds remains.
func (p Process) Signal(sig syscall.Signal) error {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(p.PID), 0, 0)
	if errno == syscall.ESRCH {
		return errno
	}
	if errno == 0 {
		defer syscall.Close(int(fd))
	}
	if now, err := Find(p.PID); err != nil || now.Start != p.Start {
		return syscall.ESRCH
	}
	if errno == 0 {
		switch _, _, errno = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0); errno {
		case 0:
			return nil
		case syscall.ESRCH:
			return errno
		}
	}
	return syscall.Kill(p.PID, sig)
}
