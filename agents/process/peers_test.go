package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPeers is make bench-init: it measures our init and every other one that is installed here, and prints a table.
// Each is PID 1 of its own PID namespace. They take turns, so that a busy moment of the machine affects all of them.
// Each figure is the lowest of its runs, because other load can only add to it.
//
//	start    from exec of the init to the first output of its child, /bin/echo; "none" is echo without an init
//	idle     resident memory with one sleeping child, and how often the init woke up in a second
//	orphans  10,000 released at once, until the last is reaped; also while 1,000 of our own children end
//	stop     from TERM to the end of everything, for four trees
func TestPeers(t *testing.T) {
	ours := os.Getenv("DISINTO_BENCH")
	if ours == "" {
		t.Skip("make bench-init runs it")
	}
	needRoot(t)
	t.Setenv("DISINTO_STORMS", "1")
	b := &bench{t: t, figures: map[string][]float64{}}
	b.find(ours)
	const rounds = 5
	for i := range rounds {
		if i < 3 {
			b.reaper()
		}
		for _, p := range b.peers {
			for range 10 {
				b.start(p)
			}
			if p.name == "none" {
				continue
			}
			for _, kind := range []string{"single", "twenty", "family"} {
				b.stop(p, kind)
			}
			if i < 3 {
				b.orphans(p)
			}
			if i < 1 {
				b.idle(p)
				b.stop(p, "stubborn")
			}
		}
	}
	b.print()
}

// peer is an init and the command line that gives it a command.
type peer struct {
	name string
	argv []string
}

type bench struct {
	t       *testing.T
	peers   []peer
	figures map[string][]float64 // by peer and column
}

// find finds the installed inits.
func (b *bench) find(ours string) {
	b.peers = []peer{
		{"disinto", []string{ours, "exec", "--grace", "1s", "--"}},
	}
	for _, p := range []peer{
		{"tini", []string{"tini", "--"}},
		{"tini-g", []string{"tini", "-g", "--"}},
		{"tini-static", []string{"tini-static", "--"}},
		{"dumb-init", []string{"dumb-init", "--"}},
		{"catatonit", []string{"catatonit", "--"}},
		{"bash", []string{"bash", "-c", `"$@"; exit $?`, "bash"}},
		{"s6", []string{"s6-svscan"}}, // with a service for the command
	} {
		if path, err := exec.LookPath(p.argv[0]); err == nil {
			b.peers = append(b.peers, peer{p.name, append([]string{path}, p.argv[1:]...)})
		}
	}
	b.peers = append(b.peers, peer{"none", nil})
}

func (b *bench) note(p peer, column string, value float64) {
	b.figures[p.name+" "+column] = append(b.figures[p.name+" "+column], value)
}

// contained is an init in its own namespace.
type contained struct {
	child *Child
	pid   int
	out   *os.File
	exec  time.Duration // monotonic clock just before the exec of the init
}

// run starts an init with a command whose stdout the test reads.
func (b *bench) run(p peer, command ...string) *contained {
	b.t.Helper()
	argv := slices.Concat(p.argv, command)
	if p.name == "s6" {
		argv = append(slices.Clone(p.argv), b.service(command))
	}
	r, w, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Close()
	argv = append(helperCommand("contain"), argv...)
	c, err := reaper.Start(argv[0], argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, w.Fd(), 2},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Setsid: true},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	run := &contained{child: c, pid: c.PID, out: r}
	fmt.Sscan(run.line(), &run.exec)
	return run
}

// payload returns a command of this test binary for an init to run: to the init, /proc/self/exe is the init itself.
func (b *bench) payload(name string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	return append([]string{self, "test-helper", name}, args...)
}

// service makes a folder of s6 with one service: the command, which stops s6 when it ends.
func (b *bench) service(command []string) string {
	dir := b.t.TempDir()
	script := "#!/bin/sh\n\"$@\"\nkill -TERM 1\n"
	quoted := strings.Join(command, "' '")
	script = strings.Replace(script, `"$@"`, "'"+quoted+"'", 1)
	if err := os.Mkdir(filepath.Join(dir, "s"), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "s", "run"), []byte(script), 0o755); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// line reads one line, a byte at a time so that it reads nothing after the line.
func (c *contained) line() string {
	var line []byte
	buf := make([]byte, 1)
	for {
		if n, err := c.out.Read(buf); n == 0 || err != nil || buf[0] == '\n' {
			return string(line)
		}
		line = append(line, buf[0])
	}
}

// end waits for the end of the init and all processes below it; false if it had to kill them.
func (c *contained) end(patience time.Duration) bool {
	defer c.out.Close()
	select {
	case <-c.child.Exit():
		return true
	case <-time.After(patience):
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
		<-c.child.Exit()
		return false
	}
}

func (b *bench) start(p peer) {
	c := b.run(p, "/bin/echo", "up")
	c.line()
	b.note(p, "start ms", ms(monotonic()-c.exec))
	c.end(5 * time.Second)
}

func (b *bench) idle(p peer) {
	c := b.run(p, "/bin/sh", "-c", "echo up; exec sleep 1000")
	c.line()
	time.Sleep(500 * time.Millisecond)
	before := wakes(c.pid)
	time.Sleep(time.Second)
	b.note(p, "idle KiB", float64(number(c.pid, "VmRSS")))
	b.note(p, "wakes/s", float64(wakes(c.pid)-before))
	c.end(0)
}

// wakes returns how often all threads of a process have waited so far.
func wakes(pid int) (sum int) {
	tasks, _ := filepath.Glob("/proc/" + itoa(pid) + "/task/*")
	for _, task := range tasks {
		sum += numberIn(task+"/status", "voluntary_ctxt_switches")
	}
	return sum
}

// number returns a field of /proc/PID/status.
func number(pid int, field string) int { return numberIn("/proc/"+itoa(pid)+"/status", field) }

func numberIn(path, field string) int {
	_, after, _ := strings.Cut(read(path), "\n"+field+":")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return -1
	}
	n, _ := strconv.Atoi(fields[0])
	return n
}

func (b *bench) stop(p peer, kind string) {
	got := filepath.Join(b.t.TempDir(), "got")
	c := b.run(p, b.payload("stop-tree", kind, got)...)
	c.line()
	time.Sleep(100 * time.Millisecond)
	begin := time.Now()
	_ = syscall.Kill(c.pid, syscall.SIGTERM)
	ok := c.end(3 * time.Second)
	if !ok {
		b.note(p, kind+" ms", -1)
		return
	}
	b.note(p, kind+" ms", ms(time.Since(begin)))
	if kind == "family" {
		b.note(p, "told", float64(strings.Count(read(got), "\n")+min(1, len(read(got)))))
	}
}

func (b *bench) orphans(p peer) {
	c := b.run(p, b.payload("orphan-storm", "10000")...)
	var took time.Duration
	var left int
	fmt.Sscan(c.line(), &took, &left)
	b.note(p, "orphans ms", ms(took))
	b.note(p, "left", float64(left))
	c.end(10 * time.Second)
}

// reaper measures the supervisor's reaper while 10,000 orphans and 1,000 of its own children end at once.
func (b *bench) reaper() {
	p := peer{name: "run's reaper"}
	c := b.run(p, helperCommand("reaper-storm")...)
	var took time.Duration
	var left, lost int
	fmt.Sscan(c.line(), &took, &left, &lost)
	b.note(p, "orphans ms", ms(took))
	b.note(p, "left", float64(left))
	b.note(p, "lost", float64(lost))
	c.end(10 * time.Second)
}

// columns are the columns of the table.
var columns = []string{
	"start ms", "idle KiB", "wakes/s", "orphans ms", "left", "lost", "single ms", "twenty ms",
	"family ms", "told", "stubborn ms",
}

func (b *bench) print() {
	fmt.Printf("%-12s", "")
	for _, c := range columns {
		fmt.Printf("%15s", c)
	}
	fmt.Println("\n(in brackets: how many times tini's; never: killed after 3 s)")
	for _, p := range append([]peer{{name: "run's reaper"}}, b.peers...) {
		fmt.Printf("%-12s", p.name)
		for _, c := range columns {
			fmt.Printf("%15s", cell(c, b.figures[p.name+" "+c], b.figures["tini "+c]))
		}
		fmt.Println()
	}
}

// cell formats a figure and its ratio to tini's. For orphans left and statuses lost the worst run counts.
func cell(column string, values, tini []float64) string {
	switch {
	case len(values) == 0:
		return "-"
	case column == "left", column == "lost":
		return fmt.Sprint(slices.Max(values))
	case slices.Min(values) < 0:
		return "never"
	case len(tini) > 0 && slices.Min(tini) > 0:
		return fmt.Sprintf("%.4g (%.2f)", slices.Min(values), slices.Min(values)/slices.Min(tini))
	}
	return fmt.Sprintf("%.4g", slices.Min(values))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// monotonic returns a clock that all processes of the machine share.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// contain prepares a namespace, prints the time, and becomes the init.
func contain(argv []string) int {
	if unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil ||
		unix.Mount("proc", "/proc", "proc", 0, "") != nil {
		return 9
	}
	fmt.Println(int64(monotonic()))
	_ = syscall.Exec(argv[0], argv, os.Environ())
	return 10
}

// stopTree is a command to stop: alone, with twenty children, with a family of which it is the slowest, or ignoring
// TERM.
func stopTree(args []string) int {
	script := map[string]string{
		"single": `exec sleep 1000`,
		"twenty": `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1000 & done; exec sleep 1000`,
		"family": `(trap 'echo child >>$0; exit' TERM; while :; do sleep 0.005; done) &
			setsid sh -c '(trap "echo orphan >>$0; exit" TERM; while :; do sleep 0.005; done) &' $0
			trap 'echo command >>$0; sleep 0.1; exit' TERM; while :; do sleep 0.005; done`,
		"stubborn": `trap '' TERM; while :; do sleep 1000; done`,
	}[args[0]]
	fmt.Println("up")
	_ = syscall.Exec("/bin/sh", []string{"sh", "-c", script, args[1]}, os.Environ())
	return 2
}

// orphanStorm makes n orphans, releases them at once, and prints the time until the last one was reaped, and the
// number of those left. In a new namespace process numbers are consecutive, so it finds the remaining ones by probing
// each number.
func orphanStorm(args []string) int {
	n, _ := strconv.Atoi(args[0])
	var release [2]int
	if syscall.Pipe2(release[:], syscall.O_CLOEXEC) != nil {
		return 3
	}
	first := os.Getpid() + 1
	files := []uintptr{0, 1, 2, uintptr(release[0])}
	pid, err := syscall.ForkExec("/bin/sh", smallNursery(n), &syscall.ProcAttr{Files: files})
	if err != nil {
		return 4
	}
	for _, err = syscall.Wait4(pid, nil, 0, nil); err == syscall.EINTR; _, err = syscall.Wait4(pid, nil, 0, nil) {
	}
	_ = syscall.Close(release[0])
	last, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{}) // it has the highest number
	if err != nil {
		return 5
	}
	_, _ = syscall.Wait4(last, nil, 0, nil)
	time.Sleep(300 * time.Millisecond)
	begin, left := time.Now(), 0
	_ = syscall.Close(release[1])
	for p := first; p <= last; p++ {
		for there(p) && left == 0 {
			if time.Since(begin) > 10*time.Second {
				left++
			}
			time.Sleep(200 * time.Microsecond)
		}
		if left > 0 && there(p) {
			left++
		}
	}
	fmt.Println(int64(time.Since(begin)), left)
	return 0
}

// smallNursery returns a shell command that leaves n children, which wait until descriptor 3 is closed. They are
// forks of a small program: ending a fork of this test binary costs the kernel more than everything measured here.
func smallNursery(n int) []string {
	return []string{"sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do
		sh -c 'j=0; while [ $j -lt 100 ]; do read x <&3 & j=$((j+1)); done'; i=$((i+1)); done`, n/100)}
}

// there reports whether a process, dead or alive, has this number; threads do not count.
func there(pid int) bool {
	return pid != os.Getpid() && syscall.Kill(pid, 0) == nil && number(pid, "Tgid") == pid
}

// reaperStorm is PID 1 with the supervisor's reaper: 10,000 orphans and 1,000 children of its own end at once. It
// prints the time, the number of orphans left, and the number of its own statuses that were lost or wrong.
func reaperStorm([]string) int {
	orphans, children := storm(10_000, 1_000), storm(1_000, 100)
	if _, err := Init(); err != nil {
		return 3
	}
	r, err := NewReaper()
	if err != nil {
		return 4
	}
	var release [2]int
	if syscall.Pipe2(release[:], syscall.O_CLOEXEC) != nil {
		return 5
	}
	var own []*Child
	for i := range children {
		argv := []string{"sh", "-c", "read x; exit " + itoa(i%256)}
		c, err := r.Start("/bin/sh", argv, &syscall.ProcAttr{Files: []uintptr{uintptr(release[0]), 1, 2}})
		if err != nil {
			return 6
		}
		own = append(own, c)
	}
	c, err := r.Start("/bin/sh", smallNursery(orphans), &syscall.ProcAttr{Files: []uintptr{0, 1, 2, uintptr(release[0])}})
	if err != nil {
		return 7
	}
	<-c.Exit()
	_ = syscall.Close(release[0])
	time.Sleep(300 * time.Millisecond)
	begin, lost := time.Now(), 0
	_ = syscall.Close(release[1])
	for i, c := range own {
		select {
		case e := <-c.Exit():
			if e.Status.ExitStatus() != i%256 {
				lost++
			}
		case <-time.After(10 * time.Second):
			lost++
		}
	}
	for orphansOf(r) < int64(orphans) && time.Since(begin) < 20*time.Second {
		time.Sleep(200 * time.Microsecond)
	}
	fmt.Println(int64(time.Since(begin)), int64(orphans)-orphansOf(r), lost)
	return 0
}
