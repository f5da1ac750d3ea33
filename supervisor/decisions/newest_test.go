package decisions

import (
	"os"
	"testing"
	"time"
)

// The newest decision is the last one of the last segment that has any, even if the very last segment is torn.
func TestNewest(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		if _, err := Newest(dir); err == nil {
			t.Error("Newest found a decision before the first one")
		}
		s := factory(3)
		r := newRecord(t, dir, false)
		r.decide(s)
		time.Sleep(time.Minute)
		pause(s, true)
		r.decide(s)
		cfg := *s.Config
		cfg.Forge.MaxUnreviewed, s.Config = 7, &cfg
		time.Sleep(time.Minute)
		r.decide(s)
		r.stop()
		newest := func(unreviewed int) {
			t.Helper()
			got, err := Newest(dir)
			if err != nil || got.Config.Forge.MaxUnreviewed != unreviewed || len(got.Facts.Issues) != 3 ||
				len(got.History.Paused) != 1 {
				t.Fatalf("Newest returned %+v, %v, want the newest decision", got, err)
			}
			if token := got.Config.Agents[0].Token.Reveal(); token == "" || token == string(s.Config.Agents[0].Token) {
				t.Errorf("the token is %q, want a placeholder", token)
			}
		}
		newest(7)
		old, err := Last(dir, time.Now().Add(-90*time.Second))
		if err != nil || old.Config.Forge.MaxUnreviewed != 3 || len(old.History.Paused) != 0 {
			t.Errorf("Last returned %+v, %v, want the older decision", old, err)
		}
		if _, err := Last(dir, time.Now().Add(-time.Hour)); err == nil {
			t.Error("Last found a decision before the first one")
		}
		last := files(t, dir)[1]
		text, err := os.ReadFile(last)
		if err == nil {
			err = os.WriteFile(last, text[:20], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		newest(3)
	})
}
