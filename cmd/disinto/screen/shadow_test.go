package screen

import (
	"strings"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

func TestShadowInWhy(t *testing.T) {
	const line = "shadow v1.3.0 on johba/harb#17: it would do nothing; in charge: hold it: blocked"
	ex := &threads.Explanation{
		Repo: "johba/harb", Number: 17, Verdict: "blocked by johba/harb#12",
		Code: "blocked", Shadow: line,
	}
	for name, show := range map[string]func(*threads.Explanation) string{
		"why": View{Now: noon}.Why, "why --all": View{Now: noon}.WhyAll,
	} {
		short := "shadow v1.3.0 on #17: it would do nothing; in charge: hold it: blocked"
		if text := show(ex); !strings.Contains(text, short) && !strings.Contains(text, line) {
			t.Errorf("%s: got no line about the shadow in\n%s", name, text)
		}
	}
}

func TestShadowLine(t *testing.T) {
	yesterday := []control.Shadow{{Day: "2026-11-02", Decisions: 9, Differing: 9, Differences: 9}}
	for want, d := range map[string]control.ShadowDocument{
		"/opt/new has not been asked yet": {Path: "/opt/new"},
		"v2 /opt/new decides the same: 0 decisions today": {
			Path: "/opt/new", Version: "v2", AskedAt: noon,
			Days: yesterday,
		},
		"/opt/new does not answer: no such file": {Path: "/opt/new", Error: "no such file", Days: yesterday},
		"v2 /opt/new does not answer: ended after its timeout": {
			Path: "/opt/new", Version: "v2",
			Error: "ended after its timeout",
		},
		"v2 /opt/new decides otherwise: 1 difference today, in 1": {
			Path: "/opt/new", Version: "v2", AskedAt: noon,
			Days: []control.Shadow{{Day: "2026-11-03", Decisions: 2, Differing: 1, Differences: 1}},
		},
	} {
		if got := d.Line(noon); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
