package agents

import (
	"testing"
	"time"
	_ "time/tzdata" // as in the program
)

// at reads a time with its offset from UTC.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	got, err := time.Parse("2006-01-02 15:04 -0700", text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestDue(t *testing.T) {
	night := func(jitter time.Duration) Role {
		c, err := NewCalendar("0 3 * * 1-5", "Europe/Berlin", jitter)
		if err != nil {
			t.Fatal(err)
		}
		return Role{Name: "planner", Calendar: c}
	}
	for _, tt := range []struct {
		name              string
		role              Role
		last, began, want string
	}{
		{"an interval that never ran", Role{Every: time.Hour}, "", "2026-01-02 03:00 +0000", ""},
		{"an interval", Role{Every: time.Hour}, "2026-01-02 03:00 +0000", "2026-01-01 00:00 +0000", "2026-01-02 04:00 +0000"},
		{"a calendar that never ran", night(0), "", "2026-01-06 14:00 +0100", "2026-01-07 03:00 +0100"},
		{"after a run", night(0), "2026-01-07 03:20 +0100", "2026-01-06 14:00 +0100", "2026-01-08 03:00 +0100"},
		{"over the weekend", night(0), "2026-01-09 03:20 +0100", "", "2026-01-12 03:00 +0100"},
		{"in summer", night(0), "2026-07-07 03:20 +0200", "", "2026-07-08 03:00 +0200"},
		{"a missed time stays due", night(0), "2026-01-06 03:20 +0100", "2026-01-08 09:00 +0100", "2026-01-07 03:00 +0100"},
	} {
		if got := tt.role.Due(at(t, tt.last), at(t, tt.began), "o/r"); !got.Equal(at(t, tt.want)) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}

	spread := map[time.Time]bool{}
	for _, repo := range []string{"o/a", "o/b", "o/c", "o/d"} {
		role, three := night(time.Hour), at(t, "2026-01-07 03:00 +0100")
		due := role.Due(at(t, "2026-01-06 12:00 +0100"), time.Time{}, repo)
		if again := role.Due(due.Add(time.Second), time.Time{}, repo); due.Before(three) ||
			!due.Before(three.Add(time.Hour)) || !again.Equal(due.Add(24*time.Hour)) {
			t.Errorf("%s with a jitter of an hour: got %s, then %s", repo, due, again)
		}
		spread[due] = true
	}
	if len(spread) < 3 {
		t.Errorf("four repositories start at %d different times, want at least 3", len(spread))
	}
}

func TestMissed(t *testing.T) {
	minutely, err := NewCalendar("* * * * *", "UTC", 0)
	if err != nil {
		t.Fatal(err)
	}
	due := at(t, "2026-01-06 12:00 +0000")
	for after, want := range map[time.Duration]int{
		0: 0, 59 * time.Second: 0, time.Minute: 1, 150 * time.Second: 2, 1e6 * time.Second: mostMissed,
	} {
		if got := (&Role{Calendar: minutely}).Missed(due, due.Add(after), "o/r"); got != want {
			t.Errorf("after %s: got %d missed, want %d", after, got, want)
		}
	}
	if got := (&Role{Every: time.Minute}).Missed(due, due.Add(time.Hour), "o/r"); got != 0 {
		t.Errorf("an interval missed %d, want none", got)
	}
}
