package process

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/logtime"
)

// A log keeps its first quarter and its newest lines, however the program splits its writes, and reports how many
// bytes are missing between them. It never takes more than its limit.
func TestCutLog(t *testing.T) {
	const limit = 64 << 10
	for _, piece := range []int{7, 1000, 32 << 10} {
		file, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		log, err := newCutLog(file, file.Name(), nil, limit)
		if err != nil {
			t.Fatal(err)
		}
		var whole strings.Builder
		for i := range storm(40_000, 12_000) {
			fmt.Fprintf(&whole, "line %d\n", i)
		}
		for rest := whole.String(); rest != ""; {
			n := min(piece, len(rest))
			if got, err := log.Write([]byte(rest[:n])); got != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", got, n, err)
			}
			rest = rest[n:]
			if info, err := file.Stat(); err != nil || info.Size() > limit {
				t.Fatalf("the log has %d bytes (%v), want at most its limit", info.Size(), err)
			}
		}
		checkCut(t, file.Name(), whole.String(), limit)
	}
}

// checkCut checks that a log is the whole text without its middle.
func checkCut(t *testing.T, path, whole string, limit int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	cut := regexp.MustCompile(`disinto: +(\d+) bytes are cut out here: max_log is \d+ bytes\n`)
	at := cut.FindStringSubmatchIndex(text)
	if at == nil {
		t.Fatalf("no line about the cut in %d bytes, which begin with %.100q", len(text), text)
	}
	head, tail := text[:at[0]], text[at[1]:]
	missing, _ := strconv.Atoi(text[at[2]:at[3]])
	switch {
	case len(text) > limit || len(head) < limit/4 || len(tail) < limit/4:
		t.Errorf("of %d bytes the log keeps %d and %d, want a quarter of its limit or more of each", len(whole),
			len(head), len(tail))
	case len(head)+missing+len(tail) != len(whole):
		t.Errorf("the log keeps %d and %d bytes of %d, and reports %d as missing", len(head), len(tail), len(whole), missing)
	case !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail):
		t.Errorf("the log is not the text without its middle: %.100q ... %.100q", head, tail)
	case !strings.HasSuffix(head, "\n") || !strings.HasPrefix(tail, "line "):
		t.Errorf("a line is cut: %q, %q", head[len(head)-20:], tail[:20])
	}
}

// A program that prints without end fills its log and not the disk, even while it runs. The log has the program's
// last line, even one that a program with its own account writes to /dev/stderr.
func TestLogIsBounded(t *testing.T) {
	lines := storm(30_000, 15_000)
	for _, user := range []string{"", stranger} {
		job := newJob(t, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done; echo end >>/dev/stderr`,
			lines))
		if user != "" {
			needRoot(t)
		}
		job.User, job.MaxLog = user, 128<<10
		if o := runJob(t, job); o.Result != agents.Done || !strings.HasSuffix(o.Tail, fmt.Sprintf("line %d\nend", lines-1)) {
			t.Errorf("as %q: %+v, want done with the last lines", user, o)
		}
		var whole strings.Builder
		for i := range lines {
			fmt.Fprintf(&whole, "line %d\n", i)
		}
		checkCut(t, job.LogPath, whole.String()+"end\n", 128<<10)
	}
}

// The lines of a log keep their times when it loses its middle, and when its file is made anew.
func TestCutLogTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		file, err := openLog(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		log, err := newCutLog(file, path, nil, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		write := func(lines int) {
			for range lines {
				fmt.Fprintf(log, "%d %s\n", int(time.Since(began).Seconds()), strings.Repeat("x", 100))
				time.Sleep(2 * time.Second)
			}
		}
		check := func() {
			t.Helper()
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			times, offset, lines := logtime.Read(path), int64(0), 0
			for line := range strings.Lines(string(raw)) {
				var said int
				if n, _ := fmt.Sscanf(line, "%d ", &said); n == 1 {
					lines++
					if got := int(times.At(offset).Sub(began).Seconds()); got != said {
						t.Errorf("the line of second %d has the time of %d", said, got)
					}
				}
				offset += int64(len(line))
			}
			if lines < 10 {
				t.Errorf("got %d lines", lines)
			}
		}
		write(2000) // 200 kB
		check()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(20)
		check()
	})
}
