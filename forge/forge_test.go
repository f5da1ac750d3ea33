package forge

import (
	"strings"
	"testing"
)

// A person names an issue by its number, in full, or by the address that the browser shows.
func TestParseRef(t *testing.T) {
	for said, want := range map[string]string{
		"12":                                 "johba/harb#12",
		"#12":                                "johba/harb#12",
		"o/r#12":                             "o/r#12",
		"johba/r.x#":                         "",
		"0":                                  "",
		"#-1":                                "",
		"twelve":                             "",
		"12;rm":                              "",
		"http://localhost:3000/o/r/issues/5": "o/r#5",
		"https://git.example.org/git/o/r/pulls/5/files":            "o/r#5",
		"https://git.example.org/o/r/issues/5?x=1#issuecomment-77": "o/r#5",
		"https://git.example.org/o/r/src/branch/main/issues/5a":    "",
		"https://git.example.org/issues/5":                         "",
		"https://git.example.org/o/../issues/5":                    "",
		"https://git.example.org/o/r/issues/99999999999999999999":  "",
		"javascript://git.example.org/o/r/issues/5":                "",
	} {
		ref, err := ParseRef(said, "johba/harb")
		if err != nil {
			ref = Ref{}
		}
		if got := ref.String(); got != want && !(want == "" && err != nil) {
			t.Errorf("ParseRef(%q) = %s, want %q", said, got, want)
		}
	}
}

// StolenFrom's label names the host that an issue was moved from. A forge must accept it whatever the host is called.
func TestStolenFrom(t *testing.T) {
	for host, want := range map[string]string{
		"iris": "fleet:iris:stolen", "iris.lan": "fleet:iris.lan:stolen", "a b/ü\n:": "fleet:a-b----:stolen",
		strings.Repeat("x", 64): "fleet:" + strings.Repeat("x", 37) + ":stolen",
	} {
		if got := StolenFrom(host); got != want || len(got) > 50 {
			t.Errorf("StolenFrom(%q) = %q, want %q", host, got, want)
		}
	}
}
