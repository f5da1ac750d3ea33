package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/supervisor/control"
)

// pseudoTerminal returns a terminal with that many columns. screen is the person's end.
func pseudoTerminal(t *testing.T, columns uint16) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("found no terminals: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns})
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("found no terminals: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, screen
}

// Output has colour on a terminal, unless the environment turns it off. Its width is the terminal's.
func TestTerminal(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{"/v1/state": readTestdata(t, "status/busy.json")})
	tests := []struct {
		name    string
		environ []string
		columns uint16
		golden  string
	}{
		{"colour", nil, 80, "status/busy-colour.txt"},
		{"NO_COLOR", []string{"NO_COLOR=1"}, 80, "status/busy.txt"},
		{"an empty NO_COLOR has no effect", []string{"NO_COLOR="}, 80, "status/busy-colour.txt"},
		{"a terminal without colour", []string{"TERM=dumb"}, 80, "status/busy.txt"},
		{"a terminal without a size", []string{"NO_COLOR=1"}, 0, "status/busy-low.txt"},
		{"a wide terminal", []string{"NO_COLOR=1"}, 120, "status/busy-120.txt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			terminal, screen := pseudoTerminal(t, tt.columns)
			c := testCLI(tt.environ)
			c.stdout = terminal
			if code := c.run(t.Context(), []string{"status", "--state", state}); code != exitDone {
				t.Fatalf("got exit code %d", code)
			}
			want := readTestdata(t, tt.golden)
			var got string
			buffer := make([]byte, 64<<10)
			// The terminal adds a \r to each line.
			for err := error(nil); err == nil && len(got) < len(want); {
				var n int
				n, err = screen.Read(buffer)
				got += strings.ReplaceAll(string(buffer[:n]), "\r", "")
			}
			if got != want {
				t.Errorf("got the screen\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// On a terminal the demo draws on the alternate screen, and restores the person's screen afterwards.
func TestDemoOnTerminal(t *testing.T) {
	terminal, screen := pseudoTerminal(t, 80)
	person := reading(screen)
	c := testCLI([]string{"NO_COLOR=1", "TERM=xterm"})
	c.stdout = terminal
	s := newDisplay(c, false)
	s.begin()
	var d control.Document
	if err := json.Unmarshal([]byte(readTestdata(t, "status/demo.json")), &d); err != nil {
		t.Fatal(err)
	}
	s.frame(&d, 3, 12*time.Second)
	s.log.Info("a log line would tear the picture")
	person.sees(t, "review #13 ")
	s.end()
	person.sees(t, leaveScreen)
	got := person.text()
	for _, want := range []string{
		enterScreen, "demo: 3 of 8 merged, 12s", "review #13 ", "dependency cycle: #9", leaveScreen,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture lacks %q:\n%q", want, got)
		}
	}
	if strings.Contains(got, "a log line") {
		t.Error("the picture contains a log line")
	}
}

// The sequences with which a program takes the whole screen, and gives it back.
const enterScreen, leaveScreen = "\x1b[?1049h", "\x1b[?1049l"

// person reads what a terminal shows.
type person struct {
	screen *os.File
	mu     sync.Mutex // guards shown
	shown  strings.Builder
}

func reading(screen *os.File) *person {
	p := &person{screen: screen}
	go func() {
		for buf := make([]byte, 4096); ; {
			n, err := screen.Read(buf)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.shown.Write(buf[:n])
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *person) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.String()
}

func (p *person) sees(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the text "+text, func() bool { return strings.Contains(p.text(), text) })
}

// On a terminal, status --watch is a screen with keys: it opens the answer of why. It ends on q and on Ctrl-C, and
// restores the terminal.
func TestWatchOnTerminal(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{
		"/v1/state":                 readTestdata(t, "status/busy.json"),
		"/v1/why?ref=gardener-qwen": readTestdata(t, "why/agent.json"),
	})
	for name, key := range map[string]string{"q": "q", "Ctrl-C": "\x03"} {
		t.Run(name, func(t *testing.T) {
			terminal, screen := pseudoTerminal(t, 80)
			before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			c := testCLI([]string{"NO_COLOR=1", "TERM=xterm"})
			c.stdin, c.stdout = terminal, terminal
			person := reading(screen)
			ended := make(chan int, 1)
			go func() { ended <- c.run(t.Context(), []string{"status", "--watch", "--state", state}) }()
			person.sees(t, "q quit")
			screen.WriteString("\r")
			person.sees(t, "why gardener-qwen")
			person.sees(t, "q back")
			person.sees(t, "--all")
			screen.WriteString("\x1b[D" + key)
			if code := <-ended; code != exitDone {
				t.Errorf("got exit code %d", code)
			}
			person.sees(t, leaveScreen)
			for _, colour := range []string{"\x1b[31m", "\x1b[33m", "38;5"} {
				if strings.Contains(person.text(), colour) {
					t.Errorf("got the colour %q in spite of NO_COLOR", colour)
				}
			}
			after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal's settings are not restored: %v", err)
			}
		})
	}
}

// Without a terminal for its keys, status --watch says what to do. A terminal that cannot be redrawn gets lines.
func TestWatchWithoutKeys(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{"/v1/state": readTestdata(t, "status/busy.json")})
	terminal, screen := pseudoTerminal(t, 80)
	person := reading(screen)
	c := testCLI([]string{"TERM=xterm"})
	var said strings.Builder
	c.stdin, c.stdout, c.stderr = strings.NewReader(""), terminal, &said
	if code := c.run(t.Context(), []string{"status", "--watch", "--state", state}); code != exitUsage {
		t.Errorf("got exit code %d, want %d", code, exitUsage)
	}
	if !strings.Contains(said.String(), "stdin, which is no terminal") {
		t.Errorf("got %q", said.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	c = testCLI([]string{"TERM=dumb"})
	c.stdout = terminal
	ended := make(chan int, 1)
	go func() { ended <- c.run(ctx, []string{"status", "--watch", "--state", state}) }()
	person.sees(t, "NEEDS YOU")
	stop()
	if code := <-ended; code != exitDone || strings.Contains(person.text(), enterScreen) {
		t.Errorf("a dumb terminal: got exit code %d and %q", code, person.text())
	}
}
