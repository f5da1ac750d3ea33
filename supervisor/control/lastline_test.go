package control

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLastLine(t *testing.T) {
	const secret = "a-secret-of-ours"
	tests := []struct{ name, text, want string }{
		{"empty", "", ""},
		{"one", "loading\n", "loading"},
		{"without a line break", "loading\nready", "ready"},
		{"blank lines after it", "ready\n\n \n", "ready"},
		{"a secret", "token " + secret + "\n", "token [secret]"},
		{"a coloured secret", "\x1b[1ma-secret\x1b[0m-of-ours\n", "[secret]"},
		{"control", "a\x1b]0;title\x07b\x00c\n", "abc"},
		{"no UTF-8", "a\xffb\n", "a?b"},
		{"long", strings.Repeat("é", 300) + "\n", strings.Repeat("é", 200) + "..."},
		{"longer than what is read", strings.Repeat("x", 8<<10), ""},
		{"the last of many", strings.Repeat("line\n", 4<<10) + "last\n", "last"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := LastLine(path, []string{secret}); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, pipe + "-missing", filepath.Dir(pipe)} {
		if got := LastLine(path, nil); got != "" {
			t.Errorf("%s: got %q, want none", path, got)
		}
	}
}
