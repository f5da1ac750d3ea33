package forge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Command is an order to the supervisor, written in a comment.
type Command struct {
	Verb string   // in lower case; empty when the line has only /disinto
	Args []string // the words after Verb
	More bool     // another line of the comment is also a command, which is ignored: only the first counts
	// Text is what follows Tell, to the end of the comment or to another command, as it was written; it is empty for
	// other verbs. One that is longer than MaxText is cut somewhere after that.
	Text string
}

// Tell is the verb of a command with a text for a session.
const Tell = "tell"

// MaxText is the longest text of a command, in bytes.
const MaxText = 4 << 10

// Equal reports whether both commands have the same Verb, Args, More and Text.
func (c Command) Equal(other Command) bool {
	return c.Verb == other.Verb && c.More == other.More && c.Text == other.Text && slices.Equal(c.Args, other.Args)
}

// CommandComment is a comment with a command. Edited comments are never among them: every account with write access can
// edit another account's comment, and the forge still shows the author of the first version. The forge's times are
// whole seconds, so an edit within the second in which the comment was written does not show.
type CommandComment struct {
	Ref            // the issue or pull request that has the comment
	ID      int64  // ID of the comment; the forge numbers comments across all repositories
	Author  string // login; never the supervisor's or an agent's
	At      time.Time
	Command Command
}

// ConfirmKey is the key of the supervisor's comment that asks the command's author to confirm it.
func (s *CommandComment) ConfirmKey() string { return fmt.Sprintf("command-%d-confirm", s.ID) }

// Compare orders commands by time, then by comment ID.
func (s *CommandComment) Compare(other *CommandComment) int {
	return cmp.Or(s.At.Compare(other.At), cmp.Compare(s.ID, other.ID))
}

// maxCommandWords bounds the words of a command. No verb has more than one argument, so a longer line is refused anyway
// for its arguments.
const maxCommandWords = 8

// CommandIn returns the command of a comment: the first line that begins with the word /disinto. A line does not count
// if the rendered page shows it as code, inside a quotation, or not at all.
func CommandIn(text string) (c Command, ok bool) {
	quoted, written, first, end := false, strings.Split(text, "\n"), 0, 0
	for i, line := range visibleLines(text) {
		words, is := commandWords(line)
		switch {
		case !is || quoted:
		case ok:
			c.More, end = true, i
		default:
			ok, first, end = true, i, len(written)
			if len(words) > 0 {
				c.Verb, c.Args = strings.ToLower(words[0]), words[1:]
			}
		}
		if c.More {
			break
		}
		// A line without > continues the quotation of the line above it; a blank line ends the quotation.
		quoted = strings.TrimSpace(line) != "" && (quoted || strings.HasPrefix(strings.TrimLeft(line, " "), ">"))
	}
	if c.Verb == Tell {
		c.Args, c.Text = nil, textAfter(written[first:end])
	}
	return c, ok
}

// textAfter returns what follows the first two words of the lines.
func textAfter(lines []string) string {
	text := strings.Join(lines, "\n")
	for range 2 {
		text = strings.TrimLeft(text, " \t")
		text = strings.TrimLeftFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
	}
	text = strings.TrimSpace(text)
	return strings.ToValidUTF8(text[:min(len(text), MaxText+utf8.UTFMax)], "")
}

// commandWords returns the words after /disinto of a line that begins with it, or with /Disinto, as phones write the
// first word of a line. No other capitals are accepted: nobody types them by habit. Indentation by four spaces makes a
// line code.
func commandWords(line string) (words []string, ok bool) {
	const name, onPhones = "/disinto", "/Disinto"
	text := strings.TrimLeft(line, " ")
	after, ok := strings.CutPrefix(text, name)
	if !ok {
		after, ok = strings.CutPrefix(text, onPhones)
	}
	if !ok || len(line)-len(text) > 3 {
		return nil, false
	}
	if after != "" && after[0] != ' ' && after[0] != '\t' {
		return nil, false
	}
	words = strings.Fields(after)
	return words[:min(len(words), maxCommandWords)], true
}
