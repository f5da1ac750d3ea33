package agents

import (
	"slices"
	"strings"
)

// minSecret is the length from which a secret is looked for. Shorter ones are words of the language, and hiding them
// would make an unreadable text without hiding anything.
const minSecret = 8

// Redact is text with every occurrence of a secret replaced by a placeholder. Of two secrets that begin alike the
// longer goes first, so that no end of it stays behind. Secrets of fewer than 8 bytes are ignored.
//
// A text must be redacted before it is cut, or half a token may be left at the edge.
func Redact(text string, secrets []string) string {
	long := make([]string, 0, len(secrets))
	for _, s := range secrets {
		if len(s) >= minSecret {
			long = append(long, s)
		}
	}
	slices.SortFunc(long, func(a, b string) int { return len(b) - len(a) })
	for _, s := range long {
		text = strings.ReplaceAll(text, s, "[secret]")
	}
	return text
}
