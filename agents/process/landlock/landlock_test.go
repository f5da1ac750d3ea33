package landlock

import "testing"

// Rules for sockets with a path are asked for only where the kernel knows them: it refuses an unknown access, and the
// session would have no sandbox.
func TestSockets(t *testing.T) {
	for version, want := range map[int]bool{Complete: false, Sockets - 1: false, Sockets: true} {
		if got := handled(version).Handled_access_fs&resolve != 0; got != want {
			t.Errorf("version %d handles sockets: %v, want %v", version, got, want)
		}
	}
	for _, access := range []Access{Read, Write, Device} {
		if accesses[access]&resolve == 0 {
			t.Errorf("%s does not allow the sockets of a folder", access)
		}
	}
}

// TestHolds covers kernels from before Landlock to after the last known version.
func TestHolds(t *testing.T) {
	for version, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 7, 8: 7, 9: 8, 10: 8} {
		holds, lacks := Restrictions(version)
		if len(holds) != want || len(lacks) != max(7-want, 0) {
			t.Errorf("version %d holds %q and lacks %q", version, holds, lacks)
		}
	}
}
