package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is the control group of one session, where the machine permits one. It is a safeguard in addition to the
// shim. The kernel puts every fork into it, only root can leave it, and one write kills all its processes at once.
// The zero value is no cgroup, and its methods do nothing.
type cgroup struct {
	path string
	fd   int // of the folder
	ok   bool
}

// cgroupRoot is the folder for the sessions' cgroups: our own version 2 cgroup, if we can create cgroups in it and
// they have cgroup.kill or cgroup.freeze. Otherwise it is empty, as in most containers, where cgroups are read-only.
var cgroupRoot = sync.OnceValue(writableCgroup)

func writableCgroup() string {
	mounts, err1 := os.ReadFile("/proc/self/mountinfo")
	own, err2 := os.ReadFile("/proc/self/cgroup")
	if errors.Join(err1, err2) != nil {
		return ""
	}
	root := findCgroup(string(mounts), string(own))
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

// findCgroup finds the folder of our own version 2 cgroup in /proc/self/mountinfo and /proc/self/cgroup.
func findCgroup(mountinfo, own string) string {
	_, rel, ok := strings.Cut("\n"+own, "\n0::")
	if !ok {
		return ""
	}
	rel, _, _ = strings.Cut(rel, "\n")
	for line := range strings.Lines(mountinfo) {
		front, back, _ := strings.Cut(line, " - ")
		f := strings.Fields(front)
		if len(f) < 5 || !strings.HasPrefix(back, "cgroup2 ") {
			continue
		}
		// The mount may show only a part of the hierarchy. Then our cgroup is either in that part or invisible.
		below, ok := strings.CutPrefix(rel+"/", strings.TrimSuffix(f[3], "/")+"/")
		if ok && !strings.Contains(below, "..") {
			return filepath.Join(f[4], below)
		}
	}
	return ""
}

// newCgroup makes the cgroup of a session. It returns the zero value if it cannot.
func newCgroup(runID string) cgroup {
	root := cgroupRoot()
	if root == "" {
		return cgroup{}
	}
	path := filepath.Join(root, "disinto-"+runID)
	_ = os.Mkdir(path, 0o755) // it may exist already
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = os.Remove(path)
		return cgroup{}
	}
	return cgroup{path: path, fd: fd, ok: true}
}

// kill kills every process in the cgroup, including forks in progress.
func (c cgroup) kill() {
	if c.ok && c.write("cgroup.kill", "1") != nil {
		c.killFrozen()
	}
}

// killFrozen serves kernels before 5.14: frozen processes cannot fork while they are killed one by one.
func (c cgroup) killFrozen() {
	_ = c.write("cgroup.freeze", "1")
	for _, f := range readWords(c.file("cgroup.procs")) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// empty reports whether no process is left in the cgroup.
func (c cgroup) empty() bool {
	if !c.ok {
		return true
	}
	populated, ok := field(c.file("cgroup.events"), "populated")
	return !ok || populated == 0
}

// release closes the folder. It may be repeated.
func (c *cgroup) release() {
	if c.ok {
		_ = unix.Close(c.fd)
		c.ok = false
	}
}

// remove deletes an empty cgroup. The kernel may need a moment after the last process has been reaped.
func (c *cgroup) remove() {
	if !c.ok {
		return
	}
	c.release()
	for range 20 {
		if err := os.Remove(c.path); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (c cgroup) file(name string) string { return filepath.Join(c.path, name) }

// write writes to a file of the cgroup.
func (c cgroup) write(name, text string) error {
	if !c.ok {
		return fs.ErrNotExist
	}
	return writeKernelFile(c.file(name), text)
}

// staleCgroups returns the cgroups of this instance's sessions that an earlier supervisor left behind, except those of
// known runs.
func staleCgroups(instance string, known func(runID string) bool) (stale []cgroup) {
	entries, _ := os.ReadDir(cgroupRoot())
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), "disinto-"); ok && strings.HasPrefix(id, instance+"-") && !known(id) {
			stale = append(stale, newCgroup(id))
		}
	}
	return stale
}
