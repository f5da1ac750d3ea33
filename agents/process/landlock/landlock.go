// Package landlock restricts a thread, and every process that the thread starts afterwards, with the kernel's
// Landlock. It needs no privileges but no_new_privs. Its rules allow: everything that the kernel can refuse and no
// rule allows is refused.
package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Access names what a rule allows below its path.
type Access string

// The accesses. None creates device files, which would bypass every rule if the process may use them.
const (
	Read   Access = "read"   // and execute
	Write  Access = "write"  // everything but devices
	Device Access = "device" // read, write and control
	List   Access = "list"   // the names in folders
)

// Path is a rule for a file, or for a folder and everything in it.
type Path struct {
	Name   []byte // bytes, because a JSON string would change other bytes than UTF-8
	Access Access
}

// Rules list the permitted accesses. The zero value permits none.
type Rules struct {
	Paths   []Path
	Connect []Range `json:",omitempty"` // TCP ports of any host
	AnyPort bool    `json:",omitempty"` // connect to every TCP port
	AnyBind bool    `json:",omitempty"` // listen on every TCP port
	// Listen are the TCP ports of this machine that programs may bind sockets to. Port 0 permits the port that the kernel
	// chooses.
	Listen []Range `json:",omitempty"`
}

// Range are the ports from the first to the last. The kernel needs a rule for each port, which takes it a microsecond.
type Range struct{ First, Last int }

// Has reports whether a port is in one of the ranges.
func Has(ranges []Range, port int) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.First <= port && port <= r.Last })
}

const (
	// Oldest is the lowest version that a sandbox accepts. Version 1 refuses to move a file between folders even where
	// both are writable, and package managers do that.
	Oldest = 2
	// Complete is the first version that can refuse everything that a strict sandbox should.
	Complete = 6
	// Sockets is the first version that can refuse connections to unix sockets with a path.
	Sockets = 9
	// Ports is the first version that can refuse TCP ports.
	Ports = 4
)

const (
	// resolve is the connection to a socket that was made outside the sandbox; a session's own sockets need no rule.
	resolve = unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	read    = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		resolve
	change = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	write  = read | change | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	device = write | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	all    = device | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	// ofFiles are the accesses that a rule for a file can have.
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | change |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | resolve

	connect  = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	listen   = unix.LANDLOCK_ACCESS_NET_BIND_TCP
	rulePort = 2 // LANDLOCK_RULE_NET_PORT
)

var accesses = map[Access]uint64{
	Read: read, Write: write, Device: device, List: unix.LANDLOCK_ACCESS_FS_READ_DIR,
}

// features lists the versions' additions, oldest first.
var features = []struct {
	since int
	name  string
	attr  unix.LandlockRulesetAttr
}{
	{1, "files", unix.LandlockRulesetAttr{
		Handled_access_fs: all &^ (unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
			unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | resolve),
	}},
	{2, "moves", unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER}},
	{3, "truncation", unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_TRUNCATE}},
	{Ports, "TCP ports", unix.LandlockRulesetAttr{Handled_access_net: connect | listen}},
	{5, "devices", unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}},
	{6, "signals", unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}},
	{6, "abstract sockets", unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}},
	{Sockets, "sockets with a path", unix.LandlockRulesetAttr{Handled_access_fs: resolve}},
}

// Restrictions names what a version can refuse, and what of a complete sandbox it cannot.
func Restrictions(version int) (holds, lacks []string) {
	for _, f := range features {
		if f.since <= version {
			holds = append(holds, f.name)
		} else if f.since <= Complete {
			lacks = append(lacks, f.name)
		}
	}
	return holds, lacks
}

// Version asks the kernel for its version of Landlock. The error says why it has no usable one.
func Version() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno == unix.ENOSYS:
		return 0, errors.New("the kernel has no Landlock")
	case errno == unix.EOPNOTSUPP:
		return 0, errors.New("the kernel's active security modules lack Landlock (lsm=landlock,...)")
	case errno == unix.EPERM, errno == unix.EACCES:
		return 0, errors.New("the container's seccomp profile refuses Landlock")
	case errno != 0:
		return 0, fmt.Errorf("the kernel refuses Landlock: %w", errno)
	case v < Oldest:
		return 0, fmt.Errorf("the kernel has Landlock version %d, and at least %d is needed", v, Oldest)
	}
	return int(v), nil
}

// Restrict permanently restricts the calling thread, as far as version permits. Rules for paths that do not exist are
// skipped. The thread needs no_new_privs or CAP_SYS_ADMIN. After an error it is not restricted.
func Restrict(r *Rules, version int) error {
	attr := handled(version)
	if r.AnyPort {
		attr.Handled_access_net &^= connect
	}
	if r.AnyBind {
		attr.Handled_access_net &^= listen
	}
	// The fields after Scoped belong to later versions; a kernel that does not know them requires 0.
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("cannot make a set of rules: %w", errno)
	}
	defer unix.Close(int(set))
	for _, p := range r.Paths {
		if err := allow(set, p, attr.Handled_access_fs); err != nil && !skips(err) {
			return fmt.Errorf("cannot make a rule for %s: %w", p.Name, err)
		}
	}
	if attr.Handled_access_net != 0 {
		if err := allowPorts(set, r, attr.Handled_access_net); err != nil {
			return err
		}
	}
	var flags uintptr
	if version >= 7 {
		flags = unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON // log programs' refused accesses in an existing audit log
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, flags, 0); errno != 0 {
		return fmt.Errorf("cannot enforce the rules: %w", errno) // E2BIG: 16 are in force already
	}
	return nil
}

func handled(version int) (attr unix.LandlockRulesetAttr) {
	for _, f := range features {
		if f.since <= version {
			attr.Handled_access_fs |= f.attr.Handled_access_fs
			attr.Handled_access_net |= f.attr.Handled_access_net
			attr.Scoped |= f.attr.Scoped
		}
	}
	return attr
}

func allow(set uintptr, p Path, handled uint64) error {
	fd, err := unix.Open(string(p.Name), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: accesses[p.Access] & handled, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= ofFiles
	}
	if rule.Allowed_access == 0 {
		return nil
	}
	if errno := addRule(set, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&rule)); errno != 0 {
		return errno
	}
	return nil
}

// allowPorts permits what of ports is handled. A port with both accesses needs one rule.
func allowPorts(set uintptr, r *Rules, handled uint64) error {
	allow := func(access uint64, port int) error {
		rule := struct{ access, port uint64 }{access & handled, uint64(port)}
		if rule.access == 0 {
			return nil
		}
		if errno := addRule(set, rulePort, unsafe.Pointer(&rule)); errno != 0 {
			return fmt.Errorf("cannot make a rule for port %d: %w", port, errno)
		}
		return nil
	}
	var all error
	for _, ports := range r.Listen {
		for port := ports.First; port <= ports.Last && all == nil; port++ {
			access := uint64(listen)
			if Has(r.Connect, port) {
				access |= connect
			}
			all = allow(access, port)
		}
	}
	for _, ports := range r.Connect {
		for port := ports.First; port <= ports.Last && all == nil; port++ {
			if !Has(r.Listen, port) {
				all = allow(connect, port)
			}
		}
	}
	return all
}

func addRule(set uintptr, kind uintptr, rule unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, kind, uintptr(rule), 0, 0, 0)
	return errno
}

// skips reports whether an error means that there is nothing to allow: a path that cannot be reached cannot be used.
// The kernel has no rules for files without a disk, such as the pipe behind /dev/stdout.
func skips(err error) bool {
	return slices.ContainsFunc([]error{fs.ErrNotExist, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.EBADFD},
		func(e error) bool { return errors.Is(err, e) })
}

// Describe returns a text for people: what a version refuses, and what it cannot refuse.
func Describe(version int) string {
	holds, lacks := Restrictions(version)
	text := fmt.Sprintf("Landlock %d restricts %s", version, strings.Join(holds, ", "))
	if len(lacks) > 0 {
		text += "; this kernel cannot restrict " + strings.Join(lacks, ", ")
	}
	if version < Sockets {
		text += "; sockets with a path stay open"
	}
	return text
}
