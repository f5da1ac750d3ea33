package tomltext

import (
	"errors"
	"strings"

	"github.com/BurntSushi/toml"
)

// elements are the characters that begin most elements of a list. Before one of them a comma is missing, not the end of
// the list.
const elements = `"'{0123456789+-`

// closing is the end of a table's header; true means an array of tables.
var closing = map[bool]string{false: "]", true: "]]"}

// Mistake describes why a text is not TOML: the line that a person has to change, 0 if unknown; the key, "" outside any
// key; and the problem. The parser reports the position at which it could not continue, which for an unclosed bracket
// is a later line.
func Mistake(text string, err error) (line int, key, problem string) {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		return 0, "", strings.TrimPrefix(err.Error(), "toml: ")
	}
	at := min(max(pe.Position.Start, 0), len(text))
	line = 1 + strings.Count(text[:at], "\n")
	key, problem = pe.LastKey, pe.Message
	from := startOfLine(text, at)
	header := strings.TrimSpace(text[from:max(from, endOfLine(text, at))])
	misplaced := at == len(text) || !strings.Contains(elements, text[at:at+1])
	switch {
	case strings.Contains(problem, "to end table name"), strings.Contains(problem, "table array name delimiter"):
		return line, "", header + " is not closed: want " + closing[strings.HasPrefix(header, "[[")] + " at the end"
	case misplaced && strings.Contains(problem, "array terminator"),
		strings.Contains(problem, `unexpected EOF; expected '`):
		if began := Lines(text)[key]; began > 0 {
			return began, key, "the value that begins here is not closed: " + problem
		}
	case strings.Contains(problem, "is out of range for "):
		problem = problem[:strings.LastIndex(problem, " for ")] + ": no number is that large"
	}
	return line, key, problem
}
