package agents

import "strings"

// minSecret is the length in bytes from which a secret is looked for. Shorter ones are words of the language, and
// hiding them would make an unreadable text without hiding anything.
const minSecret = 8

// Redact is text with every occurrence of a secret replaced by a placeholder. Secrets that overlap in the text, or of
// which one is the beginning of another, are hidden together: no end of either stays behind. Secrets of fewer than 8
// bytes are ignored.
//
// A text must be redacted before it is cut, or half a token may be left at the edge.
func Redact(text string, secrets []string) string {
	hidden := make([]bool, len(text))
	for _, s := range secrets {
		if len(s) >= minSecret {
			hide(hidden, text, s)
		}
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && hidden[j] == hidden[i] {
			j++
		}
		if hidden[i] {
			b.WriteString("[secret]")
		} else {
			b.WriteString(text[i:j])
		}
		i = j
	}
	return b.String()
}

// hide marks every byte that an occurrence of the secret covers.
func hide(hidden []bool, text, secret string) {
	for from := 0; ; {
		i := strings.Index(text[from:], secret)
		if i < 0 {
			return
		}
		i += from
		for j := i; j < i+len(secret); j++ {
			hidden[j] = true
		}
		from = i + 1
	}
}
