package worlds

import (
	"testing"
)

// TestEvilAgents plays each trick, and all of them mixed, in worlds without people. The invariants bound the sessions
// of an issue and those of a day on what an agent opened.
func TestEvilAgents(t *testing.T) {
	for _, trick := range append([]string{""}, names()...) {
		most := 0
		for n := range uint64(sized(40, 1)) {
			s, err := PlayEvil(n, trick, nil)
			if err != nil {
				t.Errorf("%q: %v", trick, err)
			}
			most = max(most, s.Sessions)
		}
		if most < 6 {
			t.Errorf("%q: %d sessions are too few for an attack", trick, most)
		}
		t.Logf("%q: %d sessions at most in 30 hours", trick, most)
	}
}

func names() (list []string) {
	for _, trick := range tricks {
		list = append(list, trick.name)
	}
	return list
}
