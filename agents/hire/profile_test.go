package hire

import (
	"strings"
	"testing"
)

// Capabilities are the configured skills, else the role and the model, until the agent or a person edits them.
func TestCapabilities(t *testing.T) {
	const head = "# mine\nname = \"dev-qwen\"\n"
	for _, tt := range []struct {
		name, now, role, model string
		skills                 []string
		want                   string
	}{
		{"new", "", "dev", "qwen3.5", nil, `["dev", "qwen3.5"]`},
		{"new without a model", "", "dev", "", nil, `["dev"]`},
		{"new with skills", "", "dev", "qwen3.5", []string{"go", "sql"}, `["go", "sql"]`},
		{"of an earlier version", head + "capabilities = []\n", "dev", "qwen3.5", nil, `["dev", "qwen3.5"]`},
		{
			"another model", head + "role = \"dev\"\nmodel = \"old\"\ncapabilities = [\"dev\", \"old\"]\n", "dev", "new", nil,
			`["dev", "new"]`,
		},
		{"its own", head + "role = \"dev\"\nmodel = \"old\"\ncapabilities = [\"tea\"]\n", "dev", "new", nil, `["tea"]`},
		{"its own, and skills", head + "capabilities = [\"tea\"]\n", "dev", "new", []string{"go"}, `["go"]`},
		{"odd", head + "capabilities = \"tea\"\n", "dev", "new", nil, `["dev", "new"]`},
	} {
		h := &Hire{Entry: Entry{Name: "dev-qwen", Thread: "llama", Role: tt.role, Model: tt.model, Skills: tt.skills}}
		got := h.profileText(tt.now)
		if !strings.Contains(got, "\ncapabilities = "+tt.want+"\n") || strings.Count(got, "capabilities") != 1 {
			t.Errorf("%s: got the profile %s, want the capabilities %s", tt.name, got, tt.want)
		}
		if again := h.profileText(got); again != got {
			t.Errorf("%s: a second call changes the profile to\n%s", tt.name, again)
		}
	}
}
