//go:build linux

package control

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestRefusedPeer(t *testing.T) {
	const boxed = "a session in a sandbox may not use the control socket"
	const other = "only root and the supervisor's account may use the control socket"
	inSandbox := func(pid int) bool { return pid == 7 }
	tests := []struct {
		name   string
		peer   *unix.Ucred
		own    int
		barred func(int) bool
		want   string
	}{
		{"no unix socket", nil, 1000, inSandbox, ""},
		{"the supervisor's account", &unix.Ucred{Pid: 5, Uid: 1000}, 1000, inSandbox, ""},
		{"root", &unix.Ucred{Pid: 5}, 1000, inSandbox, ""},
		{"a session in a sandbox", &unix.Ucred{Pid: 7, Uid: 1000}, 1000, inSandbox, boxed},
		{"without sandboxes", &unix.Ucred{Pid: 7, Uid: 1000}, 1000, nil, ""},
		{"another account", &unix.Ucred{Pid: 5, Uid: 65534}, 0, inSandbox, other},
		{"another account, without sandboxes", &unix.Ucred{Pid: 5, Uid: 65534}, 1000, nil, other},
	}
	for _, tt := range tests {
		if got := refusedPeer(tt.peer, tt.own, tt.barred); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
