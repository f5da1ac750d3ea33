package landlock

import "testing"

// TestHolds covers kernels from before Landlock to after the last known version.
func TestHolds(t *testing.T) {
	for version, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 7, 9: 7} {
		holds, lacks := Restrictions(version)
		if len(holds) != want || len(holds)+len(lacks) != len(features) {
			t.Errorf("version %d holds %q and lacks %q", version, holds, lacks)
		}
	}
}
