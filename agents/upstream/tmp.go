package upstream

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Upstream's scripts hold locks in /tmp: of two developers on one project, the second finds the first one's lock and
// exits with 0. So each agent gets its own /tmp, in a mount namespace.

// capSysAdmin is the capability to mount.
const capSysAdmin = 21

// Namespaces returns the ways to start a program in its own mount namespace, the preferred one first: as root, which
// containers seldom allow, and in a user namespace, which not all kernels allow. The user namespace maps our uid to
// itself, because Claude Code refuses to work unattended as root.
func Namespaces() []*syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	own := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{capSysAdmin},
	}
	if uid == 0 {
		return []*syscall.SysProcAttr{{Cloneflags: unix.CLONE_NEWNS}, own}
	}
	return []*syscall.SysProcAttr{own}
}

// Fits reports whether a private /tmp hides none of the paths. The factory itself can be in /tmp.
func Fits(paths ...string) bool {
	for _, path := range paths {
		if path == "/tmp" || strings.HasPrefix(path, "/tmp/") {
			return false
		}
	}
	return true
}

// Exec mounts dir on /tmp, for this process alone, drops the capability to mount, and executes the program. With an
// empty path it returns after the mount, as a test. Call it in one of the Namespaces, on a locked thread. With a path
// it returns only on an error.
func Exec(dir, path string, argv, env []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	if err := unix.Mount(dir, "/tmp", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount %s on /tmp: %w", dir, err)
	}
	if path == "" {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot drop privileges: %w", err)
	}
	return syscall.Exec(path, argv, env)
}
