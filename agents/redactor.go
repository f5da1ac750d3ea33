package agents

import "strings"

// Redactor is Redact for a text that comes in pieces: a secret may begin in one and end in a later one. Make it with
// NewRedactor. It is for one goroutine.
type Redactor struct {
	secrets []string
	held    string // the end of what came, which may be the beginning of a secret
}

// NewRedactor hides these secrets. Those of fewer than 8 bytes are ignored.
func NewRedactor(secrets []string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) >= minSecret {
			r.secrets = append(r.secrets, s)
		}
	}
	return r
}

// Next takes a piece and returns what can be shown by now. Only what may turn out to be a secret is kept back, so that
// who follows a log sees all of its last line.
func (r *Redactor) Next(piece string) string {
	text := r.held + piece
	cut := r.safe(text)
	r.held = text[cut:]
	return Redact(text[:cut], r.secrets)
}

// End returns the rest, when no further piece comes.
func (r *Redactor) End() string {
	rest := r.held
	r.held = ""
	return Redact(rest, r.secrets)
}

// safe is how much of a text shows nothing of a secret that goes on behind it.
func (r *Redactor) safe(text string) int {
	cut := len(text)
	for _, s := range r.secrets {
		for n := min(len(s)-1, len(text)); n > len(text)-cut; n-- {
			if strings.HasSuffix(text, s[:n]) {
				cut = len(text) - n
			}
		}
	}
	if cut == len(text) {
		return cut
	}
	// A secret that lies across the cut must not be torn.
	hidden := make([]bool, len(text))
	for _, s := range r.secrets {
		hide(hidden, text, s)
	}
	for hidden[cut] && cut > 0 && hidden[cut-1] {
		cut--
	}
	return cut
}
