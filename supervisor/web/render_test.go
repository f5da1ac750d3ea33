package web

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// Text from the forge cannot reverse the page's text, nor the browser tab's title, where no markup can isolate it.
func TestVisible(t *testing.T) {
	const title = "o/r#7 \u202egnp.exe\u2066\x1b[31m\u009b\x00\u200b 👩\u200d💻"
	w := httptest.NewRecorder()
	send(w, 200, "page", &sheet{board: &board{Title: title}, Visitor: &visitor{}})
	want := "o/r#7 gnp.exe[31m\ufffd 👩\u200d💻" // html/template writes U+FFFD for NUL
	if body := w.Body.String(); strings.Count(body, want) != 2 {
		t.Errorf("want %q in title and heading: %s", want, body)
	}
	got := string(render("shares", "x", map[string]any{"Words": "a\u202eb", "Shares": nil}).HTML)
	if !strings.Contains(got, "<title>ab</title>") || !strings.Contains(got, `aria-label="ab"`) {
		t.Errorf("got the tooltip %s", got)
	}
}

// A pause of the whole factory needs a person, and is shown once.
func TestNeedsResume(t *testing.T) {
	for _, tt := range []struct {
		d    control.Document
		want string
	}{
		{control.Document{Paused: true}, "everything is paused"},
		{
			control.Document{Paused: true, Problems: []string{"first start: 2 items wait: disinto resume starts them"}},
			"first start",
		},
	} {
		sec := needsYou(&tt.d)
		if len(sec.Rows) != 1 || !strings.Contains(string(sec.Rows[0].HTML), tt.want) {
			t.Errorf("got %+v, want one row with %q", sec.Rows, tt.want)
		}
	}
	if sec := needsYou(&control.Document{}); len(sec.Rows) > 0 {
		t.Errorf("healthy factory: got %+v, want no rows", sec.Rows)
	}
}

// The page shows the totals of the shadow and its last differences. A shadow that does not answer is marked bad.
func TestShadow(t *testing.T) {
	d := control.Document{Shadow: &control.ShadowDocument{
		Path: "/opt/new", Version: "v2<b>", AskedAt: time.Now(), Total: control.Shadow{Decisions: 3, Differing: 1},
	}}
	for n := range int64(12) {
		d.Shadow.Differs = append(d.Shadow.Differs, control.Differs{
			Repo: "o/r", Number: n + 1, Here: "hold it",
			Shadow: "do <i>",
		})
	}
	shown := func() (list []string) {
		for _, row := range health(&d).Rows {
			if strings.HasPrefix(row.ID, "fact-shadow") {
				list = append(list, string(row.HTML))
			}
		}
		return list
	}
	rows := shown()
	if len(rows) != 1+shownDiffers || !strings.Contains(rows[0], "v2&lt;b&gt;") || strings.Contains(rows[0], "bad") ||
		!strings.Contains(rows[1], "o%2Fr%231\"") || !strings.Contains(rows[1], "do &lt;i&gt;") {
		t.Errorf("got %d rows: %s", len(rows), rows)
	}
	d.Shadow.Error = "exit status 1"
	if rows = shown(); !strings.Contains(rows[0], "exit status 1") || !strings.Contains(rows[0], "bad") {
		t.Errorf("shadow that does not answer: got %s", rows[0])
	}
	if d.Shadow = nil; len(shown()) > 0 {
		t.Error("got rows without a shadow")
	}
}

// A service shows why it cannot be used, or else the last line that it printed. Without services there is no table.
func TestServices(t *testing.T) {
	d := control.Document{Services: []control.ServiceDocument{
		{Name: "gpu", State: "ready", PID: 7, LastLine: "<2 devices>"},
		{Name: "llama", State: "resting", Why: "llama: exit status 1", LastLine: "no GPU"},
	}}
	sec := services(&d)
	if len(sec.Rows) != 2 {
		t.Fatalf("got %+v, want 2 rows", sec.Rows)
	}
	for i, want := range []string{"&lt;2 devices&gt;", "llama: exit status 1"} {
		if got := string(sec.Rows[i].HTML); !strings.Contains(got, want) || strings.Contains(got, "no GPU") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if sec := services(new(control.Document)); len(sec.Rows) > 0 || sec.Empty != "" {
		t.Errorf("without services: got %+v", sec)
	}
}
