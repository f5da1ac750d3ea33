package simtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// A journal that is missing, empty, cut off or older than the receipts beside it is told as what it is, once and under
// NEEDS YOU, and one of a first start is not. Work goes on, after a pause where nothing is known any more.
func TestLostJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(text []byte) []byte
		want   string
		pauses bool
	}{
		"missing": {func([]byte) []byte { return nil }, "is lost: 6 sessions ran here, the last until 2000", true},
		"empty":   {func([]byte) []byte { return []byte{} }, "is lost: 6 sessions ran here, the last until 2000", true},
		"halved": {func(text []byte) []byte {
			return text[:bytes.Index(text, []byte(`"end"`))]
		}, "was cut off, or comes from an older copy: it does not know the last ", false},
		"whole": {func(text []byte) []byte { return text }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				for range 3 {
					w.Forge.Issue("work")
				}
				asks := func(l *Life) { l.Ask = true }
				l := w.Start()
				w.Until(6*time.Hour, "all is merged", w.Forge.Done)
				l.Kill() // its journal has all events, and no status was written
				l.Bury()
				path := filepath.Join(w.Dir, "journal.jsonl")
				text, err := os.ReadFile(path)
				if text = tt.damage(text); text == nil {
					err = os.Remove(path)
				} else if err == nil {
					err = os.WriteFile(path, text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				w.Forge.Issue("more")
				box, tell := w.told()
				l = w.Start(tell, asks)
				time.Sleep(10 * time.Minute)
				d := l.Document()
				if got := alarmOf(d); tt.want != "" && (got.Code != control.Journal || !strings.Contains(got.Words, tt.want)) ||
					tt.want == "" && len(d.Alarms) > 0 {
					t.Errorf("got alarms %+v, want %q", d.Alarms, tt.want)
				}
				if got := box.with("restore "); len(got) != min(1, len(tt.want)) {
					t.Errorf("got messages %q", got)
				}
				if log := w.Log.String(); d.Paused != tt.pauses || strings.Contains(log, "first start") {
					t.Errorf("got paused %t, and the log:\n%s", d.Paused, log)
				}
				ask(l, "/v1/resume", `{}`)
				w.Until(6*time.Hour, "all is merged", w.Forge.Done)
				l.Stop()
			})
		})
	}
}

// A journal with records of a newer version is refused as that, unchanged, and read without them if the operator says
// so.
func TestNewerJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("work")
		l := w.Start()
		w.Until(6*time.Hour, "all is merged", w.Forge.Done)
		l.Stop()
		path := filepath.Join(w.Dir, "journal.jsonl")
		text, err := os.ReadFile(path)
		newer := append(text, []byte(`{"at":"2030-01-01T00:00:00Z","dream":{"of":"sheep"}}`+"\n")...)
		if err == nil {
			err = os.WriteFile(path, newer, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		l = w.Start()
		err = <-l.ended
		if err == nil || !strings.Contains(err.Error(), `of a newer version of disinto, which wrote records of "dream"`) ||
			!strings.Contains(err.Error(), "upgrade, or start with --ignore-newer") {
			t.Errorf("got %v, want a refusal that says what to do", err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, newer) {
			t.Errorf("the journal has changed to\n%s", got)
		}
		l = w.Start(func(l *Life) { l.IgnoreNewer = true })
		time.Sleep(time.Minute)
		if d := l.Document(); len(d.Recent) != 2 || !strings.Contains(strings.Join(d.Problems, "\n"), "of a newer version") {
			t.Errorf("got %d sessions and problems %q, want 2, and that a line was set aside", len(d.Recent), d.Problems)
		}
		l.Stop()
		l = w.Start()
		time.Sleep(time.Minute)
		if d := l.Document(); len(d.Problems) > 0 {
			t.Errorf("at the next start: got problems %q", d.Problems)
		}
		l.Stop()
	})
}
