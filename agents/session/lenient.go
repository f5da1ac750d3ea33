package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// fields are the values of a JSON object that a model wrote, by lower-case name. A value of another type than wanted is
// converted where that is unambiguous; otherwise err is set.
type fields struct {
	name   string // of the file
	values map[string]json.RawMessage
	err    error // the first value that could not be read
}

// readFields decodes a file in which a model wrote a JSON object. It reads what can be meant in one way only: in a code
// fence, after a byte order mark, in an array of one, with raw line breaks in strings, with a comma too many. An error
// quotes the line.
func readFields(name string, text []byte) (*fields, error) {
	if len(text) > maxAnswerFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxAnswerFile)
	}
	object, above := bare(text)
	object = mendJSON(object)
	var one []json.RawMessage
	if json.Unmarshal(object, &one) == nil && len(one) == 1 {
		object = one[0]
	}
	values, err := valuesOf(object)
	if err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w%s", name, err, quotedLine(object, above, err))
	}
	return &fields{name: name, values: values}, nil
}

// valuesOf decodes an object. A name that occurs twice is an error, because two verdicts are none.
func valuesOf(object []byte) (map[string]json.RawMessage, error) {
	if err := json.Unmarshal(object, &map[string]json.RawMessage{}); err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // the brace
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		key := strings.ToLower(strings.TrimSpace(fmt.Sprint(token)))
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("it has %q twice", firstWords(key))
		}
		values[key] = value
	}
	return values, nil
}

// bare returns the JSON of a text: without a byte order mark, without the fences of a code block, and without prose
// around it. above is how many lines it cuts off at the beginning.
func bare(text []byte) (object []byte, above int) {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	begin, last := bytes.IndexAny(text, "{["), bytes.LastIndexAny(text, "}]")
	if begin < 0 || last < begin {
		return text, 0
	}
	return text[begin : last+1], bytes.Count(text[:begin], []byte("\n"))
}

// mendJSON escapes raw control characters in strings, and backslashes that escape nothing. It removes a comma before
// the end of an object or array.
func mendJSON(text []byte) []byte {
	var out []byte
	inside := false // a string
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inside && c == '\\':
			if i+1 < len(text) && strings.IndexByte(`"\/bfnrtu`, text[i+1]) >= 0 {
				out = append(out, c, text[i+1])
				i++
				continue
			}
			out = append(out, c)
		case inside && c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
			continue
		case c == '"':
			inside = !inside
		case !inside && c == ',':
			if rest := bytes.TrimSpace(text[i+1:]); len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// rawNewline is a line break in a string, as mendJSON writes it. Models write \n.
const rawNewline = `\u000a`

// quotedLine returns the line of a syntax error in the file, to be quoted after the error.
func quotedLine(text []byte, above int, err error) string {
	var wrong *json.SyntaxError
	if !errors.As(err, &wrong) || wrong.Offset <= 0 || wrong.Offset > int64(len(text)) {
		return ""
	}
	before, after := string(text[:wrong.Offset-1]), string(text[wrong.Offset-1:])
	before = strings.ReplaceAll(before, rawNewline, "\n")
	after, _, _ = strings.Cut(strings.ReplaceAll(after, rawNewline, "\n"), "\n")
	number := above + strings.Count(before, "\n") + 1
	return fmt.Sprintf(", in line %d: %s", number, firstWords(before[strings.LastIndexByte(before, '\n')+1:]+after))
}

func (f *fields) wrong(name, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %s is %s, want %s", f.name, name, firstWords(string(f.values[name])), want)
	}
}

// text returns a text. An array of texts becomes lines; a number and a boolean become words.
func (f *fields) text(name string) string {
	value, told := f.values[name]
	var s string
	var lines []string
	var plain any
	switch {
	case !told || json.Unmarshal(value, &s) == nil:
		return strings.TrimSpace(s)
	case json.Unmarshal(value, &lines) == nil:
		return strings.TrimSpace(strings.Join(lines, "\n"))
	case json.Unmarshal(value, &plain) == nil:
		switch plain.(type) {
		case float64, bool:
			return string(value)
		}
	}
	f.wrong(name, "a text")
	return ""
}

// number returns a whole number, also of a text that is one. A missing number is 0.
func (f *fields) number(name string) int64 {
	value, told := f.values[name]
	var s string
	if json.Unmarshal(value, &s) != nil {
		s = string(value)
	}
	if s = strings.TrimSpace(s); !told || s == "" || s == "null" {
		return 0
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n != float64(int64(n)) {
		f.wrong(name, "a number")
	}
	return int64(n)
}

// list returns the objects of an array. A single object and a single text, which becomes a body, count as arrays of
// one.
func (f *fields) list(name string) (all []*fields) {
	value, told := f.values[name]
	var many []json.RawMessage
	if !told || string(value) == "null" {
		return nil
	}
	if json.Unmarshal(value, &many) != nil {
		many = []json.RawMessage{value}
	}
	for _, one := range many {
		values, err := valuesOf(one)
		var s string
		if err != nil && json.Unmarshal(one, &s) == nil {
			values, err = map[string]json.RawMessage{"body": one}, nil
		}
		if err != nil {
			f.wrong(name, "an array of objects")
		}
		all = append(all, &fields{name: f.name, values: values})
	}
	return all
}
