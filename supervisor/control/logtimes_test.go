package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/logtime"
)

// timedLog writes pieces of a log, each a minute after the other; the first has no time.
func timedLog(t *testing.T, pieces ...string) (path string, add func(text string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "r1.log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	times, at, size := logtime.Open(path, 0), time.Date(2026, 1, 31, 23, 58, 0, 0, time.UTC), int64(0)
	add = func(text string) {
		if size > 0 {
			times.Add(size, at)
		}
		n, err := file.WriteString(text)
		if err != nil {
			t.Error(err)
		}
		size, at = size+int64(n), at.Add(time.Minute)
	}
	for _, text := range pieces {
		add(text)
	}
	t.Cleanup(func() { times.Close(); file.Close() })
	return path, add
}

// Each line has its time, also where secrets are hidden, one of several lines too. Without times the log is as it is.
func TestLogTimes(t *testing.T) {
	const key = "-----BEGIN KEY-----\nabcdefgh\n-----END KEY-----"
	path, _ := timedLog(t, "old\n", "it is "+key[:25], key[25:]+" and on\nnext", " goes on\n\nlast")
	secrets := func() []string { return []string{key, "password"} }
	for _, tt := range []struct {
		log  Log
		want string
	}{
		{Log{Path: path}, "old\nit is [secret] and on\nnext goes on\n\nlast"},
		{
			Log{Path: path, Times: true},
			unknownTime + " old\n2026-01-31T23:59:00Z it is [secret] and on\n2026-02-01T00:00:00Z next goes on\n" +
				"2026-02-01T00:01:00Z \n2026-02-01T00:01:00Z last",
		},
		{Log{Path: path, Times: true, Lines: 1}, "2026-02-01T00:01:00Z \n2026-02-01T00:01:00Z last"},
	} {
		var out strings.Builder
		if err := tt.log.Copy(t.Context(), &out, secrets, nil); err != nil || out.String() != tt.want {
			t.Errorf("times %v, lines %d: got %q, %v, want %q", tt.log.Times, tt.log.Lines, out.String(), err, tt.want)
		}
	}
}

// A log that is followed has the times of its new lines.
func TestLogTimesFollow(t *testing.T) {
	path, add := timedLog(t, "one\n", "two\n")
	looks := 0
	live := func() bool {
		if looks++; looks == 2 {
			add("three\n")
		}
		return looks < 3
	}
	log, out := Log{Path: path, Times: true}, new(strings.Builder)
	err := log.Copy(t.Context(), out, none, live)
	want := unknownTime + " one\n2026-01-31T23:59:00Z two\n2026-02-01T00:00:00Z three\n"
	if err != nil || out.String() != want {
		t.Errorf("got %q, %v, want %q", out.String(), err, want)
	}
}

// A clock shows the times of its place, and the date of another day. What has no time stays as it is, however it is
// split into writes.
func TestClock(t *testing.T) {
	const lines = "==> dev-a <==\n2026-01-31T23:59:00Z one\n2026-02-01T11:30:00Z 2026-01-31T23:59:00Z\n\n" +
		unknownTime + " two\n2026-01-31X23:59:00Z three\n2026-02-01T11:30:01Z \n2026-02"
	const want = "==> dev-a <==\nJan 31 23:59:00 one\n11:30:00 2026-01-31T23:59:00Z\n\ntwo\n2026-01-31X23:59:00Z three\n" +
		"11:30:01 \n2026-02"
	for _, n := range []int{1, 7, len(lines)} {
		var out strings.Builder
		c := &Clock{W: &out, Now: func() time.Time { return time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC) }}
		for rest := lines; rest != ""; {
			k := min(n, len(rest))
			if _, err := c.Write([]byte(rest[:k])); err != nil {
				t.Fatal(err)
			}
			rest = rest[k:]
		}
		if err := c.Close(); err != nil || out.String() != want {
			t.Errorf("writes of %d bytes: got %q, %v, want %q", n, out.String(), err, want)
		}
	}
}
