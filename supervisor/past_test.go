package supervisor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Past tells of every session that ran and ended, also of those that only a compacted journal remembers.
func TestPast(t *testing.T) {
	review := startRec("r", 12, 1)
	review.At = noon.Add(time.Hour)
	review.Start.Item.Kind, review.Start.Chain = agents.KindReview, ref{"o/r", 11}
	end := endRec("r", 0, endRecord{Result: agents.Done})
	end.At = noon.Add(2 * time.Hour)
	old := RecentDocument{RunID: "q", Agent: "dev-old", Repo: "o/r", Number: 12, Kind: agents.KindRework, StartedAt: noon.Add(-2 * time.Hour), EndedAt: noon.Add(-time.Hour)}
	var text strings.Builder
	for _, r := range []record{
		{At: noon, Recent: &old},
		startRec("a", 1, 1), endRec("a", time.Minute, endRecord{Result: agents.Failed}),
		startRec("b", 2, 1), endRec("b", time.Minute, endRecord{Result: agents.ClaimFailed, NeverRan: true}),
		startRec("c", 3, 1), // runs still
		review, end,
	} {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	text.WriteString("{ torn")
	var got []string
	for _, s := range Past([]byte(text.String())) {
		got = append(got, fmt.Sprintf("%s %s of %s, %s", s.Kind, s.Ref.Short(), s.Chain.Short(), s.End.Sub(s.Start)))
	}
	want := "rework #12 of #11, 1h0m0s; issue #1 of #1, 1m0s; review #12 of #11, 1h0m0s"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}
