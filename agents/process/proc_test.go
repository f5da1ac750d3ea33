package process

import (
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const rest = " S 42 7 7 0 -1 4194560 115 0 0 0 3 4 50 600 20 0 1 0 987654321 2420736 143 18446744073709551615 1 1 0 0 0"
	want := proc{pid: 77, ppid: 42, state: 'S', start: 987654321, cpu: 6570 * time.Millisecond}
	tests := []struct {
		name string
		text string
		want proc
		ok   bool
	}{
		{"plain", "77 (sleep)" + rest, want, true},
		{"blanks in the name", "77 (my agent (2) )" + rest, want, true},
		{"a name made to mislead", "77 (x) Z 1 1 (y)" + rest, want, true},
		{"a name of line feeds", "77 (\n\n)" + rest, want, true},
		{"empty", "", proc{}, false},
		{"cut", "77 (sleep) S 42 7", proc{}, false},
		{"no name", "77 sleep" + rest, proc{}, false},
		{"no number", "(sleep)" + rest, proc{}, false},
		{"words for numbers", "77 (sleep) S x 7 7 0 -1 4194560 115 0 0 0 3 4 5 6 20 0 1 0 987 2420736", proc{}, false},
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
	self, err := look(os.Getpid())
	if err != nil || self.pid != os.Getpid() || self.ppid != os.Getppid() || self.dead() {
		t.Errorf("look at ourselves: %+v %v", self, err)
	}
	if _, err := look(1 << 30); err != unix.ESRCH {
		t.Errorf("a process that cannot be: %v", err)
	}
	var pids []int
	if err := walk(func(p proc) { pids = append(pids, p.pid) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(pids, 1) || !slices.Contains(pids, os.Getpid()) || !slices.IsSorted(pids) {
		t.Errorf("walk met %v", pids)
	}
}

func TestSignalOnlyTheSameProcess(t *testing.T) {
	c := spawn(t, "read x", pipe(t))
	p, _ := look(c.PID)
	stale := p
	stale.start--
	if err := stale.signal(unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("a process that has another's number: %v", err)
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	<-c.Exit()
	if err := p.signal(unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("a process that has ended: %v", err)
	}
}

func TestTreeCPUCountsTheDead(t *testing.T) {
	c := spawn(t, "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; kill -STOP $$")
	eventually(t, "the work is done", func() bool { p, _ := look(c.PID); return p.state == 'T' })
	if cpu := treeCPU(c.PID); cpu < 20*time.Millisecond {
		t.Errorf("%v; the time of a child that was waited for is missing", cpu)
	}
	_ = unix.Kill(c.PID, unix.SIGKILL)
	<-c.Exit()
}

// A killed process that stays, because its parent does not wait for it, must not keep a cull going.
func TestCullIgnoresZombies(t *testing.T) {
	c := spawn(t, "sh -c 'exit 0' & exec sleep 1000")
	eventually(t, "there is a zombie", func() bool {
		members, _ := tree(c.PID)
		return slices.ContainsFunc(members, proc.dead)
	})
	got, err := cull(func(p proc) bool { return p.ppid == c.PID }, map[proc]bool{})
	if err != nil || got.alive != 0 {
		t.Errorf("cull met %+v, %v", got, err)
	}
	_ = unix.Kill(c.PID, unix.SIGKILL)
	<-c.Exit()
}
