package pid1

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// screen is a terminal and the text on it.
type screen struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	mu     sync.Mutex
	text   []byte
}

// onTerminal runs a program as the leader of a session with a terminal of its own.
func onTerminal(t *testing.T, argv ...string) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: " + err.Error())
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: " + err.Error())
	}
	defer slave.Close()
	s := &screen{t: t, master: master, cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.Env = append(os.Environ(), "PS1=", "GORACE=atexit_sleep_ms=0", "INIT="+program(t, "subreaper")+" exec")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	go s.watch()
	return s
}

func (s *screen) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.text = append(s.text, buf[:n]...)
		s.mu.Unlock()
	}
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(string(s.text), "\r", "")
}

func (s *screen) typed(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits for a line with this beginning.
func (s *screen) shows(line string) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for ; !strings.Contains("\n"+s.shown(), "\n"+line); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%q does not appear:\n%s", line, s.shown())
		}
	}
}

func (s *screen) ends(code int) {
	s.t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("exit code %d, want %d:\n%s", got, code, s.shown())
	}
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

// leader is a command that prints whether it leads a group that has the terminal.
const leader = `set -- $(cut -d" " -f5,8 /proc/$$/stat); [ $1 = $$ ] && [ $2 = $$ ] && echo foreground; cat; exit 5`

// The leader of a session, such as a container's PID 1 with a terminal, hands the terminal to its command.
func TestTerminalIsHandedOver(t *testing.T) {
	s := onTerminal(t, executable(t), "exec", "sh", "-c", leader)
	s.shows("foreground")
	s.typed("hello\n" + ctrlD)
	s.shows("hello\nhello") // the echo of the keys, and from cat
	s.ends(5)
}

// As under docker run -it IMAGE exec bash, jobs can be stopped and continued.
func TestJobControl(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			argv := []string{executable(t), "exec", "bash", "--norc", "--noediting", "-i"}
			if mode == "PID 1" {
				if os.Geteuid() != 0 {
					t.Skip("needs root, to make a PID namespace")
				}
				argv = append([]string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}, argv...)
			}
			s := onTerminal(t, argv...)
			s.typed("sleep 1001\n")
			s.waits("sleep 1001")
			s.typed(ctrlZ)
			s.shows("[1]+  Stopped")
			s.typed("fg\n")
			s.waits("sleep 1001")
			s.typed(ctrlC)
			s.typed("echo got $?\n")
			s.shows("got 130")
			s.typed("exit 9\n")
			s.ends(9)
			if strings.Contains(s.shown(), "no job control") {
				t.Errorf("bash has no job control:\n%s", s.shown())
			}
		})
	}
}

// waits waits until a command with these words has the terminal.
func (s *screen) waits(words string) {
	s.t.Helper()
	eventually(s.t, words+" is in the foreground", func() bool {
		group, err := unix.IoctlGetInt(int(s.master.Fd()), unix.TIOCGPGRP)
		line := strings.ReplaceAll(strings.TrimSuffix(read("/proc/"+strconv.Itoa(group)+"/cmdline"), "\x00"), "\x00", " ")
		return err == nil && line == words && state(group) == "S"
	})
}

// Below a shell we are one of its jobs: Ctrl-Z stops us and the command, fg continues both, Ctrl-C ends the command.
func TestJobOfAShell(t *testing.T) {
	s := onTerminal(t, "bash", "--norc", "--noediting", "-i")
	s.typed("$INIT sleep 1002\n")
	s.waits("sleep 1002")
	s.typed(ctrlZ)
	s.shows("[1]+  Stopped")
	s.typed("fg\n")
	s.waits("sleep 1002")
	s.typed(ctrlZ)
	s.typed("echo again\n")
	s.shows("again")
	s.typed("fg\n")
	s.waits("sleep 1002")
	s.typed(ctrlC)
	s.typed("echo got $?\n")
	s.shows("got 130")
	s.typed("exit 3\n")
	s.ends(3)
}

// With --single-child too, Ctrl-Z stops the command's children, and fg continues them.
func TestSingleChildOfAShell(t *testing.T) {
	s := onTerminal(t, "bash", "--norc", "--noediting", "-i")
	s.typed("$INIT -c sh -c 'sleep 1003; exit 7'\n")
	child := func(want string) {
		s.t.Helper()
		eventually(t, "the command's child is in state "+want, func() bool {
			pids, _ := filepath.Glob("/proc/[0-9]*")
			return slices.ContainsFunc(pids, func(dir string) bool {
				pid, _ := strconv.Atoi(filepath.Base(dir))
				return read(dir+"/cmdline") == "sleep\x001003\x00" && state(pid) == want
			})
		})
	}
	for range 3 {
		child("S")
		s.typed(ctrlZ)
		child("T")
		s.typed("fg\n")
	}
	child("S")
	s.typed(ctrlC + "echo got $?\n")
	s.shows("got 130")
	s.typed("exit 3\n")
	s.ends(3)
}

// A command that a shell started in the background gets the terminal with fg, whether it already waits for it or not.
func TestForeground(t *testing.T) {
	for _, early := range []bool{true, false} {
		mark := filepath.Join(t.TempDir(), "mark")
		s := onTerminal(t, "bash", "--norc", "--noediting", "-i")
		s.typed("$INIT sh -c 'until [ -e " + mark + " ]; do sleep 0.01; done; read a; echo it read $a; exit 7' &\n")
		reads := func() {
			if err := os.WriteFile(mark, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if early {
			reads()
			s.typed("until jobs >" + mark + "; grep -q Stopped " + mark + "; do sleep 0.01; done; echo it waits\n")
			s.shows("it waits")
		}
		s.typed("fg\n")
		eventually(t, "fg has given the terminal away", func() bool {
			group, err := unix.IoctlGetInt(int(s.master.Fd()), unix.TIOCGPGRP)
			return err == nil && group != s.cmd.Process.Pid
		})
		if !early {
			reads()
		}
		s.typed("hello\n")
		s.shows("it read hello")
		s.typed("echo got $?\n")
		s.shows("got 7")
		s.typed("exit 3\n")
		s.ends(3)
	}
}

// After us, a script without job control can read from the terminal.
func TestScriptGetsItsTerminalBack(t *testing.T) {
	s := onTerminal(t, "sh", "-c", `$INIT sh -c 'read a; echo first $a'; read b; echo second $b; exit 6`)
	s.typed("one\n")
	s.shows("first one")
	s.typed("two\n")
	s.shows("second two")
	s.ends(6)
}

// PID 1 has no shell above it that could continue a command stopped by Ctrl-Z.
func TestCtrlZWithoutAShell(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	s := onTerminal(t, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", executable(t), "exec", "sh", "-c",
		"echo up; read a; echo $a; exit 5")
	s.shows("up")
	s.typed(ctrlZ + "hello\n")
	s.shows("hello")
	s.ends(5)
}

// A command that a shell runs in the background does not get the terminal.
func TestBackground(t *testing.T) {
	s := onTerminal(t, "bash", "--norc", "--noediting", "-i")
	s.typed("$INIT sh -c 'sleep 0.1; exit 7' &\n")
	s.typed("read a; echo we read $a; wait %1; echo got $?\n")
	s.typed("mine\n")
	s.shows("we read mine")
	s.shows("got 7")
	s.typed("exit 3\n")
	s.ends(3)
}

// The init works without /dev/tty too, as in a container without a terminal.
func TestNoTerminal(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) { start(t, mode, "sh", "-c", "setsid true; exit 8").expect(8) })
	}
}
