package agents

import "testing"

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1K", 8 << 30: "8G", 3<<30 - 1: "2G", 5 << 40: "5T", 2048 << 40: "2048T",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
}
