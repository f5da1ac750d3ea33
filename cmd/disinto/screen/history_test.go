package screen

import (
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// The line of several scheduled runs counts those with its outcome, and not the others.
func TestHistoryFolds(t *testing.T) {
	var d control.HistoryDocument
	for i, outcome := range []agents.Result{agents.Done, agents.Done, agents.Cancelled, agents.Done, agents.Failed} {
		p := control.PastDocument{}
		p.Kind, p.Agent, p.Outcome = agents.KindSchedule, "gardener", outcome
		p.Start, p.End = noon.Add(time.Duration(i)*time.Minute), noon.Add(time.Duration(i+1)*time.Minute)
		d.Sessions = append(d.Sessions, p)
	}
	lines := strings.Split(strings.TrimSpace(View{Now: noon.Add(time.Hour), Width: 120}.History(&d)), "\n")
	if len(lines) != 4 {
		t.Fatalf("got %d lines, want a heading and one for each outcome:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for i, want := range []string{"cancelled", "x3", "failed"} {
		if !strings.Contains(lines[i+1], want) || strings.Contains(lines[i+1], " x") != (want == "x3") {
			t.Errorf("line %d: got %q, want %s", i+1, lines[i+1], want)
		}
	}
}
