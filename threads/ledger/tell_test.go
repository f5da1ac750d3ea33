package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

func tellRec(id int64, run string) Record {
	return Record{At: noon.Add(time.Duration(id)), Tell: &Tell{
		ID: id, Ref: Ref{"o/r", 1}, Chain: Ref{"o/r", 1}, By: "johba", Text: fmt.Sprint("text ", id), Run: run,
		Agent: "dev-qwen",
	}}
}

func heardTell(id int64, run string) Record {
	r := tellRec(id, run)
	r.Tell.Heard = noon.Add(time.Minute)
	return r
}

func texts(list []SaidTell) string {
	var words []string
	for _, t := range list {
		words = append(words, strings.TrimPrefix(t.Text, "text "))
	}
	return strings.Join(words, " ")
}

// A session is told at most five times, in order; what it has not heard at its end goes to the next one on the chain
// that writes, also through a compaction; what it has heard goes to nobody.
func TestTells(t *testing.T) {
	review := startRec("v", 12, 1)
	review.Start.Item.Kind, review.Start.Chain = agents.KindReview, Ref{"o/r", 1}
	s := fold(
		Record{At: noon, Heard: &Heard{Ref: Ref{"o/r", 1}, Comment: 2, By: "johba", Verb: "tell"}},
		startRec("a", 1, 1), tellRec(7, "a"), tellRec(2, "a"), tellRec(3, "a"), tellRec(4, "a"), tellRec(5, "a"),
		tellRec(6, "a"),
	)
	if got := texts(s.ToldTo("a")); got != "7 2 3 4 5" {
		t.Errorf("a session has %s, want the first five in order", got)
	}
	answer := func() string { return s.Heard[2].Answer }
	if !strings.HasPrefix(answer(), "told dev-qwen, ") || len(s.Unanswered()) != 1 {
		t.Errorf("got the answer %q", answer())
	}
	s.Apply(heardTell(7, "a"))
	s.Apply(Record{At: noon, Heard: &Heard{Ref: Ref{"o/r", 1}, Comment: 2, Done: true}})
	s = fold(s.Compact(noon)...)
	if got := texts(s.ToldTo("a")); got != "7 2 3 4 5" || !s.Heard[2].Done {
		t.Errorf("compacted: a session has %s, and the answer is done: %t", got, s.Heard[2].Done)
	}
	s.Apply(endRec("a", time.Hour, End{Result: agents.Failed, Reason: "boom"}))
	if last := s.Past[len(s.Past)-1]; last.Heard != 1 {
		t.Errorf("the past has %d heard messages", last.Heard)
	}
	if want := "dev-qwen ended before it heard this: the next session on it does"; answer() != want || s.Heard[2].Done {
		t.Errorf("got the answer %q, want %q", answer(), want)
	}
	s.Apply(review)
	s.Apply(startRec("w", 3, 1))
	if got := len(s.ToldTo("v")) + len(s.ToldTo("w")); got > 0 {
		t.Errorf("a review and a session on another issue got %d messages", got)
	}
	s.Apply(tellRec(8, "a")) // it had ended when the message was written
	s = fold(s.Compact(noon)...)
	next := startRec("b", 1, 2)
	next.Start.Agent = "dev-opus"
	s.Apply(next)
	if got := texts(s.ToldTo("b")); got != "2 3 4 5 8" || s.Tells[0].Agent != "dev-opus" {
		t.Errorf("the next session got %s, %+v", got, s.Tells)
	}
	for _, id := range []int64{2, 3, 4, 5} {
		s.Apply(heardTell(id, "b"))
	}
	if want := "heard by dev-qwen, " + noon.Add(time.Minute).Local().Format("15:04"); answer() != want {
		t.Errorf("got the answer %q, want %q", answer(), want)
	}
	s.Apply(endRec("b", 2*time.Hour, End{Result: agents.Done}))
	s.Apply(heardTell(8, "b")) // noticed late
	if len(s.Tells) > 0 {
		t.Errorf("kept %+v", s.Tells)
	}
	s.Apply(tellRec(9, "b"))
	if n := len(fold(s.Compact(noon.Add(heardFor + time.Hour))...).Tells); n > 0 {
		t.Errorf("kept %d messages that nobody has heard for three days", n)
	}
}
