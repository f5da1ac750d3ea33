package ledger

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false,
	"rewrite the compacted journals; the others never change")

// TestJournalBytes checks the bytes of a journal, which are a contract: the next version reads what this one wrote,
// and the one before may have to. Each case is a journal that the program of 22 November 2026 wrote, and its
// compaction. Both may only grow.
func TestJournalBytes(t *testing.T) {
	for _, name := range []string{"everything", "demo", "commands"} {
		text, err := os.ReadFile(filepath.Join("testdata", "journal", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		records, corrupt := Parse(text)
		if len(corrupt) > 0 {
			t.Fatalf("%s: got %d corrupt lines, want none; the first: %s", name, len(corrupt), corrupt[0])
		}
		if got := encoded(t, records); !bytes.Equal(got, text) {
			t.Errorf("%s changes when it is written again:\n%s", name, got)
		}
		last := records[len(records)-1].At
		checkCompaction(t, name+".compacted", records, last.Add(time.Second).UTC())
		checkCompaction(t, name+".rested", records, last.Add(6*time.Hour).UTC()) // rests and parks are over
	}
}

func checkCompaction(t *testing.T, name string, records []Record, now time.Time) {
	t.Helper()
	compacted := encoded(t, fold(records...).Compact(now))
	if *update {
		writeGolden(t, name+".jsonl", compacted)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "journal", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(compacted, want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, compacted, want)
	}
	again, _ := Parse(want)
	if got := encoded(t, fold(again...).Compact(now)); !bytes.Equal(got, want) {
		t.Errorf("%s compacted again is\n%s\nwant\n%s", name, got, want)
	}
}

func encoded(t *testing.T, records []Record) []byte {
	t.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return text.Bytes()
}

func writeGolden(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("testdata", "journal", name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}
