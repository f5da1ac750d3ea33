package seccomp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// ran interprets a filter as the kernel does. It shares no code with the compiler.
func ran(t *testing.T, code []unix.SockFilter, arch, call uint32, args [6]uint64) unix.Errno {
	t.Helper()
	data := []uint32{call, arch, 0, 0}
	for _, a := range args {
		data = append(data, uint32(a), uint32(a>>32))
	}
	var acc uint32
	for at := 0; ; at++ {
		skip := func(yes bool) {
			if yes {
				at += int(code[at].Jt)
			} else {
				at += int(code[at].Jf)
			}
		}
		switch c := code[at]; c.Code {
		case 0x20:
			acc = data[c.K/4]
		case 0x54:
			acc &= c.K
		case 0x15:
			skip(acc == c.K)
		case 0x35:
			skip(acc >= c.K)
		case 0x06:
			if c.K>>16 == 0x7fff {
				return 0
			}
			if c.K == unix.SECCOMP_RET_USER_NOTIF {
				return asks
			}
			return unix.Errno(c.K & 0xffff)
		default:
			t.Fatalf("unknown instruction %d: %+v", at, c)
		}
	}
}

// TestFilter checks calls by which a sandboxed program might evade the filter, and calls that must work.
func TestFilter(t *testing.T) {
	const arch, junk = 7, 5 << 32 // in the upper half of an int, which the kernel ignores
	const cloexec, mptcp, smc, sctp, vsock, tipc, alg = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 262, 256, 132, 40, 30, 38
	inet, inet6, stream := uint64(unix.AF_INET), uint64(unix.AF_INET6), uint64(unix.SOCK_STREAM)
	tests := []struct {
		call uint32
		args [6]uint64
		want unix.Errno
	}{
		{unix.SYS_READ, [6]uint64{}, 0},
		{unix.SYS_READ | x32, [6]uint64{}, unix.ENOSYS},
		{unix.SYS_IO_URING_SETUP, [6]uint64{1, 4096}, unix.ENOSYS},
		{unix.SYS_ADD_KEY, [6]uint64{}, unix.ENOSYS},
		{unix.SYS_REQUEST_KEY, [6]uint64{}, unix.ENOSYS},
		{unix.SYS_KEYCTL, [6]uint64{0, 0}, unix.ENOSYS},
		{unix.SYS_PRLIMIT64, [6]uint64{0, 7, 4096, 4096}, 0},
		{unix.SYS_PRLIMIT64, [6]uint64{junk, 7, 4096}, 0},
		{unix.SYS_PRLIMIT64, [6]uint64{9, 7, 0, 4096}, 0},
		{unix.SYS_PRLIMIT64, [6]uint64{9, 7, 4096}, unix.EPERM},
		{unix.SYS_PRLIMIT64, [6]uint64{9, 7, 1 << 32}, unix.EPERM},
		{unix.SYS_PRLIMIT64, [6]uint64{junk | 9, 7, 1<<32 | 1}, unix.EPERM},
		{unix.SYS_SOCKET, [6]uint64{inet, stream | cloexec, 0}, 0},
		{unix.SYS_SOCKET, [6]uint64{inet6 | junk, stream | junk, unix.IPPROTO_TCP | junk}, 0},
		{unix.SYS_SOCKET, [6]uint64{inet, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, 0},
		{unix.SYS_SOCKET, [6]uint64{inet6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, 0},
		{unix.SYS_SOCKET, [6]uint64{inet, unix.SOCK_RAW, unix.IPPROTO_ICMP}, 0},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, 0},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, 15}, 0},
		{unix.SYS_SOCKET, [6]uint64{inet, stream, mptcp}, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{inet6 | junk, stream | cloexec, mptcp | junk}, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{inet, stream, smc}, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{inet, stream, sctp}, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{inet, unix.SOCK_SEQPACKET, 0}, unix.ESOCKTNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{inet, unix.SOCK_PACKET, 768}, unix.ESOCKTNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET, unix.SOCK_RAW, 768}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{vsock, stream}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_SMC, stream}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{alg, unix.SOCK_SEQPACKET}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKETPAIR, [6]uint64{tipc, unix.SOCK_DGRAM}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, stream}, 0},
		{unix.SYS_SENDTO, [6]uint64{3, 1, 1, unix.MSG_NOSIGNAL, 1, 16}, 0},
		{unix.SYS_SENDTO, [6]uint64{3, 1, 1, unix.MSG_FASTOPEN | unix.MSG_NOSIGNAL, 1, 16}, unix.EOPNOTSUPP},
		{unix.SYS_SENDMSG, [6]uint64{3, 1, unix.MSG_DONTWAIT, unix.MSG_FASTOPEN}, 0},
		{unix.SYS_SENDMSG, [6]uint64{3, 1, unix.MSG_FASTOPEN}, unix.EOPNOTSUPP},
		{unix.SYS_SENDMMSG, [6]uint64{3, 1, 1, unix.MSG_FASTOPEN}, unix.EOPNOTSUPP},
		{unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, 0},
		{unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.TCP_ULP}, 0},
		{unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT}, unix.EOPNOTSUPP},
		{unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_TCP | junk, unix.TCP_ULP | junk}, unix.EOPNOTSUPP},
	}
	for _, tt := range tests {
		filter := compile(arch, false)
		if got := ran(t, filter, arch, tt.call, tt.args); got != tt.want {
			t.Errorf("call %d %x: %v, want %v", tt.call, tt.args, got, tt.want)
		}
		if got := ran(t, filter, arch+1, tt.call, tt.args); got != unix.ENOSYS {
			t.Errorf("call %d of another architecture: %v, want ENOSYS", tt.call, got)
		}
	}
}

// TestLocal checks which sockets a session gets that reaches other machines only through a proxy.
func TestLocal(t *testing.T) {
	const arch, junk = 7, 5 << 32
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	inet, inet6 := uint64(unix.AF_INET), uint64(unix.AF_INET6)
	for _, tt := range []struct {
		args [6]uint64
		want unix.Errno
	}{
		{[6]uint64{inet, unix.SOCK_STREAM | flags, 0}, asks},
		{[6]uint64{inet | junk, unix.SOCK_STREAM | junk, unix.IPPROTO_TCP | junk}, asks},
		{[6]uint64{inet, unix.SOCK_STREAM, 262}, unix.EPROTONOSUPPORT}, // MPTCP
		{[6]uint64{inet, unix.SOCK_DGRAM | flags, 0}, unix.EPROTONOSUPPORT},
		{[6]uint64{inet, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, unix.EPROTONOSUPPORT},
		{[6]uint64{inet, unix.SOCK_RAW, unix.IPPROTO_ICMP}, unix.EPERM},
		{[6]uint64{inet, unix.SOCK_PACKET, 768}, unix.ESOCKTNOSUPPORT},
		{[6]uint64{inet6, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
		{[6]uint64{inet6 | junk, unix.SOCK_DGRAM, 0}, unix.EAFNOSUPPORT},
		{[6]uint64{inet6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}, unix.EAFNOSUPPORT},
		{[6]uint64{unix.AF_PACKET, unix.SOCK_RAW, 768}, unix.EAFNOSUPPORT},
		{[6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, 0},
		{[6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, 0},
	} {
		if got := ran(t, compile(arch, true), arch, unix.SYS_SOCKET, tt.args); got != tt.want {
			t.Errorf("socket %x: %v, want %v", tt.args, got, tt.want)
		}
	}
}
