// Package seccomp refuses system calls to a thread, and to every process that the thread starts afterwards: those
// calls that bypass the rules of Landlock. It needs no privileges but no_new_privs.
package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusal makes some system calls fail if all its conditions hold.
type refusal struct {
	calls []uint32
	when  []condition
	errno unix.Errno
}

// condition tests half of an argument. The kernel reads ints from the lower half, whatever the upper one contains.
type condition struct {
	arg    uint32
	upper  bool
	mask   uint32 // 0 keeps all bits
	not    bool   // holds for none of the values
	values []uint32
}

func is(arg uint32, values ...uint32) condition { return condition{arg: arg, values: values} }
func not(arg uint32, values ...uint32) condition {
	return condition{arg: arg, not: true, values: values}
}

// has tests that one of these bits is set.
func has(arg, bits uint32) condition {
	return condition{arg: arg, mask: bits, not: true, values: []uint32{0}}
}

// upper tests that the upper half is not 0.
func upper(arg uint32) condition {
	return condition{arg: arg, upper: true, not: true, values: []uint32{0}}
}

// otherType tests that the socket's type is none of these. It ignores SOCK_CLOEXEC and SOCK_NONBLOCK.
func otherType(types ...uint32) condition {
	return condition{arg: 1, mask: 0xf, not: true, values: types}
}

// always holds the refusals, which are those of every sandbox.
//
// Landlock checks signals but not limits, and a limit of one second of processor time kills as well. A process may
// still change the priority, scheduling policy and affinity of others of its account, which only slows them down:
// programs set those of their own threads by the thread's number.
//
// Some socket families reach the host or other machines without a TCP port (vsock, TIPC), or read all packets of this
// machine (AF_PACKET, and also AF_INET with SOCK_PACKET). The operations of io_uring pass no filter.
var always = []refusal{
	// prlimit64 for another process with a new limit. One half of the limit's address may be 0.
	{[]uint32{unix.SYS_PRLIMIT64}, []condition{not(0, 0), not(2, 0)}, unix.EPERM},
	{[]uint32{unix.SYS_PRLIMIT64}, []condition{not(0, 0), upper(2)}, unix.EPERM},
	{
		[]uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR},
		[]condition{not(0, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)},
		unix.EAFNOSUPPORT,
	},
	{
		[]uint32{unix.SYS_SOCKET},
		[]condition{is(0, unix.AF_INET, unix.AF_INET6), otherType(unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW)},
		unix.ESOCKTNOSUPPORT,
	},
	{[]uint32{unix.SYS_IO_URING_SETUP}, nil, unix.ENOSYS},
	// The kernel's keyrings belong to an account: a session read a key of another one, and one of the operator's.
	{[]uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL}, nil, unix.ENOSYS},
	// Landlock checks connect and bind, and only on plain TCP sockets. It checks neither MPTCP and SMC, which speak TCP
	// too, nor data that opens the connection. Programs that fail with one of these fall back to TCP.
	{
		[]uint32{unix.SYS_SOCKET},
		[]condition{
			is(0, unix.AF_INET, unix.AF_INET6), otherType(unix.SOCK_DGRAM, unix.SOCK_RAW), not(2, 0, unix.IPPROTO_TCP),
		},
		unix.EPROTONOSUPPORT,
	},
	{[]uint32{unix.SYS_SENDTO, unix.SYS_SENDMMSG}, []condition{has(3, unix.MSG_FASTOPEN)}, unix.EOPNOTSUPP},
	{[]uint32{unix.SYS_SENDMSG}, []condition{has(2, unix.MSG_FASTOPEN)}, unix.EOPNOTSUPP},
	{
		[]uint32{unix.SYS_SETSOCKOPT}, // TCP_ULP makes SMC of TCP
		[]condition{is(1, unix.SOL_TCP), is(2, unix.TCP_FASTOPEN_CONNECT, unix.TCP_ULP)}, unix.EOPNOTSUPP,
	},
}

// local holds the refusals of a session that reaches other machines only through the shim's proxy: of the sockets of
// the Internet, it has those of IPv4 and TCP, which the shim makes (package gate). Each errno is the one by which
// programs know that there is no such thing: they go on with IPv4, and Java lists the network's devices without UDP.
var local = []refusal{
	{[]uint32{unix.SYS_SOCKET}, []condition{is(0, unix.AF_INET6)}, unix.EAFNOSUPPORT},
	{
		[]uint32{unix.SYS_SOCKET},
		[]condition{is(0, unix.AF_INET), otherType(unix.SOCK_STREAM, unix.SOCK_DGRAM)},
		unix.EPERM,
	},
	{[]uint32{unix.SYS_SOCKET}, []condition{is(0, unix.AF_INET), otherType(unix.SOCK_STREAM)}, unix.EPROTONOSUPPORT},
	{[]uint32{unix.SYS_SOCKET}, []condition{is(0, unix.AF_INET)}, asks},
}

// asks in place of an errno lets the holder of the filter's listener answer the call.
const asks unix.Errno = 0xffff

// arches are the machines for which the package has system call numbers, by Go's names. Both are little-endian.
var arches = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// x32 is the bit in a system call's number that selects amd64's other set of system calls.
const x32 = 0x40000000

// The offsets in struct seccomp_data, whose arguments have 8 bytes each.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// Find reports why no system calls can be refused here; nil when they can.
func Find() error {
	if arches[runtime.GOARCH] == 0 {
		return errors.New("no seccomp filter for " + runtime.GOARCH)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	switch errno {
	case 0:
		return nil
	case unix.ENOSYS, unix.EINVAL:
		return errors.New("the kernel has no seccomp")
	case unix.EPERM, unix.EACCES:
		return errors.New("the container's seccomp profile refuses seccomp")
	}
	return fmt.Errorf("the kernel refuses seccomp: %w", errno)
}

// Restrict permanently restricts the calling thread, which needs no_new_privs or CAP_SYS_ADMIN. With local, sockets of
// the Internet reach this machine only: package gate has to answer at the listener, which is -1 otherwise.
func Restrict(local bool) (listener int, err error) {
	var flags uintptr
	if local {
		// Without the second flag, since Linux 5.19, a signal interrupts the question and asks it again.
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	filter := compile(arches[runtime.GOARCH], local)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	switch {
	case errno != 0:
		return -1, fmt.Errorf("cannot refuse system calls: %w", errno)
	case !local:
		return -1, nil
	}
	return int(fd), nil
}

// compile makes the program that the kernel runs at each system call. It refuses all system calls of other
// architectures, because they have other numbers.
func compile(arch uint32, noRemote bool) []unix.SockFilter {
	all := always
	if noRemote {
		all = slices.Concat(always, local)
	}
	code := []unix.SockFilter{
		load(atArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		fail(unix.ENOSYS),
		load(atNumber),
		jump(unix.BPF_JGE, x32, 0, 1),
		fail(unix.ENOSYS),
	}
	var calls []uint32
	for _, r := range all {
		for _, call := range r.calls {
			if !slices.Contains(calls, call) {
				calls = append(calls, call)
				code = append(code, compileCall(all, call)...)
			}
		}
	}
	return append(code, allow)
}

// compileCall compiles all refusals of one system call. Every other call costs one instruction here, because the kernel
// evaluates a new filter once for each system call that exists.
func compileCall(all []refusal, call uint32) []unix.SockFilter {
	var code []unix.SockFilter
	for _, r := range all {
		if slices.Contains(r.calls, call) {
			code = append(code, r.compile()...)
		}
	}
	code = append(code, allow)
	return append([]unix.SockFilter{jump(unix.BPF_JEQ, call, 0, uint8(len(code)))}, code...)
}

// pass marks the jump to the end of a refusal until its length is known.
const pass = 255

// compile compiles one refusal.
func (r refusal) compile() []unix.SockFilter {
	var code []unix.SockFilter
	for _, c := range r.when {
		code = append(code, c.compile()...)
	}
	code = append(code, fail(r.errno))
	for i := range code {
		for _, to := range []*uint8{&code[i].Jt, &code[i].Jf} {
			if *to == pass {
				*to = uint8(len(code) - i - 1)
			}
		}
	}
	return code
}

func (c condition) compile() []unix.SockFilter {
	at := atArgs + 8*c.arg
	if c.upper {
		at += 4
	}
	code := []unix.SockFilter{load(at)}
	if c.mask != 0 {
		code = append(code, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask})
	}
	for i, value := range c.values {
		left := len(c.values) - 1 - i
		switch {
		case c.not:
			code = append(code, jump(unix.BPF_JEQ, value, pass, 0))
		case left == 0:
			code = append(code, jump(unix.BPF_JEQ, value, 0, pass))
		default:
			code = append(code, jump(unix.BPF_JEQ, value, uint8(left), 0))
		}
	}
	return code
}

var allow = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func jump(test uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: value}
}

func fail(errno unix.Errno) unix.SockFilter {
	if errno == asks {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF}
	}
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}
