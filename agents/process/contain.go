package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// Containment describes what the kernel offers to contain a session, in addition to the shim.
type Containment struct {
	// Cgroup is the folder in which sessions get their own cgroups. It is empty where the kernel permits none, as in
	// most containers. The cgroup is only a safeguard: sessions end completely without it too.
	Cgroup string
	// Memory and PIDs say why a session's limits of memory and of processes are not enforced; nil when they are.
	Memory, PIDs error
}

// leafName is the supervisor's own cgroup, beside those of the sessions, where limits are enforced: a cgroup that
// delegates controllers to its children must not contain a process.
const leafName = "disinto"

// FindContainment returns what Contain would if the kernel refused nothing. It changes nothing, and may be repeated.
func FindContainment() Containment { return containment(func(string, string) error { return nil }) }

// Contain prepares limits for later sessions, as far as possible. It may move this process to another cgroup, below
// its own. Call it before the first session, and again in every supervisor.
func Contain() Containment { return containment(delegate) }

func containment(obtain func(root, controller string) error) Containment {
	c := Containment{Cgroup: cgroupRoot()}
	if c.Cgroup == "" {
		c.Memory = errors.New("there is no cgroup of version 2 here that disinto may write to")
		c.PIDs = c.Memory
		return c
	}
	there := readWords(filepath.Join(c.Cgroup, "cgroup.controllers"))
	ask := func(controller string) error {
		err := errors.New("is not delegated to it")
		if slices.Contains(there, controller) {
			err = obtain(c.Cgroup, controller)
		}
		if err == nil {
			return nil
		}
		return fmt.Errorf("the %s controller of %s %w", controller, c.Cgroup, err)
	}
	c.Memory, c.PIDs = ask("memory"), ask("pids")
	return c
}

// delegate delegates a controller of a cgroup to its children.
func delegate(root, controller string) error {
	if err := moveToLeaf(root); err != nil {
		return err
	}
	if err := writeKernelFile(filepath.Join(root, "cgroup.subtree_control"), "+"+controller); err != nil {
		return fmt.Errorf("cannot be delegated: %w", err)
	}
	return nil
}

// moveToLeaf moves this process and its init from a cgroup into a child of that cgroup; shims start there. It runs
// before the delegation because the kernel does not refuse every delegation that cannot work: a cgroup with processes
// can delegate the pids controller too, but then its children accept only threads. In a container all other processes
// of the cgroup, such as those of docker exec, are moved too.
func moveToLeaf(root string) error {
	procs := filepath.Join(root, "cgroup.procs")
	if _, err := os.Stat(filepath.Join(root, "cgroup.type")); err != nil || len(readWords(procs)) == 0 {
		return nil // the root cgroup of the machine, which may have processes; or we have stepped aside
	}
	leaf := filepath.Join(root, leafName)
	self := strconv.Itoa(os.Getpid())
	movers := []string{self}
	if init := os.Getppid(); pid1.HasInit() {
		movers = append(movers, strconv.Itoa(init))
	}
	if slices.Contains(movers, "1") {
		movers = readWords(procs)
	}
	err := os.Mkdir(leaf, 0o755)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	for _, pid := range movers {
		if no := writeKernelFile(filepath.Join(leaf, "cgroup.procs"), pid); pid == self { // others may have ended
			err = cmp.Or(err, no)
		}
	}
	switch {
	case err != nil:
		err = fmt.Errorf("cannot be delegated: %w", err)
	case len(readWords(procs)) > 0:
		err = errors.New("cannot be delegated, because the cgroup has other processes: start disinto as a container's " +
			"first process, or as a service with Delegate=yes")
	default:
		return nil
	}
	for _, pid := range movers {
		_ = writeKernelFile(procs, pid)
	}
	_ = os.Remove(leaf)
	return err
}

// readWords returns the words in a file, or none if the file cannot be read.
func readWords(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Fields(string(text))
}

// writeKernelFile writes to an existing file of the kernel's.
func writeKernelFile(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
