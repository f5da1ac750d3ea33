package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

var one = forge.Ref{Repo: "o/r", Number: 1}

// An open session says who wrote before it only if that was another agent.
func TestWriterBefore(t *testing.T) {
	other := startRec("c", 1, 1)
	other.Start.Agent = "dev-opus"
	h := fold(startRec("a", 1, 1), startRec("b", 1, 1), other)
	if h.Open["a"].WriterBefore != "" || h.Open["b"].WriterBefore != "" || h.Open["c"].WriterBefore != "dev-qwen" {
		t.Errorf("got open sessions %+v", h.Open)
	}
}

// A label without a failed attempt, as after a lost journal, counts no attempt.
func TestBlockedWithoutAttempt(t *testing.T) {
	h := fold(Record{At: noon, Blocked: &Blocked{Chain: Ref(one), Kind: agents.KindIssue}})
	if got := h.Chain(one).Attempts; len(got) > 0 {
		t.Errorf("got attempts %v", got)
	}
}

// Asked counts only for the question that it names. The first answer is the time of the answer.
func TestAnswers(t *testing.T) {
	h := fold(startRec("a", 1, 1), endRec("a", 0, End{Result: agents.Question, Words: "Which?"}),
		Record{At: noon, Asked: &Asked{Ref(one), "b"}})
	if h.Chain(one).Dialogue.Asked {
		t.Error("the question of another session was asked")
	}
	h.Apply(Record{At: noon, Asked: &Asked{Ref(one), "a"}})
	for minutes := range 2 {
		at := noon.Add(time.Duration(minutes) * time.Minute)
		h.Apply(Record{At: at, Answered: &Answered{Ref: Ref(one), Comments: []int64{7}}})
		if d := h.Chain(one).Dialogue; !d.Asked || !d.Answered.Equal(noon) || !slices.Equal(d.Comments, []int64{7}) {
			t.Errorf("got %+v, want asked, and answered at noon", d)
		}
	}
}

// What is no longer open is forgotten, but for a claim, which is released first.
func TestForgetKeepsClaims(t *testing.T) {
	two := forge.Ref{Repo: "o/r", Number: 2}
	h := fold(startRec("a", 1, 1), Record{At: noon, Told: &Told{Ref: Ref(two), Key: "k"}},
		Record{At: noon, Forget: &Forget{Ref(one)}}, Record{At: noon, Forget: &Forget{Ref(two)}})
	if c := h.Chains[one]; c == nil || c.Claimed != "dev-qwen" || c.Login != "qwen" || len(c.Writers) > 0 {
		t.Errorf("got %+v, want only the claim", c)
	}
	if c := h.Chains[two]; c != nil {
		t.Errorf("got %+v without a claim", c)
	}
}

// An issue that must be closed is closed although a later cancel does not ask for it, until that is done.
func TestCancelAndClose(t *testing.T) {
	cancel := func(c Cancel) Record {
		c.Refs = []Ref{Ref(one)}
		return Record{At: noon, Cancel: &c}
	}
	h := fold(cancel(Cancel{}))
	if c := h.Chain(one); !c.Cancel || c.Close {
		t.Errorf("cancelled: got cancel %v, close %v", c.Cancel, c.Close)
	}
	h = fold(cancel(Cancel{Close: true}), cancel(Cancel{}))
	if c := h.Chain(one); !c.Cancel || !c.Close {
		t.Errorf("to be closed: got cancel %v, close %v", c.Cancel, c.Close)
	}
	h.Apply(cancel(Cancel{Done: true, Close: true}))
	if c := h.Chain(one); c.Cancel || c.Close {
		t.Errorf("done: got cancel %v, close %v", c.Cancel, c.Close)
	}
}

// Reviews of a person's pull requests count for an hour and no longer.
func TestReviewsAreForgotten(t *testing.T) {
	s := New()
	s.reviewed("johba", "a", noon)
	s.reviewed("johba", "b", noon.Add(threads.ReviewHour-1))
	if n := len(s.Authors["johba"].Reviews); n != 2 {
		t.Errorf("just within the hour: got %d reviews, want 2", n)
	}
	s.reviewed("johba", "c", noon.Add(threads.ReviewHour))
	if n := len(s.Authors["johba"].Reviews); n != 2 {
		t.Errorf("after the hour: got %d reviews, want 2", n)
	}
}

// An issue is remembered for a count or a rest.
func TestRememberedItems(t *testing.T) {
	for i, it := range []threads.ItemHistory{{PassedOver: 1}, {Remarks: 1}, {Downs: 1}, {CoolDown: noon}} {
		s := New()
		*Entry(s.Items, threads.Key{Kind: agents.KindIssue, Ref: one}) = it
		if !slices.Equal(s.Remembered(), []forge.Ref{one}) {
			t.Errorf("%d: %+v is not remembered", i, it)
		}
	}
}

// The newest receipt counts, and the newest that was pruned, in whatever order they come.
func TestNewestReceiptCounts(t *testing.T) {
	receipt := func(n int64, c string, pruned bool) Record {
		return Record{At: noon, Receipt: &Receipt{N: n, Hash: strings.Repeat(c, min(64, 64*len(c))), Pruned: pruned}}
	}
	h := fold(receipt(3, "a", false), receipt(2, "b", false), receipt(3, "c", false), receipt(4, "", false))
	if h.Receipt.N != 3 || h.Receipt.Hash[0] != 'a' {
		t.Errorf("got newest receipt %+v, want 3 with a", h.Receipt)
	}
	h = fold(receipt(2, "a", true), receipt(1, "b", true), receipt(2, "c", true))
	if h.Pruned.N != 2 || h.Pruned.Hash[0] != 'a' {
		t.Errorf("got newest pruned %+v, want 2 with a", h.Pruned)
	}
}

func TestRefTextIsANumber(t *testing.T) {
	for _, text := range []string{"o/r#0", "o/r#-1", "o/r#", "o/r#x", "o/r#1x"} {
		var r Ref
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q became %v", text, r)
		}
	}
}

// A text is a journal if one of its lines is a valid record, or if it has none yet.
func TestNoJournal(t *testing.T) {
	const good = `{"at":"2026-11-21T12:00:00Z","released":{"ref":"o/r#1"}}` + "\n"
	for text, want := range map[string]bool{"": true, good: true, good + "nonsense\n": true, "nonsense\n": false} {
		if _, err := ReadHistory(strings.NewReader(text)); err == nil != want {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// A line of the largest size is read, and a longer one is corrupt.
func TestLongLines(t *testing.T) {
	const good = `{"at":"2026-11-21T12:00:00Z","released":{"ref":"o/r#1"}}`
	for size, want := range map[int]int{LineLimit: 1, LineLimit + 1: 0} {
		line := good + strings.Repeat(" ", size-len(good)-1) + "\n"
		records, corrupt := Parse([]byte(line + good + "\n"))
		if len(records) != want+1 || len(corrupt) != 1-want {
			t.Errorf("%d bytes: got %d records and %d corrupt lines", size, len(records), len(corrupt))
		}
	}
}
