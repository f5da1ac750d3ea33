package logtime

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// check compares the times at offsets, in seconds after noon; -1 is unknown.
func check(t *testing.T, log string, want map[int64]int) {
	t.Helper()
	times := Read(log)
	for offset, seconds := range want {
		at := times.At(offset)
		switch {
		case seconds < 0 && !at.IsZero():
			t.Errorf("offset %d: got %s, want no time", offset, at)
		case seconds >= 0 && !at.Equal(after(seconds)):
			t.Errorf("offset %d: got %s, want %d s after noon", offset, at.UTC(), seconds)
		}
	}
}

// A line has the time of the newest stamp before it. A later writer goes on, unless the log is another file by now.
func TestTimes(t *testing.T) {
	log := filepath.Join(t.TempDir(), "r1.log")
	check(t, log, map[int64]int{0: -1})
	w := Open(log, 10)
	if !w.Due(noon) {
		t.Error("the first line gets no stamp")
	}
	w.Add(10, after(0))
	if w.Due(noon.Add(atLeast - time.Millisecond)) {
		t.Error("lines of the same second get stamps of their own")
	}
	if !w.Due(after(1)) || !w.Due(after(-100)) {
		t.Error("a second later, or after the clock was set back, a line gets no stamp")
	}
	w.Add(100, after(5))
	w.Close()
	check(t, log, map[int64]int{9: -1, 10: 0, 99: 0, 100: 5, 1 << 40: 5})
	w = Open(log, 200)
	w.Add(200, after(9))
	check(t, log, map[int64]int{10: 0, 100: 5, 200: 9})
	w.Add(50, after(20)) // copytruncate
	check(t, log, map[int64]int{10: -1, 60: 20})
	w.Close()
	if Open(log, 49); Read(log) != nil {
		t.Error("the stamps of a longer file stay")
	}
	var none *Writer
	none.Add(1, noon)
	none.Cut(1, 2)
	none.Restart()
	none.Close()
	if none.Due(noon) {
		t.Error("no writer wants stamps")
	}
}

// When a log loses its middle, the rest keeps its times. When it is made anew, so are they.
func TestCut(t *testing.T) {
	log := filepath.Join(t.TempDir(), "r1.log")
	w := Open(log, 0)
	for i := range 10 {
		w.Add(int64(i)*100, after(i))
	}
	w.Cut(250, 650)
	check(t, log, map[int64]int{0: 0, 100: 1, 200: 2, 249: 2, 250: 6, 299: 6, 300: 7, 400: 8, 500: 9})
	w.Add(600, after(10))
	check(t, log, map[int64]int{500: 9, 600: 10})
	if err := os.Remove(log + Suffix); err != nil {
		t.Fatal(err)
	}
	w.Restart()
	w.Add(0, after(20))
	check(t, log, map[int64]int{0: 20, 700: 20})
}

// The file is bounded: a log of days has a stamp every few seconds.
func TestBounded(t *testing.T) {
	log := filepath.Join(t.TempDir(), "r1.log")
	w := Open(log, 0)
	const most = mostBytes / stampSize
	for i := range 3 * most {
		if at := after(i); w.Due(at) {
			w.Add(int64(i), at)
		}
	}
	info, err := os.Stat(log + Suffix)
	if err != nil || info.Size() > mostBytes {
		t.Fatalf("got %v with %d bytes, want at most %d", err, info.Size(), mostBytes)
	}
	times := Read(log)
	for _, offset := range []int64{0, most, 3*most - 1} {
		if late := after(int(offset)).Sub(times.At(offset)); late < 0 || late > 4*time.Second {
			t.Errorf("offset %d: the time is %s early", offset, late)
		}
	}
}
