package threads

import (
	"fmt"
	"strings"
)

// Clip returns the start of a text, at most so many characters with the ellipsis that stands for the rest.
func Clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// sentence joins names in English: "a, b and c".
func sentence(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// count returns a number with its noun: "1 slot" or "2 slots".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
