package decisions

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const token = "s3cret-token-of-dev"

// factory returns a factory with one agent on a sticky slot, and waiting issues.
func factory(issues int) *threads.Snapshot {
	cfg := &threads.Config{
		Name: "factory.toml", Forge: threads.Forge{Repos: []string{"o/r"}, Token: "s3cret-of-disinto", MaxUnreviewed: 3},
		Threads: []threads.Thread{{
			Name: "llama", Backend: threads.Local, Slots: 1, MaxSessions: 1, Agents: []string{"dev"}, Interval: 5 * time.Second,
		}},
		Agents:  []agents.Agent{{Name: "dev", Login: "dev", Roles: []string{"dev"}, Thread: "llama", Token: token}},
		Roles:   []agents.Role{{Name: "dev", On: agents.OnIssue, Priority: 5, Command: []string{"work", token}}},
		Secrets: []agents.SecretVar{{Name: "TOKEN", Value: token}},
	}
	s := &threads.Snapshot{Now: time.Now(), Config: cfg, History: threads.NewHistory()}
	s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: s.Now, DefaultBranch: "main"}}
	for i := range int64(issues) {
		s.Facts.Issues = append(s.Facts.Issues, forge.Issue{
			Ref: forge.Ref{Repo: "o/r", Number: i + 1}, Title: fmt.Sprint("issue ", i+1), Body: "the text of an issue",
			Labels: []string{forge.LabelBacklog}, Created: s.Now.Add(-time.Hour), BlockersKnown: true, AsOf: s.Now,
		})
	}
	return s
}

// record is a recorder with its own state directory.
type record struct {
	*Recorder
	dir  string
	done chan struct{}
	gone chan struct{}
	bad  []error
}

func newRecord(t *testing.T, dir string, upgraded bool) *record {
	r := &record{Recorder: NewRecorder(), dir: dir, done: make(chan struct{}), gone: make(chan struct{})}
	o := Options{
		StateDir: dir, Program: "1.2", Upgraded: upgraded,
		Trouble: func(err error) { r.bad = append(r.bad, err) },
	}
	go func() {
		defer close(r.gone)
		r.Keep(o, r.done)
	}()
	t.Cleanup(r.stop)
	return r
}

// stop ends the recorder as the end of the supervisor does.
func (r *record) stop() {
	select {
	case <-r.done:
	default:
		close(r.done)
	}
	<-r.gone
}

// frozen decides on a snapshot, and copies both.
func frozen(s *threads.Snapshot) *threads.FrozenDecision {
	plan := threads.Decide(*s)
	return s.Freeze(&plan, nil)
}

// take queues the decision on a snapshot.
func (r *record) take(s *threads.Snapshot) {
	r.Take(s.Now, func() *threads.FrozenDecision { return frozen(s) })
}

// decide decides on a snapshot's present state, and waits until that is written.
func (r *record) decide(s *threads.Snapshot) {
	s.Now = time.Now()
	s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: s.Now, DefaultBranch: "main"}}
	r.take(s)
	r.Settle(nil)
}

// pause changes the reason why everything waits.
func pause(s *threads.Snapshot, paused bool) {
	if s.History.Paused = map[threads.Pause]time.Time{}; paused {
		s.History.Paused[threads.Pause{}] = s.Now
	}
}

// verdict returns the verdict on an issue at a time, or the error in its place.
func verdict(dir, said string, at time.Time, runs bool) string {
	ex, err := Why(dir, said, at, runs)
	switch {
	case err != nil:
		return err.Error()
	case ex.Decided.Otherwise:
		return "otherwise: " + ex.Verdict
	}
	return ex.Verdict
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// in runs a test in a bubble with a state directory.
func in(t *testing.T, f func(t *testing.T, dir string)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { f(t, dir) })
}

// Each decision is found at its time and in force until the next.
func TestWhy(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		r := newRecord(t, dir, false)
		began := time.Now()
		r.decide(s)
		time.Sleep(time.Minute)
		pause(s, true)
		r.decide(s)
		time.Sleep(time.Minute)
		pause(s, false)
		s.Facts.Issues = append([]forge.Issue(nil), s.Facts.Issues[1:]...) // the first was closed
		r.decide(s)
		time.Sleep(time.Minute)
		for at, want := range map[time.Duration]string{
			0:                              "starts now: dev on llama, slot 0",
			59 * time.Second:               "starts now: dev on llama, slot 0",
			time.Minute:                    "waits: everything is paused",
			119 * time.Second:              "waits: everything is paused",
			2*time.Minute + 30*time.Second: "no open issue or pull request with that number was known yet",
			-time.Second - 1:               "the first kept decision is from 2000-01-01T00:00:00Z",
		} {
			expect(t, at.String(), verdict(dir, "1", began.Add(at), true), want)
		}
		for said, want := range map[string]string{
			"o/R#2": "starts now", "dev": "works on issue o/r#2", "llama": "1 of 1 sessions run: dev",
			"x/y#1": "none of the repositories", "nobody": "it was neither an agent",
		} {
			expect(t, said, verdict(dir, said, began.Add(150*time.Second), true), want)
		}
		ex, err := Why(dir, "2", began.Add(150*time.Second), true)
		if err != nil || !ex.Decided.At.Equal(began.Add(2*time.Minute)) || ex.Decided.By != "1.2" {
			t.Errorf("got %+v, %v, want the decision of version 1.2 at its time", ex.Decided, err)
		}
	})
}

// While nothing changes, only a mark every ten minutes is written.
func TestNothingNew(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		pause(s, true)
		r := newRecord(t, dir, false)
		r.decide(s)
		size := func() int64 {
			segments, err := list(filepath.Join(dir, Folder))
			if err != nil || len(segments) != 1 {
				t.Fatal(segments, err)
			}
			return segments[0].size
		}
		one := size()
		for range 100 {
			time.Sleep(5 * time.Second)
			r.decide(s)
		}
		if size() != one {
			t.Errorf("got %d bytes, then %d, want no growth", one, size())
		}
		time.Sleep(2 * time.Minute)
		if r.decide(s); size() == one {
			t.Error("no mark was written after ten minutes")
		}
	})
}

// The disk holds no secret, and only our account can read the files.
func TestNothingSecret(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		r := newRecord(t, dir, false)
		s := factory(3)
		r.decide(s)
		time.Sleep(time.Second)
		pause(s, true)
		s.Facts.Issues[0].Labels = []string{"other"}
		s.Facts.Issues[0].Body = "another text of it"
		r.decide(s)
		r.stop()
		info, err := os.Stat(filepath.Join(dir, Folder))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: got %v, %v, want mode 0700", info.Mode(), err)
		}
		for _, path := range files(t, dir) {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: got %v, %v, want mode 0600", path, info.Mode(), err)
			}
			text := unzip(t, path)
			for _, no := range []string{"s3cret", "text of"} {
				if bytes.Contains(text, []byte(no)) {
					t.Errorf("found %s in %s", no, text)
				}
			}
			if !bytes.Contains(text, []byte("issue 3")) {
				t.Errorf("the title is missing in %s", text)
			}
		}
	})
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, Folder, "*.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	return paths
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return text
}

// However much of the last line a kill left, earlier lines are found, and nothing is made up.
func TestTorn(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		r := newRecord(t, dir, false)
		began := time.Now()
		pause(s, true)
		r.decide(s)
		path := files(t, dir)[0]
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		pause(s, false)
		r.decide(s)
		more, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r.stop()
		time.Sleep(time.Minute)
		step := 29 // all in make check
		if os.Getenv("DISINTO_STORMS") != "" {
			step = 1
		}
		for n := 0; n < len(more); n += step {
			if err := os.WriteFile(path, more[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			first, last := verdict(dir, "1", began, false), verdict(dir, "1", began.Add(time.Minute), false)
			if n >= len(whole) && !strings.Contains(first, "waits: everything is paused") || strings.Contains(first, "starts") {
				t.Fatalf("after %d bytes and %d: the first verdict is %q", len(more), n, first)
			}
			if !strings.Contains(last, "cannot be read") && !strings.Contains(last, "is kept after") &&
				!strings.Contains(last, "starts now") {
				t.Fatalf("after %d bytes and %d: the last verdict is %q", len(more), n, last)
			}
		}
		// A byte changed by the disk is noticed.
		for n := 0; n < len(more); n += step {
			text := bytes.Clone(more)
			text[n] ^= 0x10
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := verdict(dir, "1", began, false); strings.Contains(got, "starts") || strings.Contains(got, "otherwise") {
				t.Fatalf("with byte %d changed, the verdict is %q", n, got)
			}
		}
	})
}

// Between two supervisors the decisions are unknown, unless the second is the next image of the first.
func TestGaps(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		began := time.Now()
		at := func(minutes int) string {
			return verdict(dir, "1", began.Add(time.Duration(minutes)*time.Minute), false)
		}
		first := newRecord(t, dir, false)
		pause(s, true)
		first.decide(s)
		time.Sleep(2 * time.Minute)
		first.stop()
		expect(t, "before the end", at(1), "waits: everything is paused")
		time.Sleep(3 * time.Minute)
		expect(t, "after the end", at(4), "kept after 2000-01-01T00:02:00Z: the supervisor did not run")
		second := newRecord(t, dir, false)
		second.decide(s)
		expect(t, "between", at(4), "kept between 2000-01-01T00:02:00Z and 2000-01-01T00:05:00Z: the supervisor did not run")
		time.Sleep(5 * time.Minute)
		expect(t, "while it may run", at(6),
			"kept after 2000-01-01T00:05:00Z: the supervisor was killed, or could not write them")
		expect(t, "while it runs", verdict(dir, "1", began.Add(6*time.Minute), true), "waits: everything is paused")
		// The second is replaced by its next image without an ending.
		third := newRecord(t, dir, true)
		third.decide(s)
		expect(t, "between two images", at(7), "waits: everything is paused")
		third.stop()
	})
}

// Decisions that are made faster than they are written are lost, and the reader reports that.
func TestLost(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		r := &record{Recorder: NewRecorder(), dir: dir, done: make(chan struct{})}
		began := time.Now()
		for i := range waiting + 5 {
			s.Now = time.Now()
			pause(s, i%2 == 0)
			r.take(s)
			time.Sleep(time.Second)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r.Keep(Options{StateDir: dir}, r.done)
		}()
		time.Sleep(time.Minute)
		pause(s, true)
		r.decide(s)
		close(r.done)
		<-gone
		expect(t, "the last that was taken", verdict(dir, "1", began.Add((waiting-1)*time.Second), false), "starts now")
		for _, lost := range []time.Duration{waiting * time.Second, (waiting + 4) * time.Second, 60 * time.Second} {
			expect(t, lost.String(), verdict(dir, "1", began.Add(lost), false),
				"5 decisions between 2000-01-01T00:00:08Z and 2000-01-01T00:01:13Z were made faster than they could be written")
		}
		expect(t, "the next", verdict(dir, "1", began.Add(73*time.Second), false), "waits: everything is paused")
	})
}

// After a clock was set back, the latest decision at a time counts.
func TestClockSetBack(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		r := newRecord(t, dir, false)
		noon := time.Now().Add(12 * time.Hour)
		decide := func(at time.Duration, paused bool) {
			s.Now = noon.Add(at)
			s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: s.Now, DefaultBranch: "main"}}
			pause(s, paused)
			r.take(s)
			r.Settle(nil)
		}
		decide(0, true)
		decide(time.Hour, true)
		decide(10*time.Minute, false) // 50 minutes back
		decide(20*time.Minute, false)
		for at, want := range map[time.Duration]string{
			5 * time.Minute: "waits: everything is paused", 10 * time.Minute: "starts now", 15 * time.Minute: "starts now",
			2 * time.Hour: "starts now",
		} {
			expect(t, at.String(), verdict(dir, "1", noon.Add(at), true), want)
		}
	})
}

// Loops read the clock before they wait for their turn to decide. That does not count as a clock set back.
func TestDecidedOutOfTurn(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		r := newRecord(t, dir, false)
		began := time.Now()
		for i := range 6 {
			s.Now = began.Add(time.Duration(i*1000-i%2*1500) * time.Millisecond)
			pause(s, i%2 == 0)
			r.take(s)
		}
		r.Settle(nil)
		if n := len(files(t, dir)); n != 1 {
			t.Errorf("got %d segments, want 1", n)
		}
		time.Sleep(time.Minute)
		expect(t, "at last", verdict(dir, "1", began.Add(10*time.Second), true), "starts now")
		expect(t, "in between", verdict(dir, "1", began.Add(2*time.Second), true), "starts now")
		expect(t, "at first", verdict(dir, "1", began.Add(1500*time.Millisecond), true), "starts now")
	})
}

// A full disk costs only the decisions made meanwhile. A segment that could not be started leaves no file.
func TestDiskFull(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		began := time.Now()
		if err := os.WriteFile(filepath.Join(dir, Folder), nil, 0o600); err != nil { // a file in the folder's place
			t.Fatal(err)
		}
		r := newRecord(t, dir, false)
		for range 5 {
			r.decide(s)
			time.Sleep(time.Minute)
		}
		if len(r.bad) != 1 || !strings.HasPrefix(r.bad[0].Error(), "cannot keep decisions: ") {
			t.Fatalf("Trouble received %q, want one error", r.bad)
		}
		if err := os.Remove(filepath.Join(dir, Folder)); err != nil {
			t.Fatal(err)
		}
		r.decide(s)
		if len(r.bad) != 2 || r.bad[1] != nil {
			t.Fatalf("Trouble received %q, want an error and nil", r.bad)
		}
		expect(t, "afterwards", verdict(dir, "1", time.Now(), true), "starts now")
		expect(t, "before", verdict(dir, "1", began, true), "the first kept decision is from 2000-01-01T00:05:00Z")
	})
}

// The same while a segment is written: the recorder continues in another one.
func TestDiskFullLater(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		var told []error
		w := &writer{
			Options: Options{StateDir: dir, Trouble: func(err error) { told = append(told, err) }},
			dir:     filepath.Join(dir, Folder), after: started,
		}
		take := func(paused bool) {
			s.Now = time.Now()
			pause(s, paused)
			w.take(&decision{FrozenDecision: frozen(s)})
			time.Sleep(time.Minute)
		}
		began := time.Now()
		take(true)
		w.file.Close() // every write fails from now on
		take(false)
		take(false)
		if len(told) != 2 || told[0] == nil || told[1] != nil {
			t.Fatalf("Trouble received %q, want an error and nil", told)
		}
		expect(t, "before", verdict(dir, "1", began, true), "waits: everything is paused")
		expect(t, "meanwhile", verdict(dir, "1", began.Add(90*time.Second), true),
			"kept between 2000-01-01T00:00:00Z and 2000-01-01T00:02:00Z: the supervisor was killed, or could not write them")
		expect(t, "afterwards", verdict(dir, "1", began.Add(150*time.Second), true), "starts now")
		w.end(stopped, time.Now())
	})
}

// Segments older than a week are deleted, and the oldest of the others until the rest fits.
func TestPrune(t *testing.T) {
	dir := filepath.Join(t.TempDir(), Folder)
	now := time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		days []int // the age of each segment's start
		size int64 // of each segment
		want int   // segments left
	}{
		"nothing is too old":             {[]int{7, 5, 3}, 1 << 20, 3},
		"the first ended eight days ago": {[]int{12, 8, 3}, 1 << 20, 2},
		"the first began eight days ago": {[]int{8, 6, 3}, 1 << 20, 3},
		"too large":                      {[]int{5, 4, 3, 2}, 6 << 20, 3},
		"all too old":                    {[]int{30, 20, 10}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			os.RemoveAll(dir)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			w := &writer{dir: dir, now: segment{number: 9, began: now.AddDate(0, 0, -1), size: 1 << 20}}
			for i, ago := range tt.days {
				s := segment{number: int64(i + 1), began: now.AddDate(0, 0, -ago), size: tt.size}
				w.before = append(w.before, s)
				if err := os.WriteFile(s.path(dir), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.prune(now); err != nil {
				t.Fatal(err)
			}
			left, err := list(dir)
			if err != nil || len(left) != tt.want || len(w.before) != tt.want {
				t.Errorf("got %d segments left, %v, want %d", len(left), err, tt.want)
			}
		})
	}
	w := &writer{dir: dir, now: segment{size: keepSize + 1}}
	if err := w.prune(now); err == nil {
		t.Error("prune accepted a segment larger than the bound on all segments")
	}
}

// A segment ends when it is full or old, and when the configuration changes. The next decision starts another one.
func TestSegments(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		s := factory(3)
		r := newRecord(t, dir, false)
		began := time.Now()
		count := func() int { return len(files(t, dir)) }
		r.decide(s)
		time.Sleep(segmentTime)
		r.decide(s)
		if count() != 2 {
			t.Errorf("got %d segments after %s, want 2", count(), segmentTime)
		}
		cfg := *s.Config
		s.Config = &cfg
		time.Sleep(time.Minute)
		if r.decide(s); count() != 3 {
			t.Errorf("got %d segments after a reload, want 3", count())
		}
		expect(t, "before the first end", verdict(dir, "1", began.Add(segmentTime-time.Minute), true), "starts now")
		r.stop()
		for i := 0; !t.Failed() && count() == 3; i++ { // long titles, which do not repeat
			if i == 0 {
				r = newRecord(t, dir, true)
			}
			if i > 2000 {
				t.Fatal("a segment never ends")
			}
			s.Facts.Issues = append([]forge.Issue(nil), s.Facts.Issues...)
			s.Facts.Issues[0].Title = noise(i)
			time.Sleep(time.Second)
			r.decide(s)
		}
	})
}

// noise returns text that does not compress well.
func noise(seed int) string {
	var b strings.Builder
	x := uint32(seed*2654435761 + 1)
	for range 4000 {
		x = x*1664525 + 1013904223
		b.WriteByte('!' + byte(x>>24)%90)
	}
	return b.String()
}

// A segment of a newer version is not misread, and other files are ignored.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, Folder)
	now := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	expect(t, "no folder", verdict(dir, "1", now, true), "no decisions are kept in "+folder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes", "1.gz", "0000000001-x.gz", "0000000001-20300101T000000.000000000Z.gz.new"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "other files", verdict(dir, "1", now, true), "no decisions are kept")
	s := segment{number: 1, began: now.Add(-time.Hour)}
	text, err := encode(&line{Heading: &heading{Format: format + 1}})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(text)
	z.Close()
	if err := os.WriteFile(s.path(folder), zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "newer", verdict(dir, "1", now, true), "is stored in format 2, and this disinto reads 1")
}

// FuzzSegment: any content of a segment is either read or refused.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	w := &writer{dir: filepath.Join(dir, Folder), after: started}
	s := factory(2)
	for i := range 3 {
		s.Now = s.Now.Add(time.Minute)
		pause(s, i%2 == 0)
		w.take(&decision{FrozenDecision: frozen(s)})
	}
	w.end(stopped, s.Now)
	raw, err := os.ReadFile(w.now.path(w.dir))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, true)
	in, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, false)
	f.Add([]byte("00000000 \n"), false)
	f.Fuzz(func(t *testing.T, text []byte, zipped bool) {
		if !zipped {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(text)
			z.Close()
			text = b.Bytes()
		}
		if err := os.WriteFile(w.now.path(w.dir), text, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = verdict(dir, "1", s.Now, true)
	})
}
