package supervisor

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents/logtime"
)

// The lines of a log that is copied from elsewhere have the times when they came. After a restart of the supervisor the
// log comes once more from its beginning, and keeps its times.
func TestTimedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "r1.log")
		began := time.Now()
		copies := func(parts ...string) {
			w := &timedLog{known: sizeOf(path)}
			file, err := createLog(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			w.file, w.times = file, logtime.Open(path, w.known)
			defer w.times.Close()
			for _, text := range parts {
				if _, err := w.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
		}
		copies("one\n", "two\n")
		time.Sleep(time.Hour)
		copies("one\ntwo\n", "three\n")
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "one\ntwo\nthree\n" {
			t.Errorf("got the log %q, %v", raw, err)
		}
		times := logtime.Read(path)
		for offset, want := range map[int64]time.Duration{0: 0, 4: time.Minute, 8: 63 * time.Minute} {
			if got := times.At(offset).Sub(began).Round(time.Millisecond); got != want {
				t.Errorf("offset %d: got the time after %s, want %s", offset, got, want)
			}
		}
	})
}
