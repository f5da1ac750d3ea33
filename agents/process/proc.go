package process

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of the times in /proc/PID/stat. USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// proc is one line of /proc/PID/stat: as much as is needed to find a tree and to tell two processes with the same
// number apart.
type proc struct {
	pid, ppid int
	state     byte
	start     uint64        // ticks since boot
	cpu       time.Duration // its own and that of the children it has waited for
}

// dead reports whether only the exit status is left: nothing to signal, and no children any more.
func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' }

// parseStat reads /proc/PID/stat. The name of the program stands in parentheses and may itself contain blanks and
// parentheses, so everything is counted from the last one.
func parseStat(b []byte) (proc, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open {
		return proc{}, false
	}
	pid, err := strconv.Atoi(string(b[:open-1]))
	f := bytes.Fields(b[end+1:])
	if err != nil || len(f) < 20 || len(f[0]) != 1 {
		return proc{}, false
	}
	p := proc{pid: pid, state: f[0][0]}
	var ticks [4]int64 // utime, stime, cutime, cstime: fields 14 to 17, and the state is field 3
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(string(f[11+i]), 10, 64); err != nil {
			return proc{}, false
		}
		p.cpu += time.Duration(ticks[i]) * tick
	}
	if p.ppid, err = strconv.Atoi(string(f[1])); err != nil {
		return proc{}, false
	}
	if p.start, err = strconv.ParseUint(string(f[19]), 10, 64); err != nil {
		return proc{}, false
	}
	return p, true
}

// look reads the process with this number; the error is ESRCH when there is none.
func look(pid int) (proc, error) {
	var buf [1024]byte // a stat line is under 400 bytes
	n, err := readProc(pid, "stat", buf[:])
	if err == unix.ENOENT {
		return proc{}, unix.ESRCH
	}
	if err != nil {
		return proc{}, err
	}
	p, ok := parseStat(buf[:n])
	if !ok {
		return proc{}, unix.EINVAL
	}
	return p, nil
}

// readProc fills buf from /proc/PID/name. It is os.ReadFile without the allocations and without the poller: a walk
// reads one file for every process of the machine.
func readProc(pid int, name string, buf []byte) (int, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	total := 0
	for total < len(buf) {
		n, err := unix.Read(fd, buf[total:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
		total += n
	}
	return total, nil
}

// walk calls visit for every process, in the order of their numbers. It reads /proc a few entries at a time on
// purpose: the kernel looks for the next number at each call, so a process that forks a successor and exits, again and
// again, is met at the end of the walk. A list made beforehand would always be one fork behind.
//
// An error means that there may be processes it has not met.
func walk(visit func(proc)) (missed error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var buf [256]byte
	names := make([]string, 0, 16)
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n <= 0 {
			return missed
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			switch p, err := look(pid); err {
			case nil:
				visit(p)
			case unix.ESRCH: // ended meanwhile
			default:
				missed = err // out of descriptors, say
			}
		}
	}
}

// restricted reports whether the process has no_new_privs, which it cannot lose and passes on to its children.
func restricted(pid int) bool {
	var buf [4096]byte
	n, err := readProc(pid, "status", buf[:])
	return err == nil && bytes.Contains(buf[:n], []byte("\nNoNewPrivs:\t1\n"))
}

// signal sends sig to exactly this process. The number alone may belong to somebody else by now; a pidfd opened first
// and the start time read afterwards settle who it is. Where pidfds are refused (kernels before 5.3, old container
// profiles) a window of microseconds remains.
func (p proc) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == unix.ESRCH {
		return err
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now, err := look(p.pid); err != nil || now.start != p.start {
		return unix.ESRCH
	}
	if err == nil {
		if err = unix.PidfdSendSignal(fd, sig, nil, 0); err == nil || err == unix.ESRCH {
			return err
		}
	}
	return unix.Kill(p.pid, sig)
}
