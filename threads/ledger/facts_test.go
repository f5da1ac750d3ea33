package ledger

import (
	"testing"

	"codeberg.org/johba/disinto/threads"
)

// A thread's record with a negative number is corrupt.
func TestNegativeThread(t *testing.T) {
	for what, h := range map[string]threads.ThreadHistory{
		"tokens used":  {Uses: []threads.Use{{USD: 1}, {Tokens: -1}}},
		"money used":   {Uses: []threads.Use{{Tokens: 1, USD: -1}}},
		"talk":         {Talks: []threads.Talk{{Tokens: -1, Saved: 1}}},
		"saved talk":   {Talks: []threads.Talk{{Tokens: 1, Saved: -1}}},
		"times down":   {Downs: -1},
		"limits given": {Limits: -1},
	} {
		if r := (&Thread{Name: "llama", ThreadHistory: h}); r.valid() {
			t.Errorf("%s: a negative number is valid", what)
		}
	}
	fine := threads.ThreadHistory{Uses: []threads.Use{{Tokens: 1, USD: 1}}}
	if r := (&Thread{Name: "llama", ThreadHistory: fine}); !r.valid() {
		t.Error("a record without negative numbers is invalid")
	}
}
