package supervisor

import (
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// The label blocked and its comment say which line would allow what the sessions were refused.
func TestGaveUpAllows(t *testing.T) {
	c := &chore{mark: threads.Mark{
		Item:   threads.Item{Kind: agents.KindIssue, Chain: forge.Ref{Repo: "johba/harb", Number: 1}},
		Reason: threads.Reason{Code: threads.GaveUp, Count: 5},
	}}
	const line = `egress = ["evil.example:443"]`
	if said := c.gaveUp() + gaveUpComment(c).body; strings.Contains(said, "factory.toml") {
		t.Errorf("without refusals: %s", said)
	}
	c.failure.Allow = line
	for _, said := range []string{c.gaveUp(), gaveUpComment(c).body} {
		if !strings.Contains(said, line) {
			t.Errorf("no line in: %s", said)
		}
	}
}
