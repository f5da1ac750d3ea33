package forge

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Command is a comment's order to the supervisor.
type Command struct {
	Verb string   // in lower case; empty when /disinto stands alone
	Args []string // the words after it
	More bool     // another line of the comment is a command too; only the first counts
}

// Equal reports whether two commands say the same.
func (c Command) Equal(other Command) bool {
	return c.Verb == other.Verb && c.More == other.More && slices.Equal(c.Args, other.Args)
}

// Said is a comment with a command. It was never edited: every account with write access may edit a comment of another
// one, and the forge shows the author of the first version.
type Said struct {
	Ref            // the issue or pull request
	ID      int64  // of the comment; the forge counts them over all repositories
	Author  string // login, which is neither the supervisor's nor an agent's
	At      time.Time
	Command Command
}

// Compare orders commands as they were written.
func (s *Said) Compare(other *Said) int {
	return cmp.Or(s.At.Compare(other.At), cmp.Compare(s.ID, other.ID))
}

// maxCommandWords bounds the words of a command. No verb has more than one argument, so a line that is longer is
// refused for its arguments.
const maxCommandWords = 8

// CommandIn returns the command of a comment: the first line that begins with the word /disinto. A line that the page
// shows as code, in a quotation or not at all is none.
func CommandIn(text string) (c Command, ok bool) {
	quoted := false
	for _, line := range visibleLines(text) {
		words, is := commandWords(line)
		switch {
		case !is || quoted:
		case ok:
			c.More = true
			return c, true
		default:
			ok = true
			if len(words) > 0 {
				c.Verb, c.Args = strings.ToLower(words[0]), words[1:]
			}
		}
		// A line without the mark goes on with the quotation of the line before, up to a blank one.
		quoted = strings.TrimSpace(line) != "" && (quoted || strings.HasPrefix(strings.TrimLeft(line, " "), ">"))
	}
	return c, ok
}

// commandWords returns the words after /disinto of a line that begins with it. Four spaces before it make code.
func commandWords(line string) (words []string, ok bool) {
	const name = "/disinto"
	text := strings.TrimLeft(line, " ")
	if len(line)-len(text) > 3 || len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
		return nil, false
	}
	after := text[len(name):]
	if after != "" && after[0] != ' ' && after[0] != '\t' {
		return nil, false
	}
	words = strings.Fields(after)
	return words[:min(len(words), maxCommandWords)], true
}
