package screen

import (
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// While the forge is not read, nobody knows whether nothing waits; status says since when it does not answer, and what
// ends that. It said "nothing waits: no issue is open", and "scanned 3m08s ago".
func TestOutage(t *testing.T) {
	now := time.Date(2026, 11, 28, 4, 30, 0, 0, time.UTC)
	const down, ends = "cannot scan: forge unavailable: dial tcp: connection refused",
		", because it does not answer; work goes on by itself when it does"
	for _, tt := range []struct {
		forge        control.ForgeDocument
		waits, state string
	}{
		{
			control.ForgeDocument{URL: "http://forge", OK: true, LastScan: now.Add(-time.Minute)},
			"nothing waits: no issue is open", "http://forge, scanned 1m00s ago",
		},
		{
			control.ForgeDocument{URL: "http://forge", Error: down, LastScan: now.Add(-3 * time.Minute)},
			"it is unknown what waits: the forge has not been read for 3m00s" + ends,
			"http://forge: the forge has not been read for 3m00s" + ends,
		},
		{
			control.ForgeDocument{URL: "http://forge", Error: down},
			"it is unknown what waits: the forge has not been read yet" + ends,
			"http://forge: the forge has not been read yet" + ends,
		},
		{
			control.ForgeDocument{URL: "http://forge"},
			"it is unknown what waits: the forge has not been read yet\n", "http://forge, not scanned yet",
		},
	} {
		d := &control.Document{Forge: tt.forge, StartedAt: now}
		v := View{Now: now}
		for want, got := range map[string]string{tt.waits: v.WhyNoMore(d), tt.state: v.Status(d)} {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: want %q in\n%s", tt.forge, want, got)
			}
		}
	}
}
