package tree

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 42 7 7 0 -1 4194560 115 0 0 0 3 4 50 600 20 0 1 0 987654321 2420736 143 18446744073709551615 1 1 " +
		"0 0 0"
	want := Process{PID: 77, PPID: 42, Group: 7, State: 'S', Start: 987654321, CPU: 6570 * time.Millisecond}
	tests := []struct {
		name string
		text string
		want Process
		ok   bool
	}{
		{"plain", "77 (sleep)" + rest, want, true},
		{"blanks in the name", "77 (my agent (2) )" + rest, want, true},
		{"a name made to mislead", "77 (x) Z 1 1 (y)" + rest, want, true},
		{"a name of line feeds", "77 (\n\n)" + rest, want, true},
		{"empty", "", Process{}, false},
		{"cut", "77 (sleep) S 42 7", Process{}, false},
		{"no name", "77 sleep" + rest, Process{}, false},
		{"no number", "(sleep)" + rest, Process{}, false},
		{"no group", "77 (sleep) S 42 x 7 0 -1 4194560 115 0 0 0 3 4 5 6 20 0 1 0 987 2420736", Process{}, false},
		{"words for numbers", "77 (sleep) S x 7 7 0 -1 4194560 115 0 0 0 3 4 5 6 20 0 1 0 987 2420736", Process{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseStat([]byte(tt.text))
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("parseStat = %+v %v, want %+v %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("77 (a) S 42 7 7 0 -1 4194560 115 0 0 0 3 4 5 6 20 0 1 0 987654321 2420736 143"))
	f.Fuzz(func(t *testing.T, b []byte) { parseStat(b) })
}

func TestLookAndWalk(t *testing.T) {
	self, err := Find(os.Getpid())
	if err != nil || self.PID != os.Getpid() || self.PPID != os.Getppid() || self.Dead() {
		t.Errorf("Look at this process = %+v, %v", self, err)
	}
	if _, err := Find(1 << 30); err != syscall.ESRCH {
		t.Errorf("Look at an impossible number: %v, want ESRCH", err)
	}
	var pids []int
	if err := Walk(func(p Process) { pids = append(pids, p.PID) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(pids, 1) || !slices.Contains(pids, os.Getpid()) || !slices.IsSorted(pids) {
		t.Errorf("Walk met %v, want 1 and this process, sorted", pids)
	}
}

// Without /proc, or with an empty folder in its place, a walk meets no process and returns an error: the caller then
// signals all.
func TestWalkWithoutProc(t *testing.T) {
	for _, dir := range []string{t.TempDir(), t.TempDir() + "/none"} {
		if err := walk(dir, func(Process) {}); err != ErrNoProc {
			t.Errorf("walk of an empty folder: %v, want ErrNoProc", err)
		}
	}
}
