package threads

import (
	"fmt"
	"slices"
	"strings"
)

// Suggest completes a message about an unknown word: ", did you mean X?", or "" when no known word is close.
func Suggest(word string, words []string) string {
	best, far := "", max(1, min(len(word), 40)/3)+1
	for _, w := range slices.Sorted(slices.Values(words)) {
		if d := distance(strings.ToLower(word), w); d < far {
			best, far = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", best)
}

// SuggestName completes a message about a name that no agent and no thread has.
func (c *Config) SuggestName(name string) string {
	var known []string
	for i := range c.Agents {
		known = append(known, c.Agents[i].Name)
	}
	for i := range c.Threads {
		known = append(known, c.Threads[i].Name)
	}
	return Suggest(name, known)
}

// distance returns how many letters must be added, removed, changed or swapped with a neighbour to turn a into b.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	var d [41][41]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(change, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
