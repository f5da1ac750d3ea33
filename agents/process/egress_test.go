package process

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/landlock"
)

// The two machines of TestEgressMachines. The second answers at every port below, over TCP and UDP.
const (
	machineOne, machineTwo = "10.91.0.1", "10.91.0.2"
	allowedPort            = 8080
	refusedPort            = 8081
)

// secondMachine is the second machine: it prints what reaches it.
func secondMachine([]string) int {
	udp, err := net.ListenPacket("udp", ":53")
	if err != nil {
		return 3
	}
	go func() {
		buf := make([]byte, 100)
		for n, _, err := udp.ReadFrom(buf); err == nil; n, _, err = udp.ReadFrom(buf) {
			fmt.Printf("udp %s\n", buf[:n])
		}
	}()
	for _, port := range []int{allowedPort, refusedPort} {
		l, err := net.Listen("tcp", ":"+itoa(port))
		if err != nil {
			return 4
		}
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				fmt.Printf("tcp %d %s\n", port, c.RemoteAddr())
				go func() {
					_, _ = http.ReadRequest(bufio.NewReader(c)) // an answer before the request counts as an error
					_, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n\r\nhello"))
					_ = c.Close()
				}()
			}
		}()
	}
	fmt.Println("ready")
	select {}
}

// getOut tries, in a session, to reach the second machine in every way, and prints what was possible. It gets that
// machine's address on the link, and the name of the device that leads there.
func getOut(args []string) int {
	link, device := args[0], args[1]
	card, err := net.InterfaceByName(device)
	if err != nil { // in a network of its own
		card = &net.Interface{Index: 2}
	}
	there := func(port int) *unix.SockaddrInet4 {
		return &unix.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(machineTwo).To4())}
	}
	far := func(port int) *unix.SockaddrInet6 {
		return &unix.SockaddrInet6{Port: port, Addr: [16]byte(net.ParseIP(machineTwo).To16())}
	}
	say := func(what string, err error) {
		if err == nil {
			fmt.Println("can " + what)
			return
		}
		fmt.Printf("%s: %v\n", what, err)
	}
	socket := func(family, kind, protocol int) int {
		fd, err := open(family, kind, protocol)
		if err == nil {
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 300e3})
		}
		return fd
	}
	none := [16]byte{}
	unspec := func(fd int) {
		_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), 16)
	}
	say("connect", unix.Connect(socket(unix.AF_INET, unix.SOCK_STREAM, 0), there(refusedPort)))
	fd := socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	unspec(fd)
	say("connect after AF_UNSPEC", unix.Connect(fd, there(refusedPort)))
	say("unbind from lo", unix.BindToDevice(fd, ""))
	say("bind to the device", unix.BindToDevice(fd, device))
	say("bind to its number", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, card.Index))
	fd = socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	_ = unix.Bind(fd, &unix.SockaddrInet6{ZoneId: uint32(card.Index), Addr: [16]byte{0xfe, 0x80, 15: 0xef}})
	say("connect over IPv6 after a bind that fails", unix.Connect(fd, far(refusedPort)))
	fd = socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	say("send", unix.Sendto(fd, []byte("plain"), 0, there(53)))
	unspec(fd)
	say("send after AF_UNSPEC", unix.Sendto(fd, []byte("unspec"), 0, there(53)))
	info := unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(card.Index)})
	say("send by IP_PKTINFO", unix.Sendmsg(fd, []byte("pktinfo"), info, there(53), 0))
	say("send over IPv6 with a scope", unix.Sendto(socket(unix.AF_INET6, unix.SOCK_DGRAM, 0), []byte("scope"), 0,
		&unix.SockaddrInet6{Port: 53, ZoneId: uint32(card.Index), Addr: [16]byte(net.ParseIP(link))}))
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW} {
		say("ping", second(open(unix.AF_INET, kind, unix.IPPROTO_ICMP)))
		say("ping over IPv6", second(open(unix.AF_INET6, kind, unix.IPPROTO_ICMPV6)))
	}
	outside, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", os.Getppid()))
	if err == nil {
		err = unix.Setns(int(outside.Fd()), unix.CLONE_NEWNET)
	}
	say("enter the network of its shim", err)
	_, err = net.Dial("udp", "127.0.0.53:53")
	say("ask this machine's name server", err)
	for _, port := range []int{allowedPort, refusedPort} {
		answer, err := http.Get(fmt.Sprintf("http://%s:%d/", machineTwo, port))
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", answer.Status)
		}
		say(fmt.Sprintf("ask the proxy for port %d", port), err)
	}
	say("relay", relay())
	return 0
}

// relay connects to a server of its own, which connects to the second machine, by itself and by the proxy.
func relay() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil // the session's own servers have to work
	}
	u, _ := url.Parse(os.Getenv("HTTPS_PROXY"))
	to := machineTwo + ":" + itoa(refusedPort)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if out, err := net.DialTimeout("tcp", to, 300*time.Millisecond); err == nil {
			_, _ = fmt.Fprintln(c, "200", out)
			return
		}
		out, err := net.Dial("tcp", u.Host)
		if err != nil {
			return
		}
		request, _ := http.NewRequest(http.MethodConnect, "http://"+to, nil)
		password, _ := u.User.Password()
		request.SetBasicAuth(u.User.Username(), password)
		_, _ = fmt.Fprintf(out, "CONNECT %s HTTP/1.1\r\nProxy-Authorization: %s\r\n\r\n", to,
			request.Header.Get("Authorization"))
		line, _ := bufio.NewReader(out).ReadString('\n')
		_, _ = fmt.Fprint(c, line)
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	if !strings.Contains(line, " 403 ") {
		return nil
	}
	return fmt.Errorf("%s", strings.TrimSpace(line))
}

// machine is the first machine: it runs one session of a job, and prints its outcome. With the word docker, it first
// imitates the seccomp profile and the capabilities of a default container of Docker.
func machine(args []string) int {
	if len(args) > 1 {
		fmt.Println(likeDocker(args[0]))
		return 4
	}
	var job agents.Job
	if json.Unmarshal([]byte(args[0]), &job) != nil {
		return 3
	}
	cgroupRoot = func() string { return "" }
	r, err := NewReaper()
	if err != nil {
		return 5
	}
	text, _ := json.Marshal((&Executor{Reaper: r}).Run(context.Background(), job, nil))
	fmt.Println(string(text))
	return 0
}

// likeDocker restricts this thread, and executes machine again on it.
func likeDocker(arg string) error {
	runtime.LockOSThread()
	const usual = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FSETID | 1<<unix.CAP_FOWNER |
		1<<unix.CAP_MKNOD | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP |
		1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL |
		1<<unix.CAP_AUDIT_WRITE
	calls := []uint32{
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_PIDFD_GETFD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
	}
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for i, call := range calls {
		code = append(code, unix.SockFilter{
			Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i),
		})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	for c := range uintptr(64) {
		if uint64(usual)>>c&1 == 0 {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return errno
	}
	return syscall.Exec("/proc/self/exe", helperCommand("machine", arg), os.Environ())
}

// machines makes two network namespaces with a cable between them, and starts the second machine.
func machines(t *testing.T) (one, link string, heard *os.File) {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip of iproute2")
	}
	one, two := "disinto1x"+itoa(os.Getpid()), "disinto2x"+itoa(os.Getpid())
	ip := func(words string) error {
		return reaper.Run(context.Background(), Cmd{Argv: append([]string{"ip"}, strings.Fields(words)...)})
	}
	t.Cleanup(func() {
		_, _ = ip("netns del "+one), ip("netns del "+two)
	})
	for i, words := range []string{
		"netns add " + one, "netns add " + two,
		"link add cable netns " + one + " type veth peer name cable netns " + two,
		"-n " + one + " link set lo up", "-n " + one + " link set cable up", "-n " + two + " link set cable up",
		"-n " + one + " addr add " + machineOne + "/24 dev cable", "-n " + two + " addr add " + machineTwo + "/24 dev cable",
		"-n " + two + " addr add fe80::91/64 dev cable nodad",
	} {
		if err := ip(words); err != nil {
			if i < 3 {
				t.Skip("cannot make network namespaces: ", err)
			}
			t.Fatal(words, err)
		}
	}
	heard, err := os.Create(t.TempDir() + "/heard")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { heard.Close() })
	self, _ := os.Executable()
	argv := []string{"sh", "-c", `exec "$@"`, "sh", "ip", "netns", "exec", two, self, "test-helper", "second-machine"}
	child, err := reaper.Start("/bin/sh", argv,
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, heard.Fd(), heard.Fd()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(child.PID, syscall.SIGKILL); <-child.Exit() })
	eventually(t, "the second machine is ready", func() bool { return strings.Contains(read(heard.Name()), "ready") })
	return one, "fe80::91", heard
}

// TestEgressMachines runs a session on a machine that is connected to another, and lets it try all ways there, as root,
// as an account without rights, and in what a default container of Docker permits. Only the port that its egress has
// may hear from it.
func TestEgressMachines(t *testing.T) {
	if err := cmp.Or(sandboxGate(), sandboxNetwork()); err != nil {
		t.Skip(err)
	}
	one, link, heard := machines(t)
	self, _ := os.Executable()
	for _, tt := range []struct {
		name, user, docker string
		own                bool
	}{
		{"root", "", "", false},
		{"root in docker", "", "docker", false},
		{"nobody", stranger, "", false},
		{"nobody in docker", stranger, "docker", false},
		{"unprivileged supervisor in docker", "all", "docker", false},
		{"root, a network of its own", "", "", true},
		{"root in docker, a network of its own", "", "docker", true},
		{"nobody, a network of its own", stranger, "", true},
		{"unprivileged supervisor, a network of its own", "all", "", true},
		{"unprivileged supervisor in docker, a network of its own", "all", "docker", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := heard.Truncate(0); err != nil {
				t.Fatal(err)
			}
			if _, err := heard.Seek(0, 0); err != nil {
				t.Fatal(err)
			}
			job := newJob(t, "")
			job.Command = helperCommand("get-out", link, "cable")
			job.Env = append(job.Env, "HOME="+job.Home, "TMPDIR="+job.Dir)
			job.Sandbox = agents.Sandbox{
				Mode: agents.SandboxAuto, AnyPort: true, Egress: []string{machineTwo + ":" + itoa(allowedPort)},
				OwnNetwork: tt.own,
			}
			argv := []string{"ip", "netns", "exec", one, self, "test-helper", "machine"}
			switch tt.user {
			case "all":
				dir := filepath.Dir(job.Dir)
				copied, err := os.ReadFile(self)
				if err == nil {
					err = errors.Join(os.Chmod(dir, 0o777), os.WriteFile(dir+"/test", copied, 0o755))
				}
				if err != nil {
					t.Fatal(err)
				}
				argv = []string{
					"ip", "netns", "exec", one, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
					dir + "/test", "test-helper", "machine",
				}
			default:
				job.User = tt.user
			}
			text, _ := json.Marshal(job)
			argv = append(argv, string(text))
			if tt.docker != "" {
				argv = append(argv, tt.docker)
			}
			var out strings.Builder
			cmd := Cmd{Argv: argv, Env: os.Environ(), Stdout: &out, Stderr: &out}
			if err := reaper.Run(context.Background(), cmd); err != nil {
				t.Fatal(err, out.String())
			}
			var o agents.Outcome
			if err := json.Unmarshal([]byte(out.String()), &o); err != nil {
				t.Fatal(err, out.String())
			}
			network := "it has a network of its own"
			if tt.docker != "" {
				network = "it shares this machine's network: "
			}
			if log := read(job.LogPath); strings.Contains(log, network) != tt.own {
				t.Errorf("its log, want in it %q: %v\n%s", network, tt.own, log)
			}
			harmless := []string{"can unbind from lo", "can bind to its number", "can ask this machine's name server"}
			for line := range strings.SplitSeq(o.Tail, "\n") {
				if tt.own && tt.docker == "" && slices.Contains(harmless, line) {
					continue // where there is no other device, and nobody to ask
				}
				if strings.HasPrefix(line, "can ") && line != "can ask the proxy for port "+itoa(allowedPort) {
					t.Error(line)
				}
			}
			want := "can ask the proxy for port " + itoa(allowedPort)
			if !strings.Contains(o.Tail, want) || !strings.Contains(o.Tail, "relay: HTTP/1.1 403 Forbidden") {
				t.Errorf("outcome %+v, want that it %s", o, want)
			}
			for line := range strings.SplitSeq(read(heard.Name()), "\n") {
				if line = strings.Trim(line, "\x00"); line != "" && !strings.HasPrefix(line, "tcp "+itoa(allowedPort)) {
					t.Errorf("the other machine heard: %s", line)
				}
			}
			no := agents.Refusals{{Host: machineTwo + ":8081", Rule: machineTwo + ":8081", Times: 2}}
			if !slices.Equal(o.Refused, no) || !strings.Contains(o.Tail, "disinto: egress: disinto does not allow") {
				t.Errorf("refused %v, want %v\n%s", o.Refused, no, o.Tail)
			}
		})
	}
}

// sockets opens so many sockets at a time, in turn with connections to a server of its own, in 50 goroutines that Go's
// runtime interrupts.
func sockets(args []string) int {
	n, _ := strconv.Atoi(args[0])
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 3
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	failed := make(chan error, 50)
	began := time.Now()
	for range 50 {
		go func() {
			for range n / 50 {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					failed <- err
					return
				}
				_ = c.Close()
			}
			failed <- nil
		}()
	}
	for range 50 {
		if err := <-failed; err != nil {
			fmt.Println(err)
			return 4
		}
	}
	fmt.Printf("%d connections, %d µs each\n", n, time.Since(began).Microseconds()/int64(n))
	return 0
}

// A session with egress opens 10,000 sockets, as many as one without, and its own servers work.
func TestEgressSockets(t *testing.T) {
	if sandboxGate() != nil {
		t.Skip(sandboxGate())
	}
	for _, hosts := range [][]string{nil, {"example.org"}} {
		job := sandboxed(t, "")
		job.Command = helperCommand("sockets", "10000")
		job.Sandbox.Ephemeral, job.Sandbox.Egress = true, hosts
		o := runJob(t, job)
		if o.Result != agents.Done || !strings.Contains(o.Tail, "10000 connections") {
			t.Errorf("outcome %+v", o)
		}
		t.Log(o.Tail)
	}
}

// A session keeps its sockets and its proxy when its supervisor is killed, and the next supervisor learns what was
// refused.
func TestEgressOutlives(t *testing.T) {
	if sandboxGate() != nil {
		t.Skip(sandboxGate())
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = http.Serve(l, http.NotFoundHandler()) }()
	k := startKeeper(t, `until [ -e $T/go ]; do sleep 0.05; done
		for to in `+l.Addr().String()+` evil.example; do
			curl -s --noproxy "" -o /dev/null -w '%{http_code} ' http://$to >>$T/work/codes
		done
		exit 6`, "started", keeperEgress+"="+l.Addr().String())
	k.await()
	e, _ := k.next()
	if err := os.WriteFile(k.dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	o := k.finish(e)
	if codes := read(k.dir + "/work/codes"); codes != "404 403" {
		t.Errorf("curl got %q, want 404 and 403\n%s", codes, read(k.dir+"/log"))
	}
	want := agents.Refusals{{Host: "evil.example:80", Rule: "evil.example:80", Times: 1}}
	if !slices.Equal(o.Refused, want) || !strings.HasSuffix(o.Reason, "it was refused evil.example:80 (egress)") {
		t.Errorf("outcome %+v, want %v", o, want)
	}
}

// Where the kernel cannot hold it, egress is the variables of a proxy, and a strict session does not start.
func TestEgressAdvised(t *testing.T) {
	old := sandboxGate
	defer func() { sandboxGate = old }()
	sandboxGate = func() error { return errors.New("the kernel is old") }
	for mode, want := range map[agents.SandboxMode]string{
		agents.SandboxAuto: "its egress is only advised: the kernel is old", agents.SandboxStrict: "the kernel is old",
	} {
		job := sandboxed(t, "echo $HTTPS_PROXY $http_proxy $NO_PROXY; exit 3")
		job.Sandbox.Mode, job.Sandbox.Egress = mode, []string{"example.org"}
		o := runJob(t, job)
		ran := strings.Contains(o.Tail, "http://session:")
		if !strings.Contains(o.Tail+o.Reason, want) || ran != (mode == agents.SandboxAuto) {
			t.Errorf("%s: outcome %+v", mode, o)
		}
	}
}

// A session that does not start in its sandbox does not start without it, because it would reach every host.
func TestEgressFailsClosed(t *testing.T) {
	job := sandboxed(t, "echo ran")
	job.Sandbox.Egress = []string{"no host"}
	if o := runJob(t, job); o.Result != agents.Failed || strings.Contains(o.Tail, "ran") {
		t.Errorf("outcome %+v", o)
	}
}

// The operator's proxy on this machine leads anywhere, so sessions cannot connect to it.
func TestEgressHidesProxies(t *testing.T) {
	env := []string{"HTTPS_PROXY=http://127.0.0.1:40000", "http_proxy=http://proxy.example:8080"}
	all := landlock.Rules{AnyPort: true}
	hideProxies(&all, env)
	some := landlock.Rules{Connect: []landlock.Range{
		{First: 443, Last: 443}, {First: 39999, Last: 50000}, {First: 40000, Last: 40000},
	}}
	hideProxies(&some, env)
	none := landlock.Rules{AnyPort: true}
	hideProxies(&none, env[1:])
	if all.AnyPort || landlock.Has(all.Connect, 40000) || !landlock.Has(all.Connect, 1) ||
		!landlock.Has(all.Connect, 65535) || landlock.Has(some.Connect, 40000) ||
		!landlock.Has(some.Connect, 39999) || !landlock.Has(some.Connect, 443) ||
		!none.AnyPort {
		t.Errorf("%+v, %+v, %+v", all, some, none)
	}
}
