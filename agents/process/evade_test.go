package process

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/seccomp"
)

const mptcp = 262 // IPPROTO_MPTCP

// ways are system calls that Landlock hardly checks, with their results in a sandbox and without one. A result
// is empty where the machine decides. Calls to a peer are for processes of one account.
var ways = []struct {
	name string
	try  func(pid, port int) error
	peer bool
	says [2]string
}{
	{"limit another process", func(pid, _ int) error { return setLimit(pid) }, true, [2]string{"EPERM", "ok"}},
	{"read another's limit", func(pid, _ int) error {
		return unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &unix.Rlimit{})
	}, true, [2]string{"ok", "ok"}},
	{"limit itself", func(int, int) error { return setLimit(0) }, false, [2]string{"ok", "ok"}},
	{"connect by MPTCP", func(_, port int) error {
		fd, err := open(unix.AF_INET, unix.SOCK_STREAM, mptcp)
		if err != nil {
			return err
		}
		return unix.Connect(fd, loopback(port))
	}, false, [2]string{"EPROTONOSUPPORT", "ok"}},
	{"listen by MPTCP", func(_, port int) error {
		fd, err := open(unix.AF_INET, unix.SOCK_STREAM, mptcp)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 2}})
	}, false, [2]string{"EPROTONOSUPPORT", "ok"}},
	{"listen without a family", func(_, port int) error {
		return bindUnspecified(port)
	}, false, [2]string{"EACCES", "EADDRINUSE"}},
	{"listen on another address", func(_, port int) error {
		return unix.Bind(stream(), &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 3}})
	}, false, [2]string{"EACCES", "ok"}},
	{"sendto with FASTOPEN", func(_, port int) error {
		return unix.Sendto(stream(), []byte("x"), unix.MSG_FASTOPEN, loopback(port))
	}, false, [2]string{"ENOTSUP", "ok"}},
	{"sendmsg with FASTOPEN", func(_, port int) error {
		return unix.Sendmsg(stream(), []byte("x"), nil, loopback(port), unix.MSG_FASTOPEN)
	}, false, [2]string{"ENOTSUP", "ok"}},
	{"sendmmsg with FASTOPEN", func(_, port int) error { return sendMany(port) }, false, [2]string{"ENOTSUP", "ok"}},
	{"connect later", func(int, int) error {
		return unix.SetsockoptInt(stream(), unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
	}, false, [2]string{"ENOTSUP", "ok"}},
	{"another protocol upon TCP", func(int, int) error {
		return unix.SetsockoptString(stream(), unix.SOL_TCP, unix.TCP_ULP, "smc")
	}, false, [2]string{"ENOTSUP", ""}},
	{
		"vsock", func(int, int) error { return second(open(unix.AF_VSOCK, unix.SOCK_STREAM, 0)) }, false,
		[2]string{"EAFNOSUPPORT", ""},
	},
	{
		"packets", func(int, int) error { return second(open(unix.AF_PACKET, unix.SOCK_RAW, 0x300)) }, false,
		[2]string{"EAFNOSUPPORT", ""},
	},
	{"packets of old", func(int, int) error {
		return second(open(unix.AF_INET, unix.SOCK_PACKET, 0x300))
	}, false, [2]string{"ESOCKTNOSUPPORT", ""}},
	{"io_uring", func(int, int) error {
		var params [120]byte
		if _, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0); errno != 0 {
			return errno
		}
		return nil
	}, false, [2]string{"ENOSYS", ""}},
}

func open(family, kind, protocol int) (int, error) {
	return unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
}

func second(_ int, err error) error { return err }

func stream() int {
	fd, err := open(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1
	}
	return fd
}

func loopback(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

// bindUnspecified binds a socket to a port of every address. The kernel permits that without a family, too.
func bindUnspecified(port int) error {
	fd := stream()
	to := unix.RawSockaddrInet4{Family: unix.AF_UNSPEC, Port: uint16(port>>8 | port&0xff<<8)}
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to)), 16); errno != 0 {
		return errno
	}
	return nil
}

// setLimit sets a limit to its present value.
func setLimit(pid int) error {
	var l unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &l); err != nil {
		return fmt.Errorf("cannot even read it: %v", err)
	}
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &l, nil)
}

func sendMany(port int) error {
	to := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(port>>8 | port&0xff<<8), Addr: [4]byte{127, 0, 0, 1}}
	text := [1]byte{'x'}
	part := unix.Iovec{Base: &text[0], Len: 1}
	message := struct {
		header unix.Msghdr
		sent   uint32
		_      uint32
	}{header: unix.Msghdr{Name: (*byte)(unsafe.Pointer(&to)), Namelen: 16, Iov: &part, Iovlen: 1}}
	_, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(stream()), uintptr(unsafe.Pointer(&message)), 1,
		unix.MSG_FASTOPEN, 0, 0)
	runtime.KeepAlive(&to)
	if errno != 0 {
		return errno
	}
	return nil
}

// evade tries all ways to a process and a port, and prints the results.
func evade(args []string) int {
	pid, _ := strconv.Atoi(args[0])
	port, _ := strconv.Atoi(args[1])
	for _, way := range ways {
		said := "ok"
		if err := way.try(pid, port); err != nil {
			said = err.Error()
			if errno := syscall.Errno(0); errors.As(err, &errno) {
				said = unix.ErrnoName(errno)
			}
		}
		fmt.Printf("%s: %s\n", way.name, said)
	}
	return 0
}

// sink is a TCP server on a port that no session may connect to.
func sink(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestSandboxEvaded tries the ways in a sandbox, in one with any port, and without one, where they are open. The
// configuration names the port.
func TestSandboxEvaded(t *testing.T) {
	t.Parallel()
	if err := seccomp.Find(); err != nil {
		t.Skip(err)
	}
	port, other := sink(t), spawn(t, "exec sleep 1000")
	defer func() {
		_ = syscall.Kill(other.PID, syscall.SIGKILL)
		<-other.Exit()
	}()
	mptcpHere := read("/proc/sys/net/mptcp/enabled") == "1"
	asUsers(t, func(t *testing.T, user string) {
		for mode, sandbox := range []agents.Sandbox{
			{Mode: agents.SandboxAuto}, {Mode: agents.SandboxAuto, AnyPort: true}, {Mode: agents.SandboxOff},
		} {
			job := sandboxed(t, "")
			job.Command = helperCommand("evade", itoa(other.PID), itoa(port))
			job.User, job.Sandbox.Mode, job.Sandbox.AnyPort = user, sandbox.Mode, sandbox.AnyPort
			job.Sandbox.Taken = []int{port}
			o := runJob(t, job)
			for _, way := range ways {
				want := way.says[mode/2]
				if want == "" || way.peer && user != "" || mode > 1 && !mptcpHere && strings.HasSuffix(way.name, "MPTCP") {
					continue
				}
				if !strings.Contains("\n"+o.Tail+"\n", "\n"+way.name+": "+want+"\n") {
					t.Errorf("%+v: want %q for %q in\n%s", sandbox, want, way.name, o.Tail)
				}
			}
		}
	})
}

// behave does what ordinary programs do, with the addresses of servers.
func behave(args []string) int {
	for i, network := range []string{"tcp", "udp", "unix"} {
		c, err := net.Dial(network, args[i])
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		if err != nil {
			fmt.Println("cannot talk by", network, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // by MPTCP, if possible
	if err != nil {
		fmt.Println("cannot listen:", err)
		return 1
	}
	l.Close()
	if _, err := net.Interfaces(); err != nil { // by netlink
		fmt.Println("cannot see the interfaces:", err)
	}
	runtime.LockOSThread()
	var cpus unix.CPUSet
	if err := errors.Join(unix.SchedGetaffinity(unix.Gettid(), &cpus),
		unix.SchedSetaffinity(unix.Gettid(), &cpus)); err != nil {
		fmt.Println("cannot set the affinity of a thread:", err)
	}
	if err := setLimit(0); err != nil {
		fmt.Println("cannot set a limit:", err)
	}
	return 0
}

// TestSandboxOrdinary runs what must still work in a sandbox.
func TestSandboxOrdinary(t *testing.T) {
	t.Parallel()
	port := sink(t)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	repo := t.TempDir()
	pages := httptest.NewServer(http.FileServer(http.Dir(repo)))
	defer pages.Close()
	_, pagesPort, _ := net.SplitHostPort(pages.Listener.Addr().String())
	asUsers(t, func(t *testing.T, user string) {
		job := sandboxed(t, "")
		path := os.TempDir() + "/" + token() // a unix socket's path is short
		local, err := net.Listen("unix", path)
		if err == nil {
			err = os.Chmod(path, 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		job.Command = helperCommand("behave", "127.0.0.1:"+itoa(port), udp.LocalAddr().String(), path)
		job.User, job.Sandbox.Connect, job.Sandbox.Read = user, []int{port}, []string{path}
		if o := runJob(t, job); o.Result != agents.Done || strings.Contains(o.Tail, "cannot") {
			t.Errorf("outcome %+v, want done without a refusal", o)
		}
	})
	for tool, script := range map[string]string{
		"git": `git init -q --bare $HOME/r && cp -r $HOME/r/. $REPO && cd $REPO && git update-server-info &&
			cd && git clone -q $URL c 2>&1`,
		"sh": `ulimit -n 100 && [ $(ulimit -n) = 100 ]`,
		"node": `node -e 'const http = require("http"), up = (port, next) =>
				http.createServer((q, a) => a.end("hi")).listen(port, "127.0.0.1", function () { next(this) })
			up(0, first => { const port = first.address().port // as get-port and dev servers do
				first.close(() => up(port, () => fetch("http://127.0.0.1:" + port).then(a => a.text())
					.then(t => process.exit(t == "hi" ? 0 : 1)))) })'`,
		"python3": `python3 -c 'import resource, os, threading, http.server, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) # as fixtures of pytest do
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_port).read()
resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)); resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
threading.Thread(target=lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))).start()'`,
	} {
		t.Run(tool, func(t *testing.T) {
			if _, err := Lookup(tool, "/", os.Environ()); err != nil {
				t.Skip(err)
			}
			job := sandboxed(t, "set -ex; "+script)
			job.Env = append(os.Environ(), job.Env[1:]...)
			job.Env = append(job.Env, "REPO="+repo, "URL="+pages.URL)
			p, _ := strconv.Atoi(pagesPort)
			job.Sandbox.Connect, job.Sandbox.Ephemeral, job.Sandbox.Write = []int{p}, tool != "git", []string{repo}
			if o := runJob(t, job); o.Result != agents.Done {
				t.Errorf("outcome %+v, want done", o)
			}
		})
	}
}

// A session mounts nothing, not even in a namespace of its own, where it has every capability.
func TestSandboxMounts(t *testing.T) {
	t.Parallel()
	const script = "unshare --user --map-root-user --mount --propagation unchanged mount -t tmpfs none . && echo mounted"
	asUsers(t, func(t *testing.T, user string) {
		for _, mode := range []agents.SandboxMode{agents.SandboxOff, agents.SandboxAuto} {
			job := sandboxed(t, script)
			job.User, job.Sandbox.Mode = user, mode
			switch got := runJob(t, job).Tail; {
			case mode == agents.SandboxOff && !strings.Contains(got, "mounted"):
				t.Skip("this account cannot mount without a sandbox either: " + got)
			case mode == agents.SandboxAuto && strings.Contains(got, "mounted"):
				t.Error("a session in a sandbox mounted a file system")
			}
		}
	})
}

// A session runs as root with what package managers need only if its role has root = true. Otherwise it changes nothing
// of other accounts: neither mode nor owner, times or attributes. It gains nothing else in either way.
func TestSessionCapabilities(t *testing.T) {
	needRoot(t)
	own, _ := strconv.ParseUint(capability(read("/proc/self/status"), "CapBnd"), 16, 64)
	if own&uint64(ordinary) != uint64(ordinary) {
		t.Skip("the machine lacks these capabilities")
	}
	for _, tt := range []struct {
		mode agents.SandboxMode
		root bool
		caps string
		may  string
	}{
		{agents.SandboxAuto, false, "0000000000000400", ""},
		{agents.SandboxOff, false, "0000000000000400", ""},
		// Without 2, DAC_READ_SEARCH, and 9, LINUX_IMMUTABLE.
		{agents.SandboxAuto, true, "00000000000005fb", "chmod touch chgrp setfattr chown setpriv"},
	} {
		job := sandboxed(t, `grep ^Cap /proc/self/status; mkdir -p $HOME && cd $HOME && : >mine && chmod 755 mine &&
			touch -d @1 mine && chown 0:0 mine || echo cannot work on its own files
			may() { "$@" >/dev/null 2>&1 && echo may ${1##*/}; }
			may chmod 777 $OTHER; may touch -d @1 $OTHER; may chgrp 0 $OTHER; may setfattr -n user.a -v b $OTHER
			may chown 65534 mine; may setpriv --reuid 65534 true
			date -s now >/dev/null 2>&1 && echo can set the clock; true`)
		other := filepath.Join(filepath.Dir(filepath.Dir(job.Home)), "outside", "file")
		if err := os.Chown(other, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		job.Env = append(job.Env, "OTHER="+other)
		job.Sandbox.Mode, job.Root = tt.mode, tt.root
		o := runJob(t, job)
		if strings.Contains(o.Tail, "cannot ") || strings.Contains(o.Tail, "can ") {
			t.Errorf("outcome %+v, want neither a refusal nor an evasion", o)
		}
		for what := range strings.FieldsSeq("chmod touch chgrp setfattr chown setpriv") {
			_, err := exec.LookPath(what)
			if got := strings.Contains(o.Tail, "may "+what); got != strings.Contains(tt.may, what) && err == nil {
				t.Errorf("%s, root %v: %s: got %v\n%s", tt.mode, tt.root, what, got, o.Tail)
			}
		}
		for set, want := range map[string]string{
			"CapPrm": tt.caps, "CapEff": tt.caps, "CapBnd": tt.caps, "CapInh": "0000000000000000", "CapAmb": "0000000000000000",
		} {
			if got := capability(o.Tail, set); got != want {
				t.Errorf("%s, root %v: %s is %s, want %s", tt.mode, tt.root, set, got, want)
			}
		}
	}
}

// No session reads what the operator types in a terminal, and each can have terminals of its own.
func TestSandboxTerminals(t *testing.T) {
	asUsers(t, func(t *testing.T, user string) {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Skip(err)
		}
		defer master.Close()
		if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
			t.Skip(err)
		}
		n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
		if err != nil {
			t.Skip(err)
		}
		job := sandboxed(t, `(exec 3<>/dev/pts/$N) 2>/dev/null && echo can read a terminal
			python3 -c 'import os, pty; m, s = pty.openpty(); os.write(s, b"x"); os.read(m, 1)' || echo cannot have a terminal
			script -qec true /dev/null || echo cannot record a terminal`)
		job.User = user
		job.Env = append(job.Env, "N="+itoa(n), "PATH=/usr/bin:/bin")
		has := user != "" || exec.Command("unshare", "-m", "mount", "-t", "devpts", "devpts", "/dev/pts").Run() == nil
		if o := runJob(t, job); strings.Contains(o.Tail, "can ") || has && strings.Contains(o.Tail, "cannot ") {
			t.Errorf("outcome %+v", o)
		}
	})
}

// Without the right to lower the bounding set, as in some containers, root must lose its capabilities at once.
func TestDropWithoutSetpcap(t *testing.T) {
	needRoot(t)
	left := make(chan uint64)
	onThread(func() {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		_ = unix.Capget(&head, &caps[0])
		caps[0].Effective &^= 1 << unix.CAP_SETPCAP
		caps[0].Permitted &^= 1 << unix.CAP_SETPCAP
		caps[0].Inheritable = 1 << unix.CAP_NET_RAW & caps[0].Permitted
		_ = unix.Capset(&head, &caps[0])
		dropCapabilities(ordinary, false)
		_ = unix.Capget(&head, &caps[0])
		left <- uint64(caps[1].Permitted|caps[1].Effective)<<32 |
			uint64(caps[0].Permitted|caps[0].Effective|caps[0].Inheritable)
	})
	if got := <-left; got&^uint64(ordinary) != 0 {
		t.Errorf("the thread keeps the capabilities %x, want only ordinary ones", got)
	}
}

func capability(status, set string) string {
	_, text, _ := strings.Cut(status, set+":\t")
	text, _, _ = strings.Cut(text, "\n")
	return text
}
