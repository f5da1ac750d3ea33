package screen

import (
	"strings"
	"testing"
)

func TestCleaner(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"lines", "one\ntwo\tthree\n", "one\ntwo\tthree\n"},
		{"colour", "\x1b[1;31mred\x1b[0m\n", "red\n"},
		{"cursor", "\x1b[2J\x1b[H\x1b[10;10Hx", "x"},
		{"window title", "a\x1b]0;evil\ab\x1b]8;;http://x\x1b\\c", "abc"},
		{"sequences that make the terminal type", "\x1bP+q544e\x1b\\x\x1b[c", "x"},
		{"an unterminated string", "a\x1b]0;evil\nb\n", "ab\n"},
		{"character sets", "\x1b(0x\x1b)B", "x"},
		{"keypad", "\x1b=x\x1b>y\x1b7z", "xyz"},
		{"an eight-bit control", "a\u009b31mb", "a31mb"},
		{"bytes that are no character", "a\xff\x9bb", "a\ufffd\ufffdb"},
		{"bell, backspace", "a\a\b\x7fb", "ab"},
		{"a progress bar", "10%\r50%\r100%\r\ndone\n", "10%\n50%\n100%\ndone\n"},
		{"overwritten text", "rm -rf /\rls\n", "rm -rf /\nls\n"},
		{"right to left", "a\u202eb\u2066c", "abc"},
		{"other writings", "größe 日本 🙂\n", "größe 日本 🙂\n"},
	} {
		for n := 1; n <= len(tt.text); n++ {
			var b strings.Builder
			c := &Cleaner{W: &b}
			for rest := []byte(tt.text); len(rest) > 0; {
				n := min(n, len(rest))
				if got, err := c.Write(rest[:n]); got != n || err != nil {
					t.Fatalf("Write: got %d, %v, want %d, nil", got, err, n)
				}
				rest = rest[n:]
			}
			if b.String() != tt.want {
				t.Errorf("%s, in pieces of %d bytes: got %q, want %q", tt.name, n, b.String(), tt.want)
				break
			}
		}
	}
}

// Only printable characters, line breaks and tabs pass a Cleaner.
func FuzzCleaner(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b]0;x\a\x9b\xc2\x9b"), 3)
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		if n < 1 {
			return
		}
		var b strings.Builder
		c := &Cleaner{W: &b}
		for len(text) > 0 {
			n := min(n, len(text))
			if _, err := c.Write(text[:n]); err != nil {
				t.Fatal(err)
			}
			text = text[n:]
		}
		for _, r := range b.String() {
			if r != '\n' && r != '\t' && !printable(r) {
				t.Errorf("the Cleaner passed %q", r)
			}
		}
	})
}
