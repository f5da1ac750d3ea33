package eta

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// in returns a band in minutes after noon; 0 means no time.
func in(low, high int) (b Band) {
	if low > 0 {
		b.Low = noon.Add(time.Duration(low) * time.Minute)
	}
	if high > 0 {
		b.High = noon.Add(time.Duration(high) * time.Minute)
	}
	return b
}

func TestText(t *testing.T) {
	began, ended := noon.Add(-2*time.Hour), noon.Add(-time.Hour)
	for _, test := range []struct {
		name string
		note Note
		want string
	}{
		{"waits", Note{Start: in(131, 208), Merged: in(240, 420)}, "disinto expects to start this between 2026-11-23 14:10 " +
			"and 15:30 UTC, and to merge it between 2026-11-23 16:00 and 19:00 UTC, as 8 of 10 simulated runs do."},
		{"until tomorrow", Note{Start: in(131, 1000)}, "disinto expects to start this between 2026-11-23 14:10 and " +
			"2026-11-24 04:40 UTC, as 8 of 10 simulated runs do."},
		{"without end", Note{Start: in(131, 0), Merged: in(300, 0)}, "disinto expects to start this after " +
			"2026-11-23 14:10 UTC, and to merge it after 2026-11-23 17:00 UTC, as 8 of 10 simulated runs do."},
		{"runs", Note{Began: began, Merged: in(60, 120)}, "disinto started this at 2026-11-23 10:00 UTC, and expects " +
			"to merge it between 2026-11-23 13:00 and 14:00 UTC, as 8 of 10 simulated runs do."},
		{"soon over", Note{Began: began, Merged: in(1, 9)}, "disinto started this at 2026-11-23 10:00 UTC, and expects to " +
			"merge it between 2026-11-23 12:02 and 12:10 UTC, as 8 of 10 simulated runs do."},
		{"is held", Note{Code: "label"}, "disinto cannot tell when it will start this: it waits (`label`)."},
		{"began and is held", Note{Began: began, Code: "label"}, "disinto started this at 2026-11-23 10:00 UTC, and cannot " +
			"tell when this will be merged: it waits (`label`)."},
		{"began, nothing known", Note{Began: began}, "disinto started this at 2026-11-23 10:00 UTC, and cannot tell " +
			"when this will be merged."},
		{"merged", Note{Began: began, Ended: ended, How: "merged"}, "disinto started this at 2026-11-23 10:00 UTC. It was " +
			"merged at 2026-11-23 11:00 UTC."},
		{"closed", Note{Ended: ended, How: "closed"}, "This was closed at 2026-11-23 11:00 UTC."},
	} {
		at := noon.Add(2 * time.Minute)
		if got := test.note.Text(at); got != test.want+"\n\nLast updated 2026-11-23 12:02 UTC." {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	far := noon.In(time.FixedZone("far", 9*3600))
	if text := (&Note{Start: in(131, 208)}).Text(far); !strings.Contains(text, "12:00 UTC") {
		t.Errorf("in another time zone: got %s, want 12:00 UTC", text)
	}
}

func TestOutdated(t *testing.T) {
	waits := Note{Start: in(60, 180), Merged: in(120, 360)}
	runs := Note{Began: noon, Merged: in(120, 360)}
	for _, test := range []struct {
		name     string
		was, now Note
		want     bool
	}{
		{"nothing", waits, waits, false},
		{"a quarter of the start", waits, Note{Start: in(90, 180), Merged: in(120, 360)}, false},
		{"more than a quarter of the start", waits, Note{Start: in(91, 180), Merged: in(120, 360)}, true},
		{"at the other end", waits, Note{Start: in(60, 149), Merged: in(120, 360)}, true},
		{"a quarter of the merge", waits, Note{Start: in(60, 180), Merged: in(180, 420)}, false},
		{"more than a quarter of the merge", waits, Note{Start: in(60, 180), Merged: in(120, 421)}, true},
		{"an end that goes away", waits, Note{Start: in(60, 180), Merged: in(120, 0)}, true},
		{"without an end, a little", Note{Start: in(60, 0)}, Note{Start: in(75, 0)}, false},
		{"without an end, more", Note{Start: in(60, 0)}, Note{Start: in(76, 0)}, true},
		{"a narrow one, a little", Note{Start: in(60, 61)}, Note{Start: in(65, 66)}, false},
		{"it began", waits, runs, true},
		{"the start of what began says nothing", runs, Note{Began: noon, Start: in(900, 999), Merged: in(120, 360)}, false},
		{"what began is delayed", runs, Note{Began: noon, Merged: in(190, 360)}, true},
		{"nothing is expected any more", waits, Note{Code: "label"}, true},
		{"still not expected", Note{Code: "label"}, Note{Code: "label"}, false},
		{"for another reason", Note{Code: "label"}, Note{Code: "gave-up"}, true},
		{"why it waits until then", waits, Note{Start: in(60, 180), Merged: in(120, 360), Code: "no-slot"}, false},
	} {
		if got := test.was.Outdated(&test.now, noon, noon.Add(10*time.Minute)); got != test.want {
			t.Errorf("%s: Outdated() = %v, want %v", test.name, got, test.want)
		}
	}
	moved := Note{Start: in(900, 999), Merged: in(990, 1100)}
	if waits.Outdated(&moved, noon, noon.Add(9*time.Minute)) || !waits.Outdated(&runs, noon, noon.Add(time.Second)) {
		t.Error("Outdated after 9 minutes without a new state, or not outdated by a new state")
	}
}
