package sim

import "testing"

// An unknown table is one mistake, and not one more for each of its keys; the same key of two tables is one, too.
func TestLoadUnknownKeys(t *testing.T) {
	for text, want := range map[string]string{
		"[extra]\na = 1\nb = { c = 1 }\n[[issues]]\nper_day = 1\n":                  "extra",
		"[[issues]]\nper_day = 1\nmin = 1\n[[issues]]\nper_day = 1\nmin = 2\n":      "issues.min",
		"[[issues]]\nper_day = 1\n[[issue]]\nper_day = 1\n[[issue]]\nper_day = 2\n": "issue",
	} {
		_, err := DecodeLoad("load.toml", text, fleet(1, 0, 0))
		if err == nil || err.Error() != "load.toml: unknown key "+want {
			t.Errorf("%q: got %v, want only the unknown key %s", text, err, want)
		}
	}
}
