package forgejo

import (
	"encoding/json"
	"strings"
	"testing"
)

// cutAnswer leaves an answer within the bounds unchanged. It cuts a longer text between two characters, and drops an
// entry that is too large.
func TestCutAnswer(t *testing.T) {
	long, mark := strings.Repeat("x", maxText), `\n\n`+cutMark
	tests := []struct {
		name, text, want string
		dropped          int
	}{
		{"an object", ` {"a": [1, "b", {"c": null}], "d": "\"}]\\"} `, `{"a":[1,"b",{"c":null}],"d":"\"}]\\"}`, 0},
		{"a list", "[ {\"a\": 1},\n2, \"x,]\", [3, 4] ]\n", `[{"a":1},2,"x,]",[3,4]]`, 0},
		{"an empty list", "[]", "[]", 0},
		{"null", "null", "null", 0},
		{"nothing", "", "", 0},
		{"a long text", `["` + long + `yz","b"]`, `["` + long + mark + `","b"]`, 0},
		{"an escape at the end", `["` + long[1:] + `\u00e4z"]`, `["` + long[1:] + `\u00e4` + mark + `"]`, 0},
		{"an escape behind the end", `["` + long + `\u00e4\"z",1]`, `["` + long + mark + `",1]`, 0},
		{"a character at the end", `["` + long[1:] + `äz"]`, `["` + long[1:] + `ä` + mark + `"]`, 0},
		{
			"a large entry", `[{"a":"` + long + `","b":"` + long + `","c":"` + long + `"},{"a":1}]`, `[null,{"a":1}]`, 1,
		},
		{
			"labels", `[{"id":1,"labels":[{"id":2,"name":"a\"","color":"0e8a16","more":{"labels":[1,{"a":[]}]}},{"url":"u"},
				{"exclusive":true,"name":"b","id":3}],"n":4},5]`,
			`[{"id":1,"labels":[{"id":2,"name":"a\""},{},{"name":"b","id":3}],"n":4},5]`, 0,
		},
		{"a label's long name", `{"labels":[{"name":"` + long + `"}]}`, `{"labels":[{"name":"` + long[:maxName] + mark + `"}]}`, 0},
		{
			"endless labels", `[{"labels":[` + strings.Repeat(`{"name":"a","url":"`+long+`"},`, 2*mostLabels) +
				`{"name":"backlog"},{"name":"b"}],"n":1}]`,
			`[{"labels":[` + strings.Repeat(`{"name":"a"},`, mostLabels) + `{"name":"backlog"}],"n":1}]`, 0,
		},
		{"many values", `[[` + strings.Repeat("{},", maxValues+1) + `{}],7]`, `[null,7]`, 1},
	}
	for _, tt := range tests {
		got, dropped, err := cutAnswer(strings.NewReader(tt.text), maxRaw, []string{"backlog"})
		if err != nil || string(got) != tt.want || dropped != tt.dropped {
			t.Errorf("%s: got %.80s... (%d bytes), %d dropped, %v", tt.name, got, len(got), dropped, err)
		}
		if len(got) > 0 && !json.Valid(got) {
			t.Errorf("%s: got invalid JSON: %.80s", tt.name, got)
		}
	}
	for name, text := range map[string]string{
		"bytes":   `"` + strings.Repeat("x", 1<<20) + `"`,
		"entries": "[" + strings.Repeat("1,", maxList+1) + "1]",
	} {
		if _, _, err := cutAnswer(strings.NewReader(text), 1<<20, nil); err != errTooLong {
			t.Errorf("too many %s: %v", name, err)
		}
	}
}

func FuzzCutAnswer(f *testing.F) {
	for _, text := range []string{
		`[{"a":"\u0041\\\""},[],null]`, `{"a":[1,2.5e3,true]}`, `"ä"`, `[1,2`, `]]`, `"\`,
		`[{"labels":[{"id":1,"name":"a","color":{"b":[]}},{}]}]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, dropped, err := cutAnswer(strings.NewReader(text), maxRaw, nil)
		if err != nil || len(text) >= maxText || dropped > 0 {
			return
		}
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		if strings.Contains(text, `"labels"`) {
			return // only a part of a label is kept
		}
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(after)
		if string(a) != string(b) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
