package agents

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An executor on another machine writes some variables where other accounts can read them. None of those holds a
// secret, and the two parts together hold every variable.
func TestApart(t *testing.T) {
	e := session()
	e.Backend = "anthropic"
	e.EnvAllow, e.Role.EnvAllow = []string{"GITHUB_*"}, []string{"AWS_REGION"}
	base := []string{
		"PATH=/bin", "LANG=C", "ANTHROPIC_API_KEY=sk-1", "GITHUB_TOKEN=gh", "AWS_REGION=eu",
		"HTTPS_PROXY=http://u:pw@proxy:3128",
		"HTTP_PROXY=http://proxy:3128", "NOTE=with " + e.Agent.Token.Reveal() + " in it", "EMPTY_KEY=",
	}
	all := Environ(base, e)
	open, secrets := e.Apart(all)
	if diff := cmp.Diff(all, slices.Sorted(slices.Values(slices.Concat(open, secrets)))); diff != "" {
		t.Errorf("together (-all +parts):\n%s", diff)
	}
	var names []string
	for _, entry := range secrets {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	want := []string{"ANTHROPIC_API_KEY", "AWS_REGION", "FORGE_TOKEN", "GITHUB_TOKEN", "HTTPS_PROXY", "NOTE"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if text := strings.Join(open, "\n"); strings.Contains(text, e.Agent.Token.Reveal()) {
		t.Errorf("a token is open: %s", text)
	}
}
