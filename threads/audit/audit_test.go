package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

const instance = "abcdefghij"

// made returns the files of a chain of that many receipts, by name, and the journal that has all of them.
func made(t *testing.T, count int) (files map[string][]byte, j Journal) {
	t.Helper()
	files, j.Hashes, j.Ended = make(map[string][]byte), make(map[string]string), make(map[string]time.Time)
	prev := Genesis(instance)
	for n := range int64(count) {
		r := &Receipt{
			Version: Version, N: n + 1, Prev: prev, Run: fmt.Sprintf("%s-%d", instance, n+1), Outcome: agents.Done,
			EndedAt: time.Date(2026, 1, 1, 0, int(n), 0, 0, time.UTC),
		}
		text, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		files[Name(r.N, r.Run)], prev = text, Hash(text)
		j.Hashes[r.Run], j.Ended[r.Run], j.Newest = prev, r.EndedAt, Head{r.N, prev}
	}
	return files, j
}

func verify(files map[string][]byte, pruned Head, j Journal) Report {
	j.Pruned = Pruned{Head: pruned}
	c := NewChain(instance, pruned, j)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		c.Next(name, files[name])
	}
	return c.End()
}

func name(n int64) string { return Name(n, fmt.Sprintf("%s-%d", instance, n)) }

func edited(files map[string][]byte, n int64) {
	files[name(n)] = []byte(strings.Replace(string(files[name(n)]), `"done"`, `"failed"`, 1))
}

// TestVerify makes every kind of break, with a journal that remembers the receipts and with one that does not.
func TestVerify(t *testing.T) {
	tests := []struct {
		name   string
		tamper func(files map[string][]byte, j *Journal, pruned *Head)
		file   string // of the break; empty for none
		why    string
	}{
		{"whole", func(map[string][]byte, *Journal, *Head) {}, "", ""},
		{
			"a lost journal", func(_ map[string][]byte, j *Journal, _ *Head) { *j = Journal{} },
			"journal.jsonl", "it knows no receipt, and 9 exist",
		},
		{
			"a number used again",
			func(_ map[string][]byte, j *Journal, _ *Head) {
				j.Hashes["before"], j.Ended["before"] = "00", j.Ended[instance+"-5"]
			},
			"journal.jsonl", "it knows the receipt of before, which is gone, and whose number was used again",
		},
		{
			"sessions without receipts, which is told only",
			func(_ map[string][]byte, j *Journal, _ *Head) { j.Without = 2 }, "", "",
		},
		{
			"one more, of no session",
			func(_ map[string][]byte, j *Journal, _ *Head) { j.Newest = Head{8, j.Hashes[instance+"-8"]} },
			name(9), "the journal does not know its session",
		},
		{
			"one missing in the middle",
			func(files map[string][]byte, _ *Journal, _ *Head) { delete(files, name(5)) },
			name(6), "receipt 5 is missing before it",
		},
		{
			"the first ones missing",
			func(files map[string][]byte, _ *Journal, _ *Head) { delete(files, name(1)); delete(files, name(2)) },
			name(3), "receipts 1 to 2 are missing",
		},
		{
			"an edited one, which the journal remembers",
			func(files map[string][]byte, _ *Journal, _ *Head) { edited(files, 4) },
			name(4), "the journal has another hash",
		},
		{
			"an edited one, which the journal has forgotten",
			func(files map[string][]byte, j *Journal, _ *Head) { j.Hashes = nil; edited(files, 4) },
			name(4), name(5) + " follows from another one",
		},
		{
			"the newest edited",
			func(files map[string][]byte, j *Journal, _ *Head) { j.Hashes = nil; edited(files, 9) },
			name(9), "the journal has another hash",
		},
		{
			"two that changed places",
			func(files map[string][]byte, _ *Journal, _ *Head) {
				files[name(3)], files[name(7)] = files[name(7)], files[name(3)]
			},
			name(3), "it has receipt 7",
		},
		{
			"the tail cut off",
			func(files map[string][]byte, _ *Journal, _ *Head) { delete(files, name(8)); delete(files, name(9)) },
			"0000000008-*.json", "receipts 8 to 9 are missing at the end",
		},
		{
			"all gone", func(files map[string][]byte, _ *Journal, _ *Head) { clear(files) },
			"0000000001-*.json", "receipts 1 to 9 are missing at the end",
		},
		{
			"one that cannot be read in the middle",
			func(files map[string][]byte, j *Journal, _ *Head) { *j = Journal{}; files[name(4)] = []byte("{") },
			name(4), "not the JSON",
		},
		{
			"one cut short that its session's end relies on",
			func(files map[string][]byte, _ *Journal, _ *Head) { files[name(9)] = files[name(9)][:40] },
			name(9), "not the JSON",
		},
		{
			"one that is too long",
			func(files map[string][]byte, _ *Journal, _ *Head) {
				files[name(2)] = append(files[name(2)], strings.Repeat(" ", MaxReceipt)...)
			},
			name(2), "longer than",
		},
		{
			"two of a number",
			func(files map[string][]byte, _ *Journal, _ *Head) { files[Name(5, "zzz-1")] = files[name(5)] },
			Name(5, "zzz-1"), "another receipt has the same number",
		},
		{
			"another state directory's",
			func(files map[string][]byte, j *Journal, _ *Head) {
				*j = Journal{}
				files[name(1)] = []byte(strings.Replace(string(files[name(1)]), instance+`",`, `others",`, 1))
			},
			name(1), "does not follow from the beginning, genesis " + instance,
		},
		{
			"the end of pruning is another one",
			func(_ map[string][]byte, _ *Journal, pruned *Head) { *pruned = Head{3, strings.Repeat("0", 64)} },
			name(3), "not the receipt that was removed last",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files, j := made(t, 9)
			var pruned Head
			tt.tamper(files, &j, &pruned)
			r := verify(files, pruned, j)
			switch {
			case r.OK != (tt.file == "") || r.OK != (r.Break == nil):
				t.Fatalf("got report %+v with break %+v", r, r.Break)
			case r.OK && (r.Receipts != 9 || r.Head.N != 9 || !r.From.Before(r.To)):
				t.Errorf("got report %+v, want 9 receipts", r)
			case !r.OK && (r.Break.File != tt.file || !strings.Contains(r.Break.Why, tt.why)):
				t.Errorf("got break %+v, want %s: %s", r.Break, tt.file, tt.why)
			}
		})
	}
}

// TestVerifyPruned verifies a chain whose old receipts were removed, and one in which a crash stopped their removal.
func TestVerifyPruned(t *testing.T) {
	files, j := made(t, 9)
	pruned := Head{4, Hash(files[name(4)])}
	for _, left := range []int64{1, 2, 3, 4} {
		if r := verify(files, pruned, j); !r.OK || r.Receipts != 5 || r.First != 5 || r.Pruned != 4 {
			t.Fatalf("got report %+v with break %+v, want receipts 5 to 9", r, r.Break)
		}
		delete(files, name(left))
	}
	if r := verify(files, pruned, j); !r.OK || r.Receipts != 5 {
		t.Errorf("got report %+v with break %+v, want receipts 5 to 9", r, r.Break)
	}
	pruned = Head{9, Hash(files[name(9)])}
	if r := verify(nil, pruned, j); !r.OK || r.Receipts != 0 || r.Head.N != 9 {
		t.Errorf("all pruned: got report %+v with break %+v, want none broken", r, r.Break)
	}
	j.Pruned = Pruned{Head: pruned}
	pruned.Hash = strings.Repeat("1", 64)
	if r := NewChain(instance, pruned, j).End(); r.OK || r.Break.File != PrunedFile {
		t.Errorf("got report %+v with break %+v, want a break in the file of removed receipts", r, r.Break)
	}
}

// TestVerifyTorn checks the files after a crash between the write of a receipt and that of its journal record. The last
// receipt, torn or not, is no break.
func TestVerifyTorn(t *testing.T) {
	files, _ := made(t, 9)
	j := Journal{Newest: Head{8, Hash(files[name(8)])}, Open: map[string]bool{instance + "-9": true}}
	if r := verify(files, Head{}, j); !r.OK || r.Head.N != 9 || r.Journalled != 8 {
		t.Errorf("whole: got report %+v with break %+v", r, r.Break)
	}
	for _, text := range []string{"", "{", `{"version":1}`, "\x00\x00\x00"} {
		files[name(9)] = []byte(text)
		if r := verify(files, Head{}, j); !r.OK || r.Torn != name(9) || r.Head.N != 8 {
			t.Errorf("%q: got report %+v with break %+v, want it torn", text, r, r.Break)
		}
	}
	files[Name(10, "x-1")] = files[name(8)]
	if r := verify(files, Head{}, j); r.OK || r.Break.File != name(9) || r.Torn != "" {
		t.Errorf("a torn receipt with a successor: got report %+v with break %+v", r, r.Break)
	}
}

func TestNames(t *testing.T) {
	if n, run, ok := ReadName(Name(12, "abc-def")); n != 12 || run != "abc-def" || !ok {
		t.Errorf("ReadName returned %d, %q, %t, want 12, abc-def, true", n, run, ok)
	}
	for _, name := range []string{
		"", "pruned.json", "0000000000-a.json", "1-a.json", "0000000001-.json", "0000000001-a.json.new",
		"0000000001-A b.json",
		"0000000001-../x.json",
	} {
		if _, _, ok := ReadName(name); ok {
			t.Errorf("ReadName(%q) is ok, want not", name)
		}
	}
}

// FuzzRead checks that Read returns a complete receipt or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version":1,"n":1,"prev":"genesis x","run_id":"x-1","processes":{"count":null}}`))
	f.Add([]byte(`{"version":1,"n":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(text)
		if err == nil && (r.N < 1 || r.Run == "" || r.Prev == "") {
			t.Errorf("Read returned the incomplete receipt %+v", r)
		}
	})
}

// TestUnknown checks that unknown values are null, and never 0.
func TestUnknown(t *testing.T) {
	r := Receipt{Version: Version, Processes: agents.NotSeen("lost"), Hosts: agents.NotSeen("lost")}
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"exit", "result_sha256", "usage", "cpu_seconds", "peak_memory_bytes", "ran"} {
		if value, there := got[key]; !there || value != nil {
			t.Errorf("%s is %v, want null", key, value)
		}
	}
	for _, key := range []string{"processes", "hosts", "files_outside"} {
		if s := got[key].(map[string]any); s["count"] != nil {
			t.Errorf("%s is %v, want a null count", key, s)
		}
	}
}
