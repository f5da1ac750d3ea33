package nomad

import (
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// For some constraints Nomad reports what a node must have, for others what it lacks.
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
	// Of several nodes of the same class, Nomad checks one.
	f = failure{ConstraintFiltered: map[string]int{"${meta.llama} = box1": 1, "computed class ineligible": 4}}
	if got := f.String(); got != "no node takes it: 1 without ${meta.llama} = box1" {
		t.Error(got)
	}
	if got := (failure{}).String(); got != "no node takes it: none is ready" {
		t.Error(got)
	}
}

// TestUnfit: a session is not submitted if no node meets its rules. It is submitted if the nodes lack room or are not
// ready, because that can change in a moment.
func TestUnfit(t *testing.T) {
	onBoth(t, func(b *bench) {
		why := func(rules ...agents.NodeRule) string {
			why, err := b.exec.Unfit(b.Context(), rules)
			if err != nil {
				b.Error(err)
			}
			return why
		}
		if got := why(); got != "" {
			b.Errorf("Unfit without a rule = %q, want \"\"", got)
		}
		got := why(agents.NodeRule{Attribute: "meta.llama", Value: "box9"})
		if got != b.nodes()+" without ${meta.llama} = box9" {
			b.Errorf("Unfit with a rule that no node satisfies = %q", got)
		}
		if b.fake == nil {
			return
		}
		b.fake.SetFull(true)
		if got := why(); got != "" {
			b.Errorf("Unfit without room = %q, want \"\"", got)
		}
		b.fake.Disconnect("box1", false)
		b.fake.Disconnect("box2", false)
		if got := why(); got != "" {
			b.Errorf("Unfit without a node = %q, want \"\"", got)
		}
		b.net.setDown(true)
		if got, err := b.exec.Unfit(b.Context(), nil); got != "" || err == nil {
			b.Errorf("Unfit without a server = %q, %v, want an error", got, err)
		}
	})
}
