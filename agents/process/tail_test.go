package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	const secret = "token-0123456789"
	many := strings.Repeat("line\n", 30)
	tests := []struct{ name, log, want string }{
		{"empty", "", ""},
		{"one line", "hello\n", "hello"},
		{"no line feed at the end", "hello", "hello"},
		{"20 lines", many + "last\n", strings.Repeat("line\n", 19) + "last"},
		{"blank lines at the end", "hello\n\n\n", "hello"},
		{"a secret", "a " + secret + " b\n", "a [secret] b"},
		{"colour", "\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m\n", "red and green"},
		{"a title", "\x1b]0;evil\x07text\n", "text"},
		{"a title with the other terminator", "\x1b]0;evil\x1b\\text\n", "text"},
		{"a title without an end", "\x1b]0;evil\ntext\n", "\ntext"},
		{"the cursor", "a\x1b7b\x1bMc\x1b", "abc"},
		{"control characters", "a\x00b\x07c\x08d\te\n", "abcd\te"},
		{"a progress bar", "10%\r20%\r30%\r\ndone\r\n", "30%\ndone"},
		{"letters outside ASCII", "größe ✓\n", "größe ✓"},
		{"invalid UTF-8", "a\xff\xfeb\n", "a?b"},
		{"a colour inside a secret", "x \x1b[1mtoken\x1b[0m-0123456789\n", "x [secret]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := tail(path, []string{secret}); got != tt.want {
				t.Errorf("tail = %q, want %q", got, tt.want)
			}
		})
	}
	if got := tail("/nonexistent/log", nil); got != "" {
		t.Errorf("tail of a missing log = %q, want none", got)
	}
}

func TestTailIsBounded(t *testing.T) {
	const secret = "token-0123456789"
	path := filepath.Join(t.TempDir(), "log")
	// The part that is read starts within a secret, in a long line.
	log := strings.Repeat("x", 1000) + strings.Repeat(secret, 10_000) + "\n" + strings.Repeat("ä", 5000) + "\nend\n"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	got := tail(path, []string{secret})
	if len(got) > tailBytes || !strings.HasSuffix(got, "ä\nend") {
		t.Errorf("tail has %d bytes and ends with %q, want at most 4 KiB and the last lines", len(got),
			got[max(0, len(got)-20):])
	}
	if err := os.WriteFile(path, []byte(strings.Repeat(secret, 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(path, []string{secret}); strings.Contains(got, "0123456789") {
		t.Errorf("tail = %q, want no part of the secret", got)
	}
}
