package agents

import (
	"strings"
	"testing"
)

// inPieces redacts a text that arrives n bytes at a time.
func inPieces(text string, n int, secrets []string) string {
	r := NewRedactor(secrets)
	var b strings.Builder
	for len(text) > 0 {
		n := min(n, len(text))
		b.WriteString(r.Next(text[:n]))
		text = text[n:]
	}
	return b.String() + r.End()
}

// together merges adjacent placeholders, because Redact shows one for secrets that touch.
func together(text string) string {
	for strings.Contains(text, "[secret][secret]") {
		text = strings.ReplaceAll(text, "[secret][secret]", "[secret]")
	}
	return text
}

func TestRedactor(t *testing.T) {
	secrets := []string{"abcdefgh", "efghijklmnop", "abcdefgh12345", "aaaabaaaab", "short", ""}
	for _, text := range []string{
		"nothing in it", "abcdefgh", "x abcdefgh y", "abcdefghijklmnop", "abcdefgh12345", "abcdefgh1234x", "abcdefg",
		"aaaabaaaabaaaab",
		"aaaabaaaabaaaa", "abcdefghabcdefgh", "short", "efghijklmnoabcdefgh", strings.Repeat("abcdefgh12345", 20),
	} {
		want := together(Redact(text, secrets))
		for n := 1; n <= len(text); n++ {
			if got := together(inPieces(text, n, secrets)); got != want {
				t.Errorf("%q in pieces of %d bytes: got %q, want %q", text, n, got, want)
			}
		}
	}
}

// Text that cannot begin a secret is shown at once.
func TestRedactorHoldsLittle(t *testing.T) {
	r := NewRedactor([]string{"secretsecret"})
	for _, tt := range []struct{ piece, want string }{
		{"Running", "Running"},
		{" tests: ok, s", " tests: ok, "},
		{"uper", "super"},
		{"secret", ""},
		{"secret!", "[secret]!"},
	} {
		if got := r.Next(tt.piece); got != tt.want {
			t.Errorf("Next(%q) = %q, want %q", tt.piece, got, tt.want)
		}
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("x abcdefgh y", "abcdefgh", "efghabcdefgh", 3)
	f.Add("aaaaaaaaaaaaaaaaaa", "aaaaaaaa", "aaaaaaaaaaab", 1)
	f.Fuzz(func(t *testing.T, text, a, b string, n int) {
		if n < 1 || len(text) > 200 || strings.ContainsAny(text+a+b, "[]") {
			return
		}
		secrets := []string{a, b}
		if got, want := together(inPieces(text, n, secrets)), together(Redact(text, secrets)); got != want {
			t.Errorf("%q in pieces of %d bytes with the secrets %q: got %q, want %q", text, n, secrets, got, want)
		}
	})
}
