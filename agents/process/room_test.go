package process

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestFreeMemory(t *testing.T) {
	const meminfo = "MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:    2000000 kB\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing known", nil, math.MaxInt64},
		{"no limit", map[string]string{"meminfo": meminfo, "memory.max": "max\n", "memory.current": "1000\n"}, 2000000 << 10},
		{"a limit above the machine's memory", map[string]string{
			"meminfo": meminfo, "memory.max": "8000000000\n",
			"memory.current": "1000\n",
		}, 2000000 << 10},
		{
			"a limit below the machine's memory",
			map[string]string{
				"meminfo": meminfo, "memory.max": "1000000\n", "memory.current": "900000\n",
				"memory.stat": "anon 100000\nfile 800000\ninactive_file 300000\nactive_file 500000\n",
			},
			400000,
		},
		{"over the limit", map[string]string{"meminfo": meminfo, "memory.max": "1000\n", "memory.current": "2000\n"}, 0},
		{"a limit alone", map[string]string{"memory.max": "1000\n", "memory.current": "400\n"}, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := freeMemory(dir, dir); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestRoomOfThisMachine(t *testing.T) {
	memory, disk := Room(t.TempDir())
	if memory < 1<<20 || memory == math.MaxInt64 || disk < 1<<10 || disk == math.MaxInt64 {
		t.Errorf("got %d bytes of memory and %d of disk, want plausible numbers", memory, disk)
	}
	if _, disk := Room("/no/such/folder"); disk != math.MaxInt64 {
		t.Errorf("Room of a missing folder: got %d bytes of disk, want unknown", disk)
	}
}
