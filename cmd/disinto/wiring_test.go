package main

import "testing"

// The first of a registry counts, unless a variable names another.
func TestRegistry(t *testing.T) {
	r := registry[int]{{"one", 1}, {"two", 2}}
	for name, want := range map[string]int{"": 1, "one": 1, "two": 2} {
		got, err := r.choose("X", func(string) (string, bool) { return name, name != "" })
		if got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", name, got, err, want)
		}
	}
	_, err := r.choose("DISINTO_EXECUTOR", func(string) (string, bool) { return "magic", true })
	if want := `$DISINTO_EXECUTOR: there is no "magic", want one, two`; exitCode(err) != exitUsage || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}
