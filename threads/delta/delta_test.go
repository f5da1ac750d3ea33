package delta

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/filltest"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/wire"
)

// random returns a snapshot as a supervisor makes it: its lists are sorted and have no duplicates, and no issue has
// the number of a pull request.
func random(rng *rand.Rand) *threads.Snapshot {
	s := new(threads.Snapshot)
	values := filltest.Filler{ // of a few values, so that two snapshots share some keys and values
		Next: func() int64 { return rng.Int64N(4) },
		Len:  func() int { return rng.IntN(5) },
		Leave: func(_ reflect.Type, field *reflect.StructField) bool {
			return field.Type == reflect.TypeFor[*threads.Config]()
		},
	}
	values.Fill(reflect.ValueOf(s).Elem())
	f := &s.Facts
	for i := range f.Pulls {
		f.Pulls[i].Number += 100
	}
	once(&f.Issues, issueRef, forge.Ref.Compare)
	once(&f.Pulls, pullRef, forge.Ref.Compare)
	once(&s.Sessions, sessionRun, strings.Compare)
	return s
}

func once[K comparable, V any](list *[]V, key func(*V) K, compare func(K, K) int) {
	slices.SortFunc(*list, func(a, b V) int { return compare(key(&a), key(&b)) })
	*list = slices.CompactFunc(*list, func(a, b V) bool { return key(&a) == key(&b) })
}

// written returns a snapshot after package wire wrote and read it.
func written(t *testing.T, s *threads.Snapshot) threads.Snapshot {
	t.Helper()
	text, err := wire.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	read, err := wire.DecodeSnapshot(text)
	if err != nil {
		t.Fatal(err)
	}
	return *read
}

// reread returns a delta after it was written and read.
func reread(t *testing.T, d *Delta) *Delta {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	read := new(Delta)
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestEveryFieldComesBack checks that every field of a snapshot is restored from the one before and the delta. A new
// field that the delta lacks fails here.
func TestEveryFieldComesBack(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		from := random(rng)
		got := written(t, from)
		for range 3 {
			to := random(rng)
			got = reread(t, Between(from, to)).Apply(got)
			if diff := cmp.Diff(written(t, to), got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
			from = to
		}
	}
}

// TestNothingChanged checks that unchanged parts are not written.
func TestNothingChanged(t *testing.T) {
	for seed := range uint64(50) {
		s := random(rand.New(rand.NewPCG(seed, 8)))
		d := Between(s, s)
		if !d.Quiet(s) {
			t.Errorf("seed %d: Quiet is false for %+v", seed, d)
		}
		d.Few, d.Times = few{}, nil
		if text, err := json.Marshal(d); err != nil || len(text) > 200 {
			t.Errorf("seed %d: got delta %s and error %v, want at most 200 bytes", seed, text, err)
		}
	}
}

// TestQuiet checks which changes are quiet: those that happen at every moment.
func TestQuiet(t *testing.T) {
	ref, now := forge.Ref{Repo: "o/r", Number: 1}, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	make := func(change func(*threads.Snapshot)) *threads.Snapshot {
		s := &threads.Snapshot{
			Now:      now,
			Facts:    forge.Facts{Repos: []forge.Repo{{Name: "o/r", AsOf: now}}, Issues: []forge.Issue{{Ref: ref, AsOf: now}}},
			Sessions: []threads.Session{{RunID: "a"}},
			Room:     &threads.Room{Memory: 1}, History: threads.NewHistory(),
		}
		s.History.Touched[ref] = now
		change(s)
		return s
	}
	from := make(func(*threads.Snapshot) {})
	for name, tt := range map[string]struct {
		change func(*threads.Snapshot)
		quiet  bool
	}{
		"the clock": {func(s *threads.Snapshot) { s.Now = now.Add(time.Second) }, true},
		"a scan": {
			func(s *threads.Snapshot) { s.Facts.Repos[0].AsOf = now.Add(1); s.Facts.Issues[0].AsOf = now.Add(1) },
			true,
		},
		"memory":      {func(s *threads.Snapshot) { s.Room.Memory = 2 }, true},
		"use":         {func(s *threads.Snapshot) { s.Sessions[0].Used.OutputTokens = 5 }, true},
		"a write":     {func(s *threads.Snapshot) { s.History.Touched[ref] = now.Add(1) }, true},
		"the text":    {func(s *threads.Snapshot) { s.Facts.Issues[0].Body = "long" }, true},
		"a label":     {func(s *threads.Snapshot) { s.Facts.Issues[0].Labels = []string{"backlog"} }, false},
		"a branch":    {func(s *threads.Snapshot) { s.Facts.Repos[0].DefaultBranch = "main" }, false},
		"a state":     {func(s *threads.Snapshot) { s.Sessions[0].State = threads.Running }, false},
		"a session":   {func(s *threads.Snapshot) { s.Sessions = append(s.Sessions, threads.Session{RunID: "b"}) }, false},
		"its end":     {func(s *threads.Snapshot) { s.Sessions = nil }, false},
		"a new write": {func(s *threads.Snapshot) { s.History.Touched[forge.Ref{Repo: "o/r"}] = now }, false},
		"a pause":     {func(s *threads.Snapshot) { s.History.Paused[threads.Pause{}] = now }, false},
		"a command":   {func(s *threads.Snapshot) { s.Facts.Said = []forge.Said{{ID: 1}} }, false},
	} {
		if got := Between(from, make(tt.change)).Quiet(from); got != tt.quiet {
			t.Errorf("%s: Quiet() = %t, want %t", name, got, tt.quiet)
		}
	}
}

// TestUsesAreSpliced checks that a week of uses is not written again after each session.
func TestUsesAreSpliced(t *testing.T) {
	var was threads.ThreadHistory
	begin := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		was.Use(begin.Add(time.Duration(i)*10*time.Minute), agents.Usage{OutputTokens: int64(i + 1)})
	}
	is := was
	is.Uses = slices.Clone(was.Uses)
	is.Use(begin.Add(1010*10*time.Minute), agents.Usage{OutputTokens: 5})
	from := &threads.Snapshot{History: threads.History{Threads: map[string]*threads.ThreadHistory{"llama": &was}}}
	to := &threads.Snapshot{History: threads.History{Threads: map[string]*threads.ThreadHistory{"llama": &is}}}
	d := Between(from, to)
	if text, err := json.Marshal(d); err != nil || len(text) > 600 {
		t.Errorf("got %d bytes, want at most 600; error %v: %s", len(text), err, text)
	}
	got := reread(t, d).Apply(written(t, from))
	if diff := cmp.Diff(written(t, to), got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// TestSum checks that every change of a decision changes the sum, and that a change of words does not.
func TestSum(t *testing.T) {
	ref := forge.Ref{Repo: "o/r", Number: 1}
	plan := func() *threads.Plan {
		return &threads.Plan{
			Starts: []threads.Start{{Item: threads.Item{Kind: agents.KindIssue, Ref: ref}, Agent: "dev"}},
			Stops:  []threads.Stop{{RunID: "a", Reason: threads.Reason{Code: threads.Closed}}},
			Merges: []threads.Merge{{Ref: ref, HeadSHA: "a"}},
			Marks:  []threads.Mark{{Action: threads.ActClose, Ref: ref}},
			Holds:  []*threads.Hold{{Item: threads.Item{Ref: ref}, Reason: &threads.Reason{Code: threads.NoSlot}}},
		}
	}
	want := Sum(plan())
	for name, change := range map[string]func(*threads.Plan){
		"the agent of a start": func(p *threads.Plan) { p.Starts[0].Agent = "other" },
		"its slot":             func(p *threads.Plan) { p.Starts[0].Slot = 1 },
		"no start":             func(p *threads.Plan) { p.Starts = nil },
		"another stop":         func(p *threads.Plan) { p.Stops[0].RunID = "b" },
		"the head of a merge":  func(p *threads.Plan) { p.Merges[0].HeadSHA = "b" },
		"another mark":         func(p *threads.Plan) { p.Marks[0].Action = threads.ActBlocked },
		"the code of a hold":   func(p *threads.Plan) { p.Holds[0].Reason.Code = threads.Paused },
		"what it waits for":    func(p *threads.Plan) { p.Holds[0].Reason.Refs = []forge.Ref{ref} },
		"one more hold":        func(p *threads.Plan) { p.Unqueued = p.Holds },
	} {
		p := plan()
		if change(p); Sum(p) == want {
			t.Errorf("a change of %s did not change the sum", name)
		}
	}
	p := plan()
	if p.Holds[0].Reason.Note = "3.2 GB free"; Sum(p) != want {
		t.Error("a change of words changed the sum")
	}
}

// FuzzApply checks that a delta that can be read never does more than return another snapshot.
func FuzzApply(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 9))
	text, err := json.Marshal(Between(random(rng), random(rng)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"Threads":{"Put":[{"Key":"a","Value":{"Skip":-1,"Keep":9}}]},"Chains":{"Put":[{"Value":null}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := new(Delta)
		if json.Unmarshal(text, d) != nil {
			t.Skip()
		}
		s := threads.Snapshot{History: ledger.New().History}
		s.History.Threads["a"] = &threads.ThreadHistory{Uses: make([]threads.Use, 3)}
		s = d.Apply(s)
		d.Apply(s)
	})
}
