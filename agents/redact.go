package agents

import (
	"slices"
	"strings"
)

// minSecret is the minimum length of a secret, in bytes, that is searched for inside a text. Shorter secrets are
// ordinary words: hiding them would make the text unreadable and protect nothing.
const minSecret = 8

// Redact replaces every occurrence of a secret in text with a placeholder. Where two secrets overlap, one placeholder
// covers both. Secrets of fewer than 8 bytes are ignored.
//
// Redact a text before cutting it: a cut can leave half a token, which is then not recognised.
func Redact(text string, secrets []string) string {
	hidden := cover(text, secrets)
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

// cover marks every byte of text that is part of a secret.
func cover(text string, secrets []string) []bool {
	hidden := make([]bool, len(text))
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		for from := 0; ; from++ {
			i := strings.Index(text[from:], s)
			if i < 0 {
				break
			}
			from += i
			for j := from; j < from+len(s); j++ {
				hidden[j] = true
			}
		}
	}
	return hidden
}

// Redactor removes secrets from a text that arrives in pieces: a secret can begin in one piece and end in a later one.
// Create it with NewRedactor. It is not safe for concurrent use.
type Redactor struct {
	secrets []string
	held    string // the end of the text so far, which may begin a secret
}

// NewRedactor returns a Redactor that hides these secrets. Secrets of fewer than 8 bytes are ignored.
func NewRedactor(secrets []string) *Redactor {
	r := new(Redactor)
	r.Hide(secrets)
	return r
}

// Hide makes the Redactor hide other secrets from now on.
func (r *Redactor) Hide(secrets []string) {
	r.secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minSecret })
}

// Next accepts a piece and returns the text that is safe to show. It holds back only text that may begin a secret, so
// that a reader who follows a log sees its last line.
func (r *Redactor) Next(piece string) string {
	text := r.held + piece
	cut := r.safe(text)
	r.held = text[cut:]
	return Redact(text[:cut], r.secrets)
}

// Held returns the length of the text that is held back.
func (r *Redactor) Held() int { return len(r.held) }

// End returns the text that is still held back. Call it once, after the last piece.
func (r *Redactor) End() string {
	rest := r.held
	r.held = ""
	return Redact(rest, r.secrets)
}

// safe returns the length of the part of text that no secret can overlap, however the text continues.
func (r *Redactor) safe(text string) int {
	cut := len(text)
	for _, s := range r.secrets {
		for n := min(len(s)-1, len(text)); n > len(text)-cut; n-- {
			if strings.HasSuffix(text, s[:n]) {
				cut = len(text) - n
			}
		}
	}
	if cut < len(text) {
		hidden := cover(text, r.secrets)
		for hidden[cut] && cut > 0 && hidden[cut-1] { // a whole secret spans the cut
			cut--
		}
	}
	return cut
}
