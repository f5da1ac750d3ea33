package ledger

import (
	"encoding/json"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
)

// TestRenamed: after a rename nothing in the journal has the old name, and all that was remembered has the new one.
func TestRenamed(t *testing.T) {
	s := fold(everything()...)
	text := func() string {
		b, err := json.Marshal(s.Compact(noon))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	was := text()
	for _, name := range []string{`"dev-qwen"`, `"llama"`} {
		if strings.Count(was, name) < 10 {
			t.Fatalf("the state has %s only %d times", name, strings.Count(was, name))
		}
	}
	s.Apply(Record{At: noon, Renamed: &Renamed{
		Agents: map[string]string{"dev-qwen": "dev-renamed"}, Threads: map[string]string{"llama": "renamed"},
	}})
	for _, field := range []string{
		`"agent":`, `"claimed":`, `"last_writer":`, `"failed_by":`, `"thread":`,
		`"by":[`, `"by":"agent","key":`, `"by":"thread","key":`,
	} {
		for _, name := range []string{`"dev-qwen"`, `"llama"`} {
			if strings.Contains(text(), field+name) {
				t.Errorf("a record still has %s%s", field, name)
			}
		}
	}
	_, agent := s.Paused[threads.Pause{Agent: "dev-renamed"}]
	_, thread := s.Paused[threads.Pause{Thread: "renamed"}]
	if !agent || !thread || s.Remembers("dev-qwen", "") || s.Remembers("", "llama") || !s.Remembers("dev-renamed", "") {
		t.Errorf("got pauses %v of the new names", s.Paused)
	}
	// The new name of something that is known keeps what it has.
	had := *s.Agents["dev-opus"]
	s.Apply(Record{At: noon, Renamed: &Renamed{Agents: map[string]string{"dev-renamed": "dev-opus"}}})
	if *s.Agents["dev-opus"] != had || s.Remembers("dev-renamed", "") {
		t.Errorf("got %+v, want %+v", *s.Agents["dev-opus"], had)
	}
}
