package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads/ledger"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// hour is the frame from 12:00 to 13:00, with now at 12:50.
func hour() frame {
	return frame{within: reaches[1], from: noon, now: noon.Add(50 * time.Minute), to: noon.Add(time.Hour)}
}

func minutes(from, until int, kind string) bar {
	at := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	return bar{span: span{at(from), at(until)}, Kind: kind, n: 1}
}

// A time outside the frame is at its edge.
func TestX(t *testing.T) {
	f := hour()
	for m, want := range map[int]float64{-10: 0, 0: 0, 15: 25, 60: 100, 90: 100} {
		if got := f.x(noon.Add(time.Duration(m) * time.Minute)); got != want {
			t.Errorf("minute %d is at %g, want %g", m, got, want)
		}
	}
}

// Shares add up: simultaneous sessions count once, and so does time that is both in a session and parked or free.
func TestShares(t *testing.T) {
	f := hour()
	for _, tt := range []struct {
		name, want string
		lane       lane
	}{
		{"nothing", "– – – 100 %", lane{}},
		{"half", "50 % – – 50 %", lane{Bars: []bar{minutes(0, 25, "issue")}}},
		{"two beside each other", "50 % – – 50 %", lane{Bars: []bar{minutes(0, 20, "issue"), minutes(10, 25, "review")}}},
		{"began before", "20 % – – 80 %", lane{Bars: []bar{minutes(-30, 10, "issue")}}},
		{"beyond the frame", "20 % – – 80 %", lane{Bars: []bar{minutes(40, 70, "issue")}}},
		{"parked", "20 % 40 % – 40 %", lane{Bars: []bar{minutes(0, 10, "issue")}, Parked: []bar{minutes(0, 30, "limit")}}},
		{"beside work", "20 % – 60 % 20 % agent-busy, no-room", lane{
			Bars: []bar{minutes(0, 10, "issue")},
			Free: []bar{minutes(10, 20, "no-room"), minutes(20, 40, "agent-busy")},
		}},
		{"a moment", "< 1 % – – 100 %", lane{Bars: []bar{{span: span{noon, noon.Add(time.Second)}}}}},
	} {
		s := f.share(&tt.lane)
		if got := strings.TrimSpace(strings.Join([]string{s.Busy, s.Parked, s.Beside, s.Idle, s.Why}, " ")); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Sessions too short to be shown apart become one bar with their number. Long ones keep their own.
func TestJoin(t *testing.T) {
	f := hour()
	var bars []bar
	for i := range 10 {
		at := noon.Add(time.Duration(i) * time.Second)
		bars = append(bars, bar{span: span{at, at.Add(time.Second)}, Href: "/issue", n: 1})
	}
	bars = append(bars, minutes(1, 10, "issue"), minutes(120, 130, "issue"))
	joined := f.join(bars, 0.1)
	total := sessionsIn(joined)
	if total != 11 || len(joined) > 5 {
		t.Errorf("%d bars with %d sessions, want 11 sessions in a few: %+v", len(joined), total, joined)
	}
	if joined[0].n < 2 || joined[0].Href != "" || !strings.Contains(joined[0].Words, "sessions") {
		t.Errorf("got the first bar %+v", joined[0])
	}
	if last := joined[len(joined)-1]; last.n != 1 || last.Kind != "issue" {
		t.Errorf("got the last bar %+v", last)
	}
}

// The timeline of a month with 4,000 sessions (200 in make test) stays below 40 kB, and its names are text.
func TestTimeline(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	d := status()
	var h control.HistoryDocument
	now := time.Now()
	n := simtest.Size(ledger.PastLimit, 200)
	for i := range n {
		agent := fmt.Sprintf("dev-%d", i%8)
		if i < 8 {
			d.Agents = append(d.Agents, control.AgentDocument{Name: agent})
		}
		at := now.Add(-time.Duration(i*ledger.PastLimit/n) * 10 * time.Minute)
		h.Sessions = append(h.Sessions, control.PastDocument{Past: ledger.Past{
			Agent: agent, Kind: agents.KindIssue, Ref: ledger.Ref{Repo: "o/r", Number: int64(i + 1)}, Thread: "llama",
			Slot: i % 2, Start: at, End: at.Add(8 * time.Minute), Outcome: agents.Done,
		}})
		h.Merges = append(h.Merges, ledger.Merged{Ref: ledger.Ref{Repo: "o/r", Number: int64(i + 1)}, When: at})
		h.Free = append(h.Free, ledger.Free{
			Thread: "llama", Slot: 1, Code: hostile, From: at.Add(8 * time.Minute),
			Until: at.Add(9 * time.Minute),
		})
	}
	v.api.set("/v1/state", d)
	v.api.set("/v1/history", h)
	for _, r := range reaches {
		status, page := v.get("/timeline?range=" + r.Name)
		if status != 200 || len(page) > mostPage || strings.Contains(page, "<img") {
			t.Errorf("%s: got status %d, %d bytes", r.Name, status, len(page))
		}
		if !strings.Contains(page, `class="bar issue`) || !strings.Contains(page, "llama/1") {
			t.Errorf("%s shows no session", r.Name)
		}
	}
	if _, page := v.get("/timeline?range=1h"); !strings.Contains(page, "/issue?ref=o%2Fr%231") {
		t.Error("a bar has no link to its issue")
	}
}

// Without a history the lanes are empty.
func TestTimelineEmpty(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	v.api.set("/v1/history", control.HistoryDocument{})
	if status, page := v.get("/timeline"); status != 200 || !strings.Contains(page, "llama/0") {
		t.Errorf("got %d %s", status, page)
	}
}

// Without a range, a young factory shows an hour or six, and an older one a day.
func TestReachOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		life time.Duration
		want string
	}{
		{"", time.Minute, "1h"},
		{"", 51 * time.Minute, "6h"},
		{"", 30 * time.Hour, "24h"},
		{"7d", time.Minute, "7d"},
	} {
		if got, err := reachOf(tt.name, tt.life); got.Name != tt.want || err != nil {
			t.Errorf("%q after %s: %s, %v, want %s", tt.name, tt.life, got.Name, err, tt.want)
		}
	}
	v := newVisit(t)
	v.signIn()
	status, page := v.get("/timeline?range=2h")
	if want := "range is 15m, 1h, 6h, 24h, 7d or 30d"; status != http.StatusBadRequest || !strings.Contains(page, want) {
		t.Errorf("range=2h: got %d %s, want 400 and %q", status, page, want)
	}
}
