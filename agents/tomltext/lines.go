package tomltext

import (
	"fmt"
	"maps"
	"strings"

	"github.com/BurntSushi/toml"
)

// Lines returns the line of each key and table of a valid TOML text, from 1. The map's keys are toml.Key.String of the
// paths. The decoder itself reports only the line of a syntax error.
//
// A table without a header, such as a in a.b = 1, has the line of its first use. In an array of tables the first
// element has the array's name, and the others are named by Element.
func Lines(text string) map[string]int {
	lines := make(map[string]int)
	times := make(map[string]int) // how often a key has a heading; more than once only for elements of arrays
	line, at := 1, 0
	for _, h := range scan(text).headings {
		line += strings.Count(text[at:h.at], "\n")
		at = h.at
		key := toml.Key(h.path)
		own := key.String()
		if times[own]++; times[own] > 1 {
			maps.DeleteFunc(times, func(k string, _ int) bool { return strings.HasPrefix(k, own+".") })
		}
		element := ""
		for n := 1; n <= len(key); n++ {
			k := key[:n].String()
			element = strings.TrimPrefix(element+"."+key[n-1:n].String(), ".")
			if times[k] > 1 {
				element = Element(element, times[k])
			}
			for _, name := range []string{k, element} {
				if lines[name] == 0 {
					lines[name] = line
				}
			}
		}
	}
	return lines
}

// Element is the name in Lines of the nth table of an array, from 2. No key has this name: a key that contains brackets
// is quoted.
func Element(array string, n int) string { return fmt.Sprintf("%s[%d]", array, n) }
