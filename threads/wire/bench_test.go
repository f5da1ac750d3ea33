package wire

import (
	"testing"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// BenchmarkQuestion asks about 10,000 waiting issues, answers, and reads the answer: all that a supervisor and its
// shadow do together, beside the ticks.
func BenchmarkQuestion(b *testing.B) {
	s := small()
	blocked := s.Facts.Issues[1]
	for n := int64(3); n <= 10_000; n++ {
		blocked.Ref = forge.Ref{Repo: "o/r", Number: n}
		s.Facts.Issues = append(s.Facts.Issues, blocked)
	}
	here := threads.Decide(*s)
	var question, answer []byte
	b.Run("ask", func(b *testing.B) {
		for b.Loop() {
			question, _ = Ask(s)
		}
		b.ReportMetric(float64(len(question))/1e6, "MB")
	})
	b.Run("answer", func(b *testing.B) {
		for b.Loop() {
			answer = Answer(question, "v1")
		}
		b.ReportMetric(float64(len(answer))/1e6, "MB")
	})
	b.Run("compare", func(b *testing.B) {
		for b.Loop() {
			_, there, err := ReadAnswer(answer)
			if err != nil || len(Differences(s, &here, there)) > 0 {
				b.Fatal(err)
			}
		}
	})
}
