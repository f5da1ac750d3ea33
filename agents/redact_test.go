package agents

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	tests := []struct {
		name    string
		text    string
		secrets []string
		want    string
	}{
		{"nothing to hide", "all is well", nil, "all is well"},
		{"empty text", "", []string{"0123456789"}, ""},
		{"empty secret", "all is well", []string{""}, "all is well"},
		{"every occurrence", "a 0123456789 b 0123456789", []string{"0123456789"}, "a [secret] b [secret]"},
		{"in an address", "https://dev:0123456789@forge/", []string{"0123456789"}, "https://dev:[secret]@forge/"},
		{"whole text", "0123456789", []string{"0123456789"}, "[secret]"},
		{"too short to be a secret", "the root folder", []string{"root", "folder!"}, "the root folder"},
		{"8 bytes are enough", "x12345678x", []string{"12345678"}, "x[secret]x"},
		{"beginning of another, short first", "token-0001-long", []string{"token-0001", "token-0001-long"}, "[secret]"},
		{"beginning of another, long first", "token-0001-long", []string{"token-0001-long", "token-0001"}, "[secret]"},
		{"overlapping", "<abcdefghijkl>", []string{"abcdefgh", "efghijkl"}, "<[secret]>"},
		{"overlapping itself", "<abcabcabcabc>", []string{"abcabcabc"}, "<[secret]>"},
		{"side by side", "abcdefgh01234567.", []string{"abcdefgh", "01234567"}, "[secret]."},
		{"bytes that are not letters", "k\xff\x00\xfe12345z", []string{"\xff\x00\xfe12345"}, "k[secret]z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Redact(tt.text, tt.secrets); got != tt.want {
				t.Errorf("Redact(%q, %q) = %q, want %q", tt.text, tt.secrets, got, tt.want)
			}
		})
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("a token-0001-long b", "token-0001", "1-long b")
	f.Fuzz(func(t *testing.T, text, one, two string) {
		got := Redact(text, []string{one, two})
		for _, s := range []string{one, two} {
			// The placeholder itself may contain a secret such as "[secret]"; nothing else may.
			if len(s) >= minSecret && strings.Contains(strings.ReplaceAll(got, "[secret]", "\x00"), s) &&
				!strings.Contains(s, "\x00") {
				t.Errorf("Redact(%q) = %q, which contains the secret %q", text, got, s)
			}
		}
	})
}
