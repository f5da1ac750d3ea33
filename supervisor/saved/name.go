// Package saved keeps conversations of a local server in files while they wait. It finds the slot of a conversation,
// chooses the slot to restore it into, names its file, and deletes files. The server writes and reads the files; this
// machine sees their folder.
package saved

import (
	"fmt"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Conversation is an agent's conversation with a model on a chain.
type Conversation struct {
	Agent, Model string
	Chain        forge.Ref
}

const (
	prefix   = "disinto"
	unsaved  = "disintoZ" // prefix of files being saved; with a run id it never parses as a conversation
	maxName  = 255        // of a file name, in bytes, on Linux and in llama-server
	escape   = 'Z'        // precedes the two hexadecimal digits of a byte that is not kept
	divider  = "\n"       // no part contains it
	dividers = 3
)

// File returns the name of the conversation's file, of letters and digits only; empty if the name would be too long.
func (c Conversation) File() string {
	text := strings.Join([]string{c.Chain.Repo, strconv.FormatInt(c.Chain.Number, 10), c.Agent, c.Model}, divider)
	var b strings.Builder
	b.WriteString(prefix)
	for i := range len(text) {
		if isPlain(text[i]) {
			b.WriteByte(text[i])
		} else {
			fmt.Fprintf(&b, "%c%02x", escape, text[i])
		}
	}
	if b.Len() > maxName {
		return ""
	}
	return b.String()
}

func isPlain(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c < escape
}

// parse reads a file name. ok is false for a name that File does not return.
func parse(name string) (c Conversation, ok bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	if !ours || len(name) > maxName {
		return c, false
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		if rest[i] != escape {
			b.WriteByte(rest[i])
			continue
		}
		if i+2 >= len(rest) {
			return c, false
		}
		n, err := strconv.ParseUint(rest[i+1:i+3], 16, 8)
		if err != nil {
			return c, false
		}
		b.WriteByte(byte(n))
		i += 2
	}
	parts := strings.Split(b.String(), divider)
	if len(parts) != dividers+1 {
		return c, false
	}
	number, err := strconv.ParseInt(parts[1], 10, 64)
	c = Conversation{parts[2], parts[3], forge.Ref{Repo: parts[0], Number: number}}
	return c, err == nil && c.File() == name && forge.ValidRepo(c.Chain.Repo) && number > 0
}

// Temporary returns the name under which a run saves, so that a late save overwrites nothing.
func Temporary(run string) string {
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && isPlain(byte(r)) {
			return r
		}
		return -1
	}, run)
	return unsaved + plain[max(0, len(plain)-100):]
}
