package answers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ref(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }

// past writes answers to a state directory, as a supervisor does.
type past struct {
	t *testing.T
	Recorder
	dir  string
	snap threads.Snapshot
}

func newPast(t *testing.T) *past {
	p := &past{t: t, dir: t.TempDir()}
	p.snap.Config = &threads.Config{
		Forge:   threads.Forge{Repos: []string{"o/r"}},
		Roles:   []agents.Role{{Name: "dev", On: agents.OnIssue, Command: []string{"dev"}}},
		Threads: []threads.Thread{{Name: "llama", Slots: 1, MaxSessions: 1, Agents: []string{"dev-a"}}},
		Agents:  []agents.Agent{{Name: "dev-a", Roles: []string{"dev"}, Thread: "llama", Token: "t"}},
	}
	p.snap.History = threads.NewHistory()
	return p
}

func (p *past) begin(after time.Duration) {
	p.Begin(noon.Add(after), p.dir, "v1", func(err error) { p.t.Log(err) })
}

// plan decides that items wait for these reasons, and returns the new lines.
func (p *past) plan(after time.Duration, holds map[int64]threads.Reason) []Line {
	p.snap.Now = noon.Add(after)
	var plan threads.Plan
	for n := range int64(10) {
		if why, waits := holds[n]; waits {
			item := threads.Item{Kind: agents.KindIssue, Ref: ref(n)}
			plan.Holds = append(plan.Holds, &threads.Hold{Item: item, Reason: &why})
		}
	}
	lines := p.Changes(&p.snap, &plan)
	p.Write(p.snap.Now, lines)
	return lines
}

// why returns the answer of a time, or the error.
func (p *past) why(said string, after time.Duration, runs bool) string {
	ex, err := Why(p.dir, said, noon.Add(after), runs)
	if err != nil {
		_, words, _ := strings.Cut(err.Error(), "Z: ")
		return words
	}
	return ex.Verdict
}

func blocked(n int64) threads.Reason {
	return threads.Reason{Code: threads.BlockerOpen, Refs: []forge.Ref{ref(n)}}
}

// A line is written when the code or the lasting part of a reason changes, and not for counts.
func TestChanges(t *testing.T) {
	p := newPast(t)
	p.begin(0)
	full := func(n int) threads.Reason {
		return threads.Reason{Code: threads.Unreviewed, Count: n, Limit: 3}
	}
	for i, step := range []struct {
		holds map[int64]threads.Reason
		want  []string
	}{
		{map[int64]threads.Reason{1: blocked(9), 2: full(3), 3: full(3)}, []string{
			"o/r#1: waits: blocked by o/r#9",
			"o/r#2 o/r#3: waits: too many pull requests wait for review",
			"dev-a: idle", "llama: no sessions running, of at most 1",
		}},
		{map[int64]threads.Reason{1: blocked(9), 2: full(4), 3: full(5)}, nil},
		{map[int64]threads.Reason{1: blocked(8), 2: full(4), 3: full(5)}, []string{"o/r#1: waits: blocked by o/r#8"}},
		{map[int64]threads.Reason{1: blocked(8), 3: full(4)}, []string{"o/r#2: closed"}},
	} {
		var got []string
		for _, l := range p.plan(time.Duration(i)*time.Minute, step.holds) {
			got = append(got, strings.Join(l.Of, " ")+": "+l.Why)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("plan %d: %s", i, diff)
		}
	}
}

// The answers of two supervisors, one that was killed and one that stopped, and of the times between them.
func TestWhy(t *testing.T) {
	p := newPast(t)
	p.begin(0)
	p.plan(time.Minute, map[int64]threads.Reason{1: blocked(9), 2: {Code: threads.Draft}})
	p.plan(2*time.Minute, map[int64]threads.Reason{1: {Code: threads.Draft}, 2: {Code: threads.Draft}})
	p.plan(20*time.Minute, map[int64]threads.Reason{1: {Code: threads.Draft}, 2: {Code: threads.Draft}})
	p.Recorder = Recorder{} // killed
	p.begin(time.Hour)
	p.plan(61*time.Minute, map[int64]threads.Reason{1: blocked(7)})
	p.End(noon.Add(2 * time.Hour))
	const unknown = "it was neither an open issue or pull request that had been read, nor an agent or thread"
	for _, tt := range []struct {
		said  string
		after time.Duration
		runs  bool
		want  string
	}{
		{"1", -time.Minute, false, "the first kept answer is from 2026-11-21T12:00:00Z"},
		{"1", 30 * time.Second, false, unknown},
		{"1", time.Minute, false, "waits: blocked by o/r#9"},
		{"#1", 119 * time.Second, false, "waits: blocked by o/r#9"},
		{"O/r#1", 2 * time.Minute, false, "waits: draft"},
		{"http://forge/o/r/issues/1", 20 * time.Minute, false, "waits: draft"},
		{"x/y#1", 20 * time.Minute, false, unknown},
		{
			"1", 25 * time.Minute, false,
			"no answer is kept from 2026-11-21T12:20:00Z to 2026-11-21T13:00:00Z: the supervisor was killed",
		},
		{"2", 62 * time.Minute, true, unknown},
		{"1", 62 * time.Minute, true, "waits: blocked by o/r#7"},
		{"dev-a", 62 * time.Minute, false, "idle"},
		{"llama", 62 * time.Minute, false, "no sessions running, of at most 1"},
		{"1", 3 * time.Hour, false, "no answer is kept since 2026-11-21T14:00:00Z: no supervisor ran"},
	} {
		if got := p.why(tt.said, tt.after, tt.runs); got != tt.want {
			t.Errorf("%s after %s: got %q, want %q", tt.said, tt.after, got, tt.want)
		}
	}
	for name, kind := range map[string]agents.Kind{"dev-a": "agent", "llama": "thread"} {
		if ex, err := Why(p.dir, name, noon.Add(62*time.Minute), false); err != nil || ex.Kind != kind {
			t.Errorf("%s: got kind %q, %v, want %s", name, ex.Kind, err, kind)
		}
	}
	waits, err := Waits(p.dir, ref(1), noon.Add(4*time.Hour))
	want := []Wait{
		{"o/r#7", threads.BlockerOpen, 59 * time.Minute},
		{"", threads.Draft, 18 * time.Minute},
		{"o/r#9", threads.BlockerOpen, time.Minute},
	}
	if diff := cmp.Diff(want, waits); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// While a supervisor runs, its last answer holds. After its kill, nothing is known.
func TestNewest(t *testing.T) {
	p := newPast(t)
	p.begin(0)
	p.plan(0, map[int64]threads.Reason{1: blocked(9)})
	if got := p.why("1", time.Hour, true); got != "waits: blocked by o/r#9" {
		t.Errorf("got %q", got)
	}
	if got := p.why("1", time.Hour, false); !strings.HasSuffix(got, "12:00:00Z: the supervisor was killed") {
		t.Errorf("got %q", got)
	}
}

// Numbers of two repositories need their repository.
func TestAmbiguous(t *testing.T) {
	p := newPast(t)
	p.begin(0)
	p.Write(noon, []Line{{At: noon, Of: []string{"a/b#1", "o/r#1"}, answer: answer{Why: "waits"}}})
	if got := p.why("1", 0, true); got != "it may be a/b#1 or o/r#1" {
		t.Errorf("got %q", got)
	}
}

// A large file becomes the old one, and every answer is in the new one again. A reader knows both.
func TestTurns(t *testing.T) {
	p := newPast(t)
	holds := map[int64]threads.Reason{1: blocked(9)}
	p.begin(0)
	p.plan(0, holds)
	p.file.size = sizeLimit
	p.plan(markRest, map[int64]threads.Reason{1: blocked(8)})
	if lines := p.plan(markRest+time.Minute, map[int64]threads.Reason{1: blocked(8)}); len(lines) != 3 {
		t.Errorf("the first plan after the turn wrote %d lines, want all 3", len(lines))
	}
	for after, want := range map[time.Duration]string{0: "#9", markRest: "#8", markRest + time.Minute: "#8"} {
		if got := p.why("1", after, true); !strings.HasSuffix(got, want) {
			t.Errorf("after %s: got %q, want %s", after, got, want)
		}
	}
	old, err := os.ReadFile(filepath.Join(p.dir, oldName))
	if err != nil || !strings.Contains(string(old), "o/r#9") {
		t.Errorf("the old file has %s, %v", old, err)
	}
}

// A full disk is told once, nothing is written for a minute, and the answers of that time are told to be missing.
func TestFails(t *testing.T) {
	p := newPast(t)
	var told []error
	file := filepath.Join(p.dir, newName)
	if err := os.Symlink("/dev/full", file); err != nil {
		t.Fatal(err)
	}
	p.Begin(noon, p.dir, "v1", func(err error) { told = append(told, err) })
	p.plan(time.Second, map[int64]threads.Reason{1: blocked(9)})
	p.plan(61*time.Second, map[int64]threads.Reason{1: blocked(9)})
	if len(told) != 1 || told[0] == nil {
		t.Fatalf("told %v, want one error about a link", told)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.plan(3*time.Minute, map[int64]threads.Reason{1: blocked(8)})
	p.plan(4*time.Minute, map[int64]threads.Reason{1: blocked(8)})
	if len(told) != 2 || told[1] != nil {
		t.Errorf("told %v, want an error and its end", told)
	}
	if got := p.why("1", 2*time.Minute, true); !strings.HasSuffix(got, "answers could not be written") {
		t.Errorf("while nothing could be written: got %q", got)
	}
	if got := p.why("1", 4*time.Minute, true); !strings.HasSuffix(got, "#8") {
		t.Errorf("afterwards: got %q", got)
	}
}

// A torn line, as after a power cut, loses only itself.
func TestTorn(t *testing.T) {
	p := newPast(t)
	torn := []byte(`{"at":"2026-11-21T11:00:00Z","of":["o/`)
	if err := os.WriteFile(filepath.Join(p.dir, newName), torn, 0o600); err != nil {
		t.Fatal(err)
	}
	p.begin(0)
	p.plan(0, map[int64]threads.Reason{1: blocked(9)})
	if got := p.why("1", 0, true); got != "waits: blocked by o/r#9" {
		t.Errorf("got %q", got)
	}
}

// Of ten thousand items the first is started in every second plan. The others keep their answers.
func BenchmarkChanges(b *testing.B) {
	var p past
	p.snap.Config = &threads.Config{Forge: threads.Forge{Repos: []string{"o/r"}}}
	plans := make([]threads.Plan, 2)
	for i := range plans {
		for n := range int64(10_000) {
			why := blocked(n)
			item := threads.Item{Kind: agents.KindIssue, Ref: ref(n + 1)}
			plans[i].Holds = append(plans[i].Holds, &threads.Hold{Item: item, Reason: &why})
		}
	}
	plans[1].Holds = plans[1].Holds[1:]
	p.Changes(&p.snap, &plans[0])
	for i := 1; b.Loop(); i++ {
		if lines := p.Changes(&p.snap, &plans[i%2]); len(lines) != 1 {
			b.Fatalf("got %d lines, want one about the first item", len(lines))
		}
	}
}
