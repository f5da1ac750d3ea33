package pid1

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain: the test binary is disinto exec itself, through this package's init, and otherwise a helper program for a
// test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "no-room" {
		syscall.Exit(noRoom())
	}
	if len(os.Args) > 1 && os.Args[1] == "inherit" {
		syscall.Exit(inherit(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "run" {
		syscall.Exit(playSupervisor())
	}
	resetIgnored()
	_ = flag.Set("test.parallel", "8") // parallel tests mostly wait
	code := m.Run()
	_ = os.Remove(linkedPath)
	os.Exit(code)
}

// resetIgnored starts every test's processes with HUP and INT not ignored, as from a terminal. Under nohup we ignore
// HUP, and our children would inherit that, unless the runtime catches it here.
func resetIgnored() {
	caught := make(chan os.Signal, 1) // nothing reads it, so we still ignore them
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}

// storm returns the number of processes or tries: all in make check, which sets DISINTO_STORMS, and part of them in
// make test.
func storm(all, part int) int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return all
	}
	return part
}

// modes are the ways to be an init: two for a program linked as make build links it, and one for any other program,
// such as this one.
var modes = []string{"subreaper", "PID 1", "plain"}

// here is this package's folder, because a test may change the working directory.
var here, _ = os.Getwd()

// linked builds a program with this package that has first instructions.
var linked = sync.OnceValues(func() (string, error) {
	makefile, err := os.ReadFile(filepath.Join(here, "../../../Makefile"))
	if err != nil {
		return "", err
	}
	var flags []string
	for _, name := range []string{"LDFLAGS", "ENTRY"} {
		flags = append(flags, string(regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindSubmatch(makefile)[1]))
	}
	build := exec.Command("go", "build", "-tags", "entry", "-ldflags", strings.Join(flags, " "), "-o", linkedPath,
		"./testdata/init")
	build.Dir, build.Env = here, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return linkedPath, nil
})

// linkedPath is the path of that program.
var linkedPath = filepath.Join(os.TempDir(), "pid1-"+strconv.Itoa(os.Getpid()))

// program returns the init for a mode.
func program(t *testing.T, mode string) string {
	t.Helper()
	if mode == "plain" {
		return executable(t)
	}
	path, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// started is an init and its command.
type started struct {
	t      *testing.T
	cmd    *exec.Cmd
	pid    int // of the init, in our PID namespace
	out    bytes.Buffer
	errors bytes.Buffer
	lines  string // a file that the command writes to, as $LINES
}

// start runs disinto exec with these arguments. The command writes the output that a test reads before the end to
// $LINES, because processes that it leaves behind would hold a pipe open.
func start(t *testing.T, mode string, args ...string) *started {
	t.Helper()
	if mode == "PID 1" && os.Geteuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	argv := append([]string{program(t, mode), "exec"}, args...)
	if mode == "PID 1" {
		argv = append([]string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}, argv...)
	}
	s := &started{t: t, cmd: exec.Command(argv[0], argv[1:]...), lines: filepath.Join(t.TempDir(), "lines")}
	s.cmd.Env = append(os.Environ(), "LINES="+s.lines, "GORACE=atexit_sleep_ms=0")
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.errors
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		s.killAll() // its surviving descendants have lost their parent
	})
	s.pid = s.cmd.Process.Pid
	if mode == "PID 1" {
		eventually(t, "unshare has a child", func() bool {
			children := strings.Fields(read(childrenOf(s.pid)))
			if len(children) == 1 {
				s.pid, _ = strconv.Atoi(children[0])
			}
			return len(children) == 1 || state(s.cmd.Process.Pid) == "Z" // unshare has already ended
		})
	}
	return s
}

// killAll kills every process with the init's environment, and returns their number.
func (s *started) killAll() (n int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		if strings.Contains(read(d+"/environ"), "LINES="+s.lines+"\x00") && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func childrenOf(pid int) string {
	return "/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/children"
}

// wait returns the exit code: 128 plus the signal's number if a signal ended the init itself.
func (s *started) wait() int {
	s.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	err := s.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("%v\n%s", err, s.errors.String())
	}
	ws := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (s *started) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.pid, sig); err != nil {
		s.t.Fatal(err)
	}
}

// says waits until the command has written a line.
func (s *started) says(line string) {
	s.t.Helper()
	eventually(s.t, "the command says "+line, func() bool { return strings.Contains("\n"+read(s.lines), "\n"+line+"\n") })
}

// expect waits for the end and checks the exit code.
func (s *started) expect(code int) {
	s.t.Helper()
	if got := s.wait(); got != code {
		s.t.Errorf("exit code %d, want %d\n%s", got, code, s.errors.String())
	}
}

func read(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// state returns the letter that ps shows; empty for a process that does not exist.
func state(pid int) string {
	_, after, _ := strings.Cut(read("/proc/"+strconv.Itoa(pid)+"/stat"), ") ")
	letter, _, _ := strings.Cut(after, " ")
	return letter
}

// eventually polls, because a process has no channel to wait on. The deadline allows for ten other jobs on the
// machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still false after a minute: %s", what)
		}
	}
}
