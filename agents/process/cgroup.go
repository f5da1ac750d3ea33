package process

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is the control group of one session, where the machine lets us have one. It is a second net under the shim:
// the kernel puts every fork into it, only root can leave it, and one write kills all of it at once. The zero value is
// no cgroup, and its methods do nothing.
type cgroup struct {
	path string
	fd   int // of the folder
	ok   bool
}

// cgroupRoot is where sessions' cgroups are made: our own, in version 2, if we can make one there that has cgroup.kill
// or cgroup.freeze. Empty means that there are none, as in most containers, which see it read-only.
var cgroupRoot = sync.OnceValue(writableCgroup)

func writableCgroup() string {
	mounts, err1 := os.ReadFile("/proc/self/mountinfo")
	own, err2 := os.ReadFile("/proc/self/cgroup")
	if errors.Join(err1, err2) != nil {
		return ""
	}
	root := findCgroup(mounts, own)
	if root == "" {
		return ""
	}
	if filepath.Base(root) == leafName {
		root = filepath.Dir(root)
	}
	probe := filepath.Join(root, "disinto-probe-"+strconv.Itoa(os.Getpid()))
	if os.Mkdir(probe, 0o755) != nil {
		return ""
	}
	defer os.Remove(probe)
	if _, err := os.Stat(filepath.Join(probe, "cgroup.freeze")); err != nil {
		return ""
	}
	return root
}

// findCgroup is the folder of our own version 2 cgroup, from /proc/self/mountinfo and /proc/self/cgroup.
func findCgroup(mountinfo, own []byte) string {
	_, rel, ok := bytes.Cut(append([]byte("\n"), own...), []byte("\n0::"))
	if !ok {
		return ""
	}
	rel, _, _ = bytes.Cut(rel, []byte("\n"))
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	for lines.Scan() {
		front, back, _ := strings.Cut(lines.Text(), " - ")
		f := strings.Fields(front)
		if len(f) < 5 || !strings.HasPrefix(back, "cgroup2 ") {
			continue
		}
		// The mount may show a part of the hierarchy only; ours is then below that part, or not to be seen.
		below, ok := strings.CutPrefix(string(rel)+"/", strings.TrimSuffix(f[3], "/")+"/")
		if ok && !strings.Contains(below, "..") {
			return filepath.Join(f[4], below)
		}
	}
	return ""
}

// newCgroup makes the cgroup of a session; no cgroup if that is not possible.
func newCgroup(runID string) cgroup {
	root := cgroupRoot()
	if root == "" {
		return cgroup{}
	}
	path := filepath.Join(root, "disinto-"+runID)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return cgroup{}
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = os.Remove(path)
		return cgroup{}
	}
	return cgroup{path: path, fd: fd, ok: true}
}

// kill kills everything in the cgroup, forks under way included.
func (c cgroup) kill() {
	if c.ok && c.write("cgroup.kill", "1") != nil {
		c.killFrozen()
	}
}

// killFrozen is for kernels before 5.14: nothing forks while it is killed one by one.
func (c cgroup) killFrozen() {
	_ = c.write("cgroup.freeze", "1")
	procs, err := c.read("cgroup.procs")
	if err != nil {
		return
	}
	for f := range strings.FieldsSeq(procs) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// empty reports whether no process is left in it.
func (c cgroup) empty() bool {
	if !c.ok {
		return true
	}
	events, err := c.read("cgroup.events")
	return err != nil || strings.Contains(events, "populated 0")
}

// remove gives an empty cgroup back.
func (c cgroup) remove() {
	if c.ok {
		_ = unix.Close(c.fd)
		c.rmdir()
	}
}

// rmdir is remove without closing anything. The kernel may need a moment after the last process has been reaped.
func (c cgroup) rmdir() {
	if c.path == "" {
		return
	}
	for range 20 {
		if err := os.Remove(c.path); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (c cgroup) write(name, text string) error {
	fd, err := unix.Openat(c.fd, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

func (c cgroup) read(name string) (string, error) {
	fd, err := unix.Openat(c.fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.String(), err
}

// cgroups are those that an earlier supervisor left.
type cgroups []cgroup

// staleCgroups are the cgroups of an instance's sessions.
func staleCgroups(instance string) (stale cgroups) {
	root := cgroupRoot()
	if root == "" {
		return nil
	}
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), "disinto-"); ok && strings.HasPrefix(id, instance+"-") {
			stale = append(stale, newCgroup(id))
		}
	}
	return stale
}

func (cs cgroups) kill() {
	for _, c := range cs {
		c.kill()
	}
}

func (cs cgroups) empty() bool {
	return !slices.ContainsFunc(cs, func(c cgroup) bool { return !c.empty() })
}

func (cs cgroups) remove() {
	for _, c := range cs {
		c.remove()
	}
}
