// Package saved keeps conversations of a local server in files while they wait: which slot has one, where it goes to,
// what its file is called, and when that is deleted. The server writes and reads the files; this machine sees their
// folder.
package saved

import (
	"fmt"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Conversation is of an agent and a model, on a chain.
type Conversation struct {
	Agent, Model string
	Chain        forge.Ref
}

const (
	prefix   = "disinto"
	unsaved  = "disintoZ" // of files that are being saved; a conversation begins with a letter or a digit
	maxName  = 255        // of a file name, in bytes: of Linux and of llama-server
	escape   = 'Z'        // stands before the two hexadecimal digits of a byte that is no letter or digit
	divider  = "\n"       // which no part has
	dividers = 3
)

// File is the name of its file, of letters and digits only; empty where that is too long.
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

// parse reads the name of a file. ok is false for one that File does not return.
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

// Temporary is the name under which a run saves: a save that a server finishes late overwrites nothing.
func Temporary(run string) string {
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && isPlain(byte(r)) {
			return r
		}
		return -1
	}, run)
	return unsaved + plain[max(0, len(plain)-100):]
}
