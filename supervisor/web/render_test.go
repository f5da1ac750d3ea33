package web

import (
	"net/http/httptest"
	"strings"
	"testing"

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
