package ledger

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// required has a line of each kind of record, and the fields without which it is corrupt. A field with a minus is one
// that must not be negative.
var required = []struct{ kind, line, fields string }{
	{
		"start", `{"run":"a","thread":"t","agent":"d","item":{"kind":"issue","ref":"o/r#1"},"chain":"o/r#1",
			"passed_over":{"kind":"issue","ref":"o/r#2"}}`,
		"run thread agent item.kind item.ref chain passed_over.ref -rung",
	},
	{"end", `{"run":"a","result":"done"}`, "run result -talk -restored -found"},
	{"released", `{"ref":"o/r#1"}`, "ref"},
	{"blocked", `{"chain":"o/r#1","kind":"issue"}`, "chain kind"},
	{"handed", `{"ref":"o/r#1"}`, "ref -rounds"},
	{"told", `{"ref":"o/r#1","key":"k"}`, "ref key"},
	{"asked", `{"ref":"o/r#1","run":"a"}`, "ref run"},
	{"answered", `{"ref":"o/r#1"}`, "ref"},
	{"forget", `{"ref":"o/r#1"}`, "ref"},
	{"steal", `{"ref":"o/r#1","run":"a"}`, "ref run"},
	{"merged", `{"ref":"o/r#1","chain":"o/r#2","when":"2026-11-21T12:00:00Z"}`, "ref chain when"},
	{
		"free", `{"thread":"t","code":"no-slot","from":"2026-11-21T12:00:00Z","until":"2026-11-21T13:00:00Z"}`,
		"thread code until -slot",
	},
	{"listen", `{"ref":"o/r","since":"2026-11-21T12:00:00Z"}`, "ref since"},
	{"heard", `{"ref":"o/r#1","comment":5}`, "ref comment -comment"},
	{"used", `{"run":"a"}`, "run"},
	{"sent", `{"run":"a"}`, "run"},
	{"placed", `{"run":"a"}`, "run"},
	{"receipt", `{"n":1}`, "n -lost"},
	{"cancel", `{"refs":["o/r#1"]}`, "refs"},
	{"retry", `{"refs":["o/r#1"]}`, "refs"},
	{
		"chain", `{"ref":"o/r#1"}`,
		"ref -asked -handed -failures -rung -questions -plans",
	},
	{"item", `{"key":{"kind":"issue","ref":"o/r#1"}}`, "key.ref -passed_over -remarks -downs"},
	{"agent", `{"name":"d"}`, "name -downs"},
	{"thread", `{"name":"t"}`, "name -downs -limits"},
	{"slot", `{"thread":"t"}`, "thread -slot"},
	{"author", `{"login":"l"}`, "login"},
	{"toll", `{"chain":"o/r#1"}`, "chain -sessions -reviews -rounds -ci_fixes"},
	{"opened", `{"login":"l"}`, "login -sessions"},
	{"past", `{"kind":"issue","ref":"o/r#1","chain":"o/r#1"}`, "kind ref chain"},
	{"day", `{"day":"2026-11-21"}`, "day"},
	{
		"parked", `{"thread":"t","from":"2026-11-21T12:00:00Z","until":"2026-11-21T12:00:00Z"}`,
		"thread until",
	},
}

func TestIncompleteRecordsAreCorrupt(t *testing.T) {
	check := func(kind string, content map[string]any, what string, want bool) {
		line, err := json.Marshal(map[string]any{"at": noon, kind: content})
		if err != nil {
			t.Fatal(err)
		}
		if records, _ := Parse(line); len(records) == 1 != want {
			t.Errorf("%s with %s: valid is %v: %s", kind, what, !want, line)
		}
	}
	for _, r := range required {
		read := func() (content map[string]any) {
			if err := json.Unmarshal([]byte(r.line), &content); err != nil {
				t.Fatal(err)
			}
			return content
		}
		check(r.kind, read(), "every field", true)
		for name := range strings.FieldsSeq(r.fields) {
			content := read()
			in := content
			field, negative := strings.CutPrefix(name, "-")
			if outer, inner, nested := strings.Cut(field, "."); nested {
				in, field = maps.Clone(in[outer].(map[string]any)), inner
				content[outer] = in
			}
			if delete(in, field); negative {
				in[field] = -1
			}
			check(r.kind, content, name, false)
		}
	}
	for _, line := range []string{
		`{"released":{"ref":"o/r#1"}}`,
		`{"at":"2026-11-21T12:00:00Z","cancel":{"refs":["o/r#1",""]}}`,
		`{"at":"2026-11-21T12:00:00Z","heard":{"ref":"o/r","comment":5}}`,
		`{"at":"2026-11-21T12:00:00Z","receipt":{"n":1,"pruned":true}}`,
		`{"at":"2026-11-21T12:00:00Z","end":{"run":"a","result":"done","receipt":{"n":0}}}`,
		`{"at":"2026-11-21T12:00:00Z","thread":{"name":"t","uses":[{"at":"2026-11-21T12:00:00Z","tokens":-1}]}}`,
	} {
		if records, _ := Parse([]byte(line)); len(records) > 0 {
			t.Errorf("valid: %s", line)
		}
	}
}
