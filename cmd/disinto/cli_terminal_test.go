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
		{"a terminal without a size", []string{"NO_COLOR=1"}, 0, "status/busy.txt"},
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

// redraw covers the picture before: each line clears the rest of its line, and the last also everything below.
func TestRedraw(t *testing.T) {
	var out strings.Builder
	if err := (&terminal{Writer: &out}).redraw("one\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// On a terminal the demo draws on the alternate screen, and restores the person's screen afterwards.
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
			t.Fatalf("got error %v after %q", err, shown.String())
		}
		shown.Write(buf[:n])
	}
	got := shown.String()
	if !strings.HasPrefix(got, enterScreen+homeCursor+"demo: 3 of 8 merged, 12s"+clearLine) {
		t.Errorf("got %.80q at the start", got)
	}
	for _, want := range []string{"review-sonnet  review #13", "dependency cycle: #9 -> #10 -> #9"} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if strings.Contains(got, "a log line") {
		t.Error("the picture contains a log line")
	}
}

// On a terminal, status --watch fills the screen and shows how to leave in its last line. It ends on q and on Ctrl-C,
// and restores the terminal.
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
			for buf := make([]byte, 4096); !strings.Contains(shown, "q or Ctrl-C quits"); {
				n, err := screen.Read(buf)
				if err != nil {
					t.Fatalf("got error %v after %q", err, shown)
				}
				shown += string(buf[:n])
			}
			picture, _, _ := strings.Cut(shown, "q or Ctrl-C quits")
			if lines := strings.Count(picture, "\n"); lines != 49 {
				t.Errorf("got the last line's text in line %d of 50", lines+1)
			}
			if _, err := screen.WriteString("x" + key); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, screen) }()
			if code := <-ended; code != exitDone {
				t.Errorf("got exit code %d", code)
			}
			after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal's settings are not restored: %v", err)
			}
		})
	}
}
