package screen

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// evil has sequences that colour, rename the window, start an escape sequence in one byte and reverse the text, and
// line breaks.
const evil = "a\x1b[31m\x1b]0;x\a\u009b2J\x9b1m\u202e\u2066\r\nb\x00\x7f\u200b"

// fill sets every string in a value to evil, and fills its pointers, slices and maps.
func fill(v reflect.Value, depth int) {
	if depth > 12 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Bool:
		v.SetBool(depth%2 == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(noon))
			return
		}
		for _, field := range v.Fields() {
			fill(field, depth+1)
		}
	}
}

// full returns a document whose strings are all evil.
func full[T any]() *T {
	d := new(T)
	fill(reflect.ValueOf(d).Elem(), 0)
	return d
}

// Only printable characters reach the terminal, whatever strings are in the fields of a document.
func TestHostileDocuments(t *testing.T) {
	free := full[control.Document]()
	free.Sessions = nil
	shown := map[string]func(View) string{
		"status":      func(v View) string { return v.Status(full[control.Document]()) },
		"no more":     func(v View) string { return v.WhyNoMore(full[control.Document]()) },
		"status free": func(v View) string { return v.Status(free) },
		"status lost": func(v View) string { v.Lost = true; return v.Status(full[control.Document]()) },
		"why":         func(v View) string { return v.Why(full[threads.Explanation]()) },
		"why all":     func(v View) string { return v.WhyAll(full[threads.Explanation]()) },
		"until":       func(v View) string { return v.Until(full[control.Forecast]()) },
		"life":        func(v View) string { return v.Item(full[control.ItemDocument]()) },
		"history":     func(v View) string { return v.History(full[control.HistoryDocument]()) },
		"record":      func(v View) string { return v.Record(full[control.RecordDocument]()) },
		"record csv":  func(v View) string { return v.RecordCSV(full[control.RecordDocument]()) },
		"convoys":     func(v View) string { return v.Convoys(full[control.Convoys]()) },
		"convoy list": func(v View) string { return v.ConvoyList(full[control.Convoys]()) },
		"fleet":       func(v View) string { return v.Fleet(full[fleet.Status]()) },
		"cycle":       func(v View) string { return v.Cycle(full[fleet.Cycle]()) },
		"trials":      func(v View) string { return v.Trials(evil, *full[[]sim.Report](), *full[[]sim.Learnt]()) },
		"findings":    func(v View) string { return v.Findings(*full[[]Finding]()) },
		"sling":       func(v View) string { return v.Sling(full[control.SlingReport]()) },
		"report":      func(v View) string { return v.Report(full[control.Report]()) },
		"demo":        func(v View) string { return v.DemoReport(full[demo.Report](), time.Minute) },
		"progress":    func(v View) string { return v.DemoProgress(evil, 2, time.Minute) },
		"board": func(v View) string {
			v.Width = 80
			d := full[control.Document]()
			rows, text := v.Rows(d), v.Head(d)+v.Host(d)
			for i := range rows {
				text += v.Board(rows).Row(&rows[i], true) + "\n" + rows[i].Text() + "\n"
			}
			return text
		},
	}
	for name, show := range shown {
		for _, width := range []int{0, 80} {
			text := show(View{Now: noon, Width: width})
			if text == "" || !strings.Contains(text, "a") {
				t.Errorf("%s: got %q, want text from the document", name, text)
			}
			for line := range strings.Lines(text) {
				if line = strings.TrimSuffix(line, "\n"); strings.ContainsFunc(line, func(r rune) bool { return !printable(r) }) {
					t.Errorf("%s, width %d: got line %q, want only printable characters", name, width, line)
				}
			}
		}
	}
}

// JSON escapes unprintable characters and does not change a document's values.
func TestJSON(t *testing.T) {
	raw := []byte("{\"a\": \"größe 日本 🙂\u009b31m\u202e\U000e0041\u007f\xff\",\n\t\"b\": 1}")
	const want = `{"a": "größe 日本 🙂\u009b31m\u202e\udb40\udc41\u007f\ufffd",` + "\n\t" + `"b": 1}`
	if got := JSON(raw); got != want {
		t.Errorf("JSON: got %s, want %s", got, want)
	}
	var before, after any
	if err := json.Unmarshal(raw, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(JSON(raw)), &after); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("JSON changes the document: got %v, want %v (%v)", after, before, err)
	}
}
