package nomad

import "testing"

// Nomad says of some constraints what a node has to have, and of others what it misses.
func TestFailureReadsAsASentence(t *testing.T) {
	f := failure{
		ConstraintFiltered: map[string]int{"${meta.llama} = box1": 1, "missing compatible host volumes": 2},
		DimensionExhausted: map[string]int{"memory": 3},
	}
	const want = "no node takes it: 1 without ${meta.llama} = box1, 2 without compatible host volumes, " +
		"3 without enough memory"
	if got := f.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
