package screen

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// after returns the time that many minutes after noon.
func after(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// TestUntil checks near and far bands, and items that start in few runs or in none.
func TestUntil(t *testing.T) {
	text := ""
	for _, x := range []struct {
		start, merged control.Band
		sessions      int
	}{
		{control.Band{Low: after(20), Middle: after(35), High: after(70)}, control.Band{
			Low: after(600), Middle: after(800),
			High: after(1500),
		}, 124},
		{control.Band{Low: after(-12), Middle: after(-12), High: after(-12)}, control.Band{
			Low: after(3), Middle: after(4),
			High: after(5),
		}, 1},
		{control.Band{Low: after(90), Middle: after(4000)}, control.Band{}, 0},
	} {
		text += View{Now: noon, Width: 80}.Until(&control.Forecast{
			At: noon, Until: noon.Add(14*24*time.Hour + 8*time.Minute), Runs: 40, Sessions: x.sessions,
			Items: []control.Expected{{Repo: "o/r", Number: 17, Start: x.start, Merged: x.merged}},
			Why: &threads.Explanation{
				Repo: "o/r", Number: 17, Kind: agents.KindIssue, Title: "Add a login", Code: threads.NoSlot, Position: 3,
				Verdict: "every slot of llama is taken",
			},
		}) + "\n"
	}
	// What waits for a person has no band, unless the runs draw the time that people take from the journal.
	for _, x := range []struct {
		code   threads.Code
		merged control.Band
	}{
		{threads.BlockerCycle, control.Band{}},
		{threads.Paused, control.Band{}},
		{threads.GaveUp, control.Band{}},
		{threads.PeopleReview, control.Band{Low: after(20), Middle: after(35), High: after(70)}},
		{threads.Tracking, control.Band{}},
		{threads.ClaimedElsewhere, control.Band{}},
	} {
		text += View{Now: noon, Width: 80}.Until(&control.Forecast{
			At: noon, Until: after(18), Runs: 8, Items: []control.Expected{{Repo: "o/r", Number: 18, Merged: x.merged}},
			Why: &threads.Explanation{
				Repo: "o/r", Number: 18, Kind: agents.KindIssue, Title: "Add a bell", Code: x.code,
				Verdict: string(x.code), Mend: "disinto retry 18",
			},
		}) + "\n"
	}
	text += View{Now: noon, Width: 80}.Until(&control.Forecast{Why: &threads.Explanation{
		Repo: "o/r", Number: 16, Kind: agents.KindIssue, Title: "Done", Code: threads.Closed, Verdict: "merged",
	}})
	golden(t, "testdata/until.txt", text)
}

// TestStatusForecast checks the queue's column of expected starts, which a status with a forecast has.
func TestStatusForecast(t *testing.T) {
	d := &control.Document{Forecast: &control.Forecast{At: noon, Items: []control.Expected{
		{Repo: "o/r", Number: 1, Start: control.Band{Low: after(0), Middle: after(1), High: after(5)}},
		{Repo: "o/r", Number: 2, Start: control.Band{Low: after(5), Middle: after(9), High: after(90)}},
		{Repo: "o/r", Number: 3},
	}}}
	for i := range int64(4) {
		d.Queue = append(d.Queue, control.QueueDocument{
			Repo: "o/r", Number: i + 1, Kind: agents.KindIssue, Title: "Work", Code: threads.NoSlot, Why: "every slot is taken",
		})
	}
	golden(t, "testdata/status-forecast.txt", View{Now: noon, Width: 80, repo: "o/r"}.Status(d))
}

// What does not start has no expected start, although the forecast may be older than the reason.
func TestStarts(t *testing.T) {
	for _, tt := range []struct {
		q    control.QueueDocument
		want string
	}{
		{control.QueueDocument{Code: threads.NoSlot}, "now"},
		{control.QueueDocument{}, "now"}, // it is being started
		{control.QueueDocument{Code: threads.Unreviewed}, "now"},
		{control.QueueDocument{Code: threads.CoolDown, NeedsPerson: true}, "-"},
		{control.QueueDocument{Code: threads.SkipLabel}, "-"},
		{control.QueueDocument{Code: threads.Paused}, "-"},
		{control.QueueDocument{Code: threads.HasPull}, "-"},
		{control.QueueDocument{Code: threads.HasSession}, "-"},
		{control.QueueDocument{Code: threads.MergeQueued}, "-"},
	} {
		tt.q.Repo, tt.q.Number = "o/r", 1
		f := &control.Forecast{Items: []control.Expected{
			{Repo: "o/r", Number: 1, Start: control.Band{Low: noon, Middle: noon, High: noon}},
		}}
		rows := [][]cell{row(plain, "a", "b"), row(plain, "a", "b")}
		View{Now: noon}.starts(rows, []control.QueueDocument{tt.q}, f)
		if got := rows[1][2].text; got != tt.want {
			t.Errorf("%s, needs a person: %t: got %q, want %q", tt.q.Code, tt.q.NeedsPerson, got, tt.want)
		}
	}
}
