package threads

import (
	"fmt"
	"strings"
)

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
