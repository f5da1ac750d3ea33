package control

import (
	"slices"
	"testing"
)

func TestFaults(t *testing.T) {
	const two = `f.toml:12: unknown key "slotz"; f.toml:19: agent "a" is in two threads`
	first := []string{`f.toml:12: unknown key "slotz"`, `f.toml:19: agent "a" is in two threads`}
	tests := []struct {
		name string
		d    Document
		want []string
	}{
		{"well", Document{Config: ConfigDocument{Path: "f.toml", Generation: 1}, Forge: ForgeDocument{OK: true}}, nil},
		{
			"a bad reload",
			Document{Config: ConfigDocument{"f.toml", 2, two}},
			append(slices.Clone(first), "until that is corrected, the configuration before it stays in force"),
		},
		{
			"never a valid file",
			Document{Config: ConfigDocument{"f.toml", 0, two}},
			append(slices.Clone(first), "nothing starts until that is corrected"),
		},
		{
			"an outage, an alarm and a problem",
			Document{
				Forge: ForgeDocument{Error: "cannot reach the forge"}, Alarms: []AlarmDocument{{Words: "main is red"}},
				Problems: []string{"disk"},
			},
			[]string{"cannot reach the forge", "main is red", "disk"},
		},
		{"an outage that ended", Document{Forge: ForgeDocument{OK: true, Error: "old"}}, nil},
	}
	for _, tt := range tests {
		if got := tt.d.Faults(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
