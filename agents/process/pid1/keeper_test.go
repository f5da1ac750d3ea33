package pid1

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// playSupervisor is the supervisor of these tests: it follows the words in os.Args[3:] and writes what it gets from
// its init to the file log in the folder os.Args[2].
func playSupervisor() int {
	p := &player{dir: os.Args[2]}
	p.log("started " + os.Getenv("SECRET"))
	for _, word := range os.Args[3:] {
		if code, end := p.play(word); end {
			return code
		}
	}
	p.log("idle")
	for {
		p.receive()
	}
}

type player struct{ dir string }

func (p *player) log(line string) {
	f, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, strconv.Itoa(os.Getpid())+" "+line)
	_ = f.Close()
}

func (p *player) receive() Message {
	m, err := Receive(InitSocket)
	if err != nil {
		p.log("closed")
		os.Exit(9)
	}
	p.log(m.Rest(0))
	return m
}

// first reports whether this is the first supervisor that asks.
func (p *player) first(what string) bool {
	f, err := os.OpenFile(filepath.Join(p.dir, "first-"+what), os.O_CREATE|os.O_EXCL, 0o644)
	_ = f.Close()
	return err == nil
}

func (p *player) play(word string) (code int, end bool) {
	send := func(m Message) {
		if err := Send(InitSocket, m, true); err != nil {
			p.log(err.Error())
		}
	}
	verb, arg, _ := strings.Cut(word, "=")
	n, _ := strconv.Atoi(arg)
	switch verb {
	case "kept": // reads what the init stored
		for m := p.receive(); m.Words[0] != "end"; m = p.receive() {
			if m.FD >= 0 {
				text := make([]byte, 99)
				k, _ := syscall.Pread(m.FD, text, 0)
				p.log("content " + string(text[:max(k, 0)]))
			}
		}
	case "ready":
		send(NewMessage("ready", strconv.Itoa(n*int(time.Millisecond))))
	case "keep": // a file, once
		if p.first("keep") {
			f, _ := os.Create(filepath.Join(p.dir, "kept"))
			_, _ = f.WriteString(arg)
			send(Message{[]string{"keep", "0", "0", "a name"}, int(f.Fd())})
		}
	case "drop":
		send(NewMessage("drop", arg))
	case "child", "shim": // a process that ignores our death; a shim is known to the init
		if p.first(verb) {
			p.spawn(verb == "shim")
		}
	case "crash": // once
		if p.first("crash") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	case "become": // a program that ends at once, once
		if p.first("become") {
			f, err := os.Open("/bin/false")
			if err != nil {
				panic(err)
			}
			send(Message{[]string{"become"}, int(f.Fd())})
			return 0, true
		}
	case "sleep":
		time.Sleep(time.Duration(n) * time.Millisecond)
	case "wait": // for one signal
		for m := p.receive(); m.Words[0] != "signal"; m = p.receive() {
		}
	case "exit":
		return n, true
	}
	return 0, false
}

func (p *player) spawn(shim bool) {
	pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{
		Env: []string{"PLAYED=" + p.dir}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		panic(err)
	}
	p.log("spawned " + strconv.Itoa(pid))
	if !shim {
		return
	}
	pair, _ := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	start := strings.Fields(read("/proc/" + strconv.Itoa(pid) + "/stat"))[21]
	_ = Send(InitSocket, Message{[]string{"keep", strconv.Itoa(pid), start, "shim r-1"}, pair[0]}, true)
}

// factoryInit is an init under test.
type factoryInit struct {
	t   *testing.T
	cmd *exec.Cmd
	dir string
}

// keepRunning starts the init of a supervisor that follows these words.
func keepRunning(t *testing.T, words ...string) *factoryInit {
	t.Helper()
	f := &factoryInit{t: t, dir: t.TempDir()}
	f.cmd = exec.Command(executable(t), append([]string{"run", f.dir}, words...)...)
	f.cmd.Env = append(os.Environ(), "SECRET=hunter2", "GORACE=atexit_sleep_ms=0")
	stderr, err := os.Create(filepath.Join(f.dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	f.cmd.Stderr = stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		for _, pid := range f.pids("spawned ") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return f
}

// errors is what the init and its supervisors wrote to stderr.
func (f *factoryInit) errors() string { return read(filepath.Join(f.dir, "stderr")) }

func (f *factoryInit) log() string { return read(filepath.Join(f.dir, "log")) }

// says waits until the supervisors have logged a text n times.
func (f *factoryInit) says(text string, n int) {
	f.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for ; strings.Count(f.log(), text) < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("no %q after a minute:\n%s\n%s", text, f.log(), f.errors())
		}
	}
}

// pids returns the numbers in the lines that contain a text, or the writers of those lines if no number follows it.
func (f *factoryInit) pids(text string) (list []int) {
	for line := range strings.Lines(f.log()) {
		writer, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if after, ok := strings.CutPrefix(rest, text); ok {
			if n, err := strconv.Atoi(after); err == nil {
				list = append(list, n)
				continue
			}
			n, _ := strconv.Atoi(writer)
			list = append(list, n)
		}
	}
	return list
}

// expect waits for the init's end and compares its exit code.
func (f *factoryInit) expect(code int) {
	f.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = f.cmd.Process.Kill() })
	defer timer.Stop()
	_ = f.cmd.Wait()
	if ws := f.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() || ws.ExitStatus() != code {
		f.t.Errorf("the init ended with %+v, want exit code %d\n%s\n%s", f.cmd.ProcessState, code, f.log(), f.errors())
	}
}

func (f *factoryInit) signal(s syscall.Signal) {
	f.t.Helper()
	if err := f.cmd.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

func alive(pid int) bool { return state(pid) != "" && state(pid) != "Z" }

// The exit of a supervisor that was never ready is the program's own: a wrong flag, a locked directory.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	keepRunning(t, "exit=2").expect(2)
	f := keepRunning(t, "crash")
	f.expect(128 + 9)
	if n := len(f.pids("started ")); n != 1 {
		t.Errorf("%d supervisors were started, want 1", n)
	}
}

// A supervisor that dies is started again. It gets what was stored; the dead one's other children are gone, and a shim
// goes on, whose end is then reported.
func TestSupervisorDies(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=1000", "keep=text", "child", "shim", "sleep=200", "crash")
	f.says("idle", 1)
	spawned := f.pids("spawned ")
	if alive(spawned[0]) || !alive(spawned[1]) {
		t.Errorf("the child lives: %v, the shim lives: %v; want only the shim", alive(spawned[0]), alive(spawned[1]))
	}
	for _, line := range []string{
		" 0 1 killed by SIGKILL\n", " kept 0 0 - a name\n", " content text\n", fmt.Sprintf(" kept %d ", spawned[1]),
	} {
		if !strings.Contains(f.log(), line) {
			t.Errorf("the second supervisor did not get %q:\n%s", line, f.log())
		}
	}
	eventually(t, "the shim is the init's child", func() bool {
		return strings.Fields(read("/proc/" + strconv.Itoa(spawned[1]) + "/stat"))[3] == strconv.Itoa(f.cmd.Process.Pid)
	})
	_ = syscall.Kill(spawned[1], syscall.SIGTERM)
	f.says(fmt.Sprintf("ended %d ", spawned[1]), 1)
	f.signal(syscall.SIGTERM)
	f.says("signal 15", 1)
	_ = syscall.Kill(f.pids("signal 15")[0], syscall.SIGKILL)
	f.says("signal 15", 2) // one more is started, to stop; none follows that
	_ = syscall.Kill(f.pids("signal 15")[1], syscall.SIGKILL)
	f.expect(128 + 9)
	if !strings.Contains(f.errors(), "the supervisor ended, killed by SIGKILL; it is started again") {
		t.Errorf("the init said %q", f.errors())
	}
}

// A supervisor that an agent has stopped obeys an order to stop at once.
func TestStopContinues(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=1000", "wait", "exit=4")
	f.says("end", 1)
	supervisor := f.pids("end")[0]
	_ = syscall.Kill(supervisor, syscall.SIGSTOP)
	eventually(t, "it is stopped", func() bool { return state(supervisor) == "T" })
	f.signal(syscall.SIGTERM)
	f.expect(4)
}

// A supervisor that dies after an order to stop is followed by one that gets the order again.
func TestDiesWhileStopping(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=1000", "wait", "crash", "exit=3")
	f.says("end", 1)
	f.signal(syscall.SIGTERM)
	f.expect(3)
	f.says("signal 15", 2)
}

// A stop is withheld until the supervisor is ready, and its exit code is the init's.
func TestStopIsWithheld(t *testing.T) {
	t.Parallel()
	for s, told := range map[syscall.Signal]string{
		syscall.SIGTERM: "signal 15", syscall.SIGINT: "signal 2", syscall.SIGQUIT: "signal 15",
	} {
		f := keepRunning(t, "kept", "sleep=300", "ready=1000", "wait", "exit=5")
		f.says("end", 1)
		f.signal(s)
		f.expect(5)
		f.says(told, 1)
	}
}

// Signals that would end a Go program with its stacks end no init, nor the supervisor.
func TestSignalsThatEndNothing(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=0", "wait", "wait", "exit=0")
	f.says("end", 1)
	for _, s := range []syscall.Signal{
		syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS,
		syscall.SIGSTKFLT, syscall.SIGXCPU, syscall.SIGALRM, syscall.SIGPIPE,
	} {
		f.signal(s)
	}
	f.signal(syscall.SIGHUP)
	f.says("signal 1", 1)
	f.signal(syscall.SIGTERM)
	f.expect(0)
	if !strings.Contains(f.log(), " signal 1\n") || f.errors() != "" {
		t.Errorf("the supervisor got %s, the init said %s", f.log(), f.errors())
	}
}

// A program that an upgrade starts and that fails is replaced by the one before it.
func TestUpgradeIsRolledBack(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=1000", "shim", "become")
	f.says("idle", 1)
	if pids := f.pids("started "); len(pids) != 2 || pids[0] == pids[1] {
		t.Errorf("supervisors %v were started, want two", pids)
	}
	if !strings.Contains(f.errors(), "was never ready") || !alive(f.pids("spawned ")[0]) {
		t.Errorf("the init said %q", f.errors())
	}
}

// A supervisor that does not stop in time is killed, with everything below it.
func TestStopTakesTooLong(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=0", "child", "shim")
	f.says("idle", 1)
	f.signal(syscall.SIGTERM)
	f.expect(exitFailed)
	for _, pid := range f.pids("spawned ") {
		eventually(t, "the killed process has ended", func() bool { return !alive(pid) })
	}
}

// Whoever kills an init that is not PID 1 kills the supervisor with it.
func TestInitIsKilled(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=1000")
	f.says("idle", 1)
	f.signal(syscall.SIGKILL)
	_ = f.cmd.Wait()
	eventually(t, "the supervisor is dead", func() bool { return !alive(f.pids("idle")[0]) })
}

// The supervisor has its environment, and no process of its account can read it.
func TestEnvironmentIsHidden(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=1000")
	f.says("idle", 1)
	if !strings.Contains(f.log(), "started hunter2\n") {
		t.Error("the supervisor has no environment")
	}
	pid := strconv.Itoa(f.pids("idle")[0])
	if env := read("/proc/" + pid + "/environ"); strings.Contains(env, "hunter2") {
		t.Errorf("its environment shows in /proc: %q", env)
	}
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/"+pid+"/mem", &st); err != nil || os.Geteuid() != 0 && st.Uid != 0 {
		t.Errorf("its memory belongs to %d, %v", st.Uid, err)
	}
}

// Ctrl-Z suspends both, and fg continues both.
func TestSuspend(t *testing.T) {
	t.Parallel()
	f := keepRunning(t, "kept", "ready=0", "wait", "exit=0")
	f.says("end", 1)
	supervisor := f.pids("end")[0]
	_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGTSTP)
	eventually(t, "both are stopped", func() bool { return state(f.cmd.Process.Pid) == "T" && state(supervisor) == "T" })
	_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGCONT)
	eventually(t, "both go on", func() bool { return state(f.cmd.Process.Pid) != "T" && state(supervisor) != "T" })
	f.signal(syscall.SIGTERM)
	f.expect(0)
}
