package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/supervisor/control"
)

// pseudoTerminal is a terminal of so many columns; screen is the person's end of it.
func pseudoTerminal(t *testing.T, columns uint16) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
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
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, screen
}

// Colour is for a terminal, and for people who want it; the width is the terminal's.
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
		{"an empty NO_COLOR says nothing", []string{"NO_COLOR="}, 80, "status/busy-colour.txt"},
		{"a terminal that knows no colour", []string{"TERM=dumb"}, 80, "status/busy.txt"},
		{"one without a size", []string{"NO_COLOR=1"}, 0, "status/busy.txt"},
		{"a wide one", []string{"NO_COLOR=1"}, 120, "status/busy-120.txt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			terminal, screen := pseudoTerminal(t, tt.columns)
			c := testCLI(tt.environ)
			c.stdout = terminal
			if code := c.run(t.Context(), []string{"status", "--state", state}); code != exitDone {
				t.Fatalf("exit code %d", code)
			}
			want := readTestdata(t, tt.golden)
			var got string
			buffer := make([]byte, 64<<10)
			for err := error(nil); err == nil && len(got) < len(want); { // without the \r that the terminal adds
				var n int
				n, err = screen.Read(buffer)
				got += strings.ReplaceAll(string(buffer[:n]), "\r", "")
			}
			if got != want {
				t.Errorf("the screen shows\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A picture covers the one before it, whatever that showed: each line clears what is behind it, the last what is below.
func TestRedraw(t *testing.T) {
	var out strings.Builder
	if err := (&terminal{Writer: &out}).redraw("one\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// On a terminal the demo draws on a screen of its own and leaves the person's as it was.
func TestDemoOnTerminal(t *testing.T) {
	terminal, screen := pseudoTerminal(t, 80)
	c := testCLI([]string{"NO_COLOR=1"})
	c.stdout = terminal
	s := newDisplay(c, false)
	s.begin()
	var d control.Document
	if err := json.Unmarshal([]byte(readTestdata(t, "status/demo.json")), &d); err != nil {
		t.Fatal(err)
	}
	s.frame(&d, 3, 12*time.Second)
	s.log.Info("a log line would tear the picture")
	s.end()
	var shown strings.Builder
	for buf := make([]byte, 4096); !strings.HasSuffix(shown.String(), leaveScreen); {
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, shown.String())
		}
		shown.Write(buf[:n])
	}
	got := shown.String()
	if !strings.HasPrefix(got, enterScreen+homeCursor+"demo: 3 of 8 merged, 12s"+clearLine) {
		t.Errorf("it begins with %.80q", got)
	}
	for _, want := range []string{"review-sonnet  review #13", "dependency cycle: #9 -> #10 -> #9"} {
		if !strings.Contains(got, want) {
			t.Errorf("nothing shows %q", want)
		}
	}
	if strings.Contains(got, "a log line") {
		t.Error("a log line is in the picture")
	}
}

// On a terminal a watched status fills the screen, says at its foot how to leave, and leaves on q and on Ctrl-C with
// the terminal as it was.
func TestWatchLeaves(t *testing.T) {
	state := fakeSupervisor(t, map[string]string{"/v1/state": readTestdata(t, "status/busy.json")})
	for name, key := range map[string]string{"q": "q", "Ctrl-C": "\x03"} {
		t.Run(name, func(t *testing.T) {
			terminal, screen := pseudoTerminal(t, 80)
			before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			c := testCLI([]string{"NO_COLOR=1"})
			c.stdin, c.stdout = terminal, terminal
			ended := make(chan int, 1)
			go func() { ended <- c.run(t.Context(), []string{"status", "--watch", "--state", state}) }()
			shown := ""
			for buf := make([]byte, 4096); !strings.Contains(shown, "q or Ctrl-C leaves"); {
				n, err := screen.Read(buf)
				if err != nil {
					t.Fatalf("%v after %q", err, shown)
				}
				shown += string(buf[:n])
			}
			picture, _, _ := strings.Cut(shown, "q or Ctrl-C leaves")
			if lines := strings.Count(picture, "\n"); lines != 49 {
				t.Errorf("the foot stands in line %d of 50", lines+1)
			}
			if _, err := screen.WriteString("x" + key); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, screen) }()
			if code := <-ended; code != exitDone {
				t.Errorf("exit code %d", code)
			}
			after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal is not as it was: %v", err)
			}
		})
	}
}
