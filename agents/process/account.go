package process

import (
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// account is the system account of a session. It is nil for a session with the supervisor's own account.
type account struct {
	name string
	cred syscall.Credential
}

// CheckUser returns why a session cannot run as the system account with that name; nil if it can. The empty name is
// the supervisor's own account.
func CheckUser(name string) error {
	_, err := findAccount(name)
	return err
}

// findAccount looks up the account with that name. It returns nil for the supervisor's own account, and for the empty
// name.
func findAccount(name string) (*account, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("no account %q on this system", name)
	}
	a := &account{name: name}
	if _, err := fmt.Sscan(u.Uid+" "+u.Gid, &a.cred.Uid, &a.cred.Gid); err != nil {
		return nil, fmt.Errorf("account %q: %w", name, err)
	}
	switch os.Geteuid() {
	case int(a.cred.Uid):
		return nil, nil
	case 0:
	default:
		return nil, fmt.Errorf("only root can run agents as %q", name)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("account %q: %w", name, err)
	}
	for _, g := range groups {
		if id, err := strconv.ParseUint(g, 10, 32); err == nil {
			a.cred.Groups = append(a.cred.Groups, uint32(id))
		}
	}
	return a, nil
}

// credential returns the account in the form that fork takes; nil for nil.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &a.cred
}

// do calls f with the account's file rights instead of ours, so that a link made by the agent leads only where the
// agent itself can go. The nil account changes nothing.
func (a *account) do(f func() error) error {
	if a == nil {
		return f()
	}
	return asFileUser(int(a.cred.Uid), int(a.cred.Gid), f)
}

// asFileUser calls f on a thread with the file rights of uid and gid. The kernel keeps these two ids per thread (Go
// changes the others on all threads). Meanwhile root has no file capabilities on that thread.
func asFileUser(uid, gid int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	oldGID, _ := unix.SetfsgidRetGid(gid)
	defer func() { _, _ = unix.SetfsgidRetGid(oldGID) }()
	oldUID, _ := unix.SetfsuidRetUid(uid)
	defer func() { _, _ = unix.SetfsuidRetUid(oldUID) }()
	return f()
}
