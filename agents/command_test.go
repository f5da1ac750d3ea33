package agents

import (
	"slices"
	"testing"
)

func TestArgv(t *testing.T) {
	d := CommandData{
		Repo: "johba/harb", Number: 12, Agent: "dev-qwen", Role: "dev", Thread: "llama", Model: "qwen 3.5", Kind: KindRework,
	}
	tests := []struct {
		name    string
		command []string
		want    []string
		err     string
	}{
		{name: "no program"},
		{name: "plain", command: []string{"sh", "-c", "true"}, want: []string{"sh", "-c", "true"}},
		{
			name:    "every field",
			command: []string{"{{.Agent}}", "{{.Repo}}#{{.Number}}", "{{.Role}}/{{.Thread}}/{{.Kind}}"},
			want:    []string{"dev-qwen", "johba/harb#12", "dev/llama/rework"},
		},
		{name: "a space makes no argument", command: []string{"x", "{{.Model}}"}, want: []string{"x", "qwen 3.5"}},
		{
			name: "condition", command: []string{"x", `{{if eq .Kind "rework"}}--resume{{end}}`},
			want: []string{"x", "--resume"},
		},
		{
			name: "an argument may be empty", command: []string{"x", `{{if eq .Kind "issue"}}y{{end}}`},
			want: []string{"x", ""},
		},
		{
			name: "a program may not", command: []string{`{{if eq .Kind "issue"}}y{{end}}`},
			err: "cannot render command of role dev: its program is empty",
		},
		{
			name: "unknown field", command: []string{"x", "{{.Title}}"},
			err: "cannot render command of role dev: unknown field .Title, want one of .Repo .Number .Issue .Agent .Role " +
				".Thread .Model .Kind",
		},
		{name: "syntax", command: []string{"x", "{{.Number"}, err: "cannot render command of role dev: unclosed action"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			role := Role{Name: "dev", Command: tt.command}
			got, err := role.Argv(d)
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckArgument(t *testing.T) {
	for _, ok := range []string{
		"", "review-pr.sh", "{{.Number}}", "{{slice .Repo 0 3}}",
		`{{if .Number}}{{.Number}}{{else}}all{{end}}`,
	} {
		if err := CheckArgument(ok); err != nil {
			t.Errorf("CheckArgument(%q): %v", ok, err)
		}
	}
	for text, want := range map[string]string{
		"{{.number}}": "unknown field .number, want one of .Repo .Number .Issue .Agent .Role .Thread .Model .Kind",
		// The error is found although only one kind of item, or an item without a number, reaches this branch.
		`{{if eq .Kind "rework"}}{{.Nope}}{{end}}`: "unknown field .Nope, want one of .Repo .Number .Issue .Agent .Role " +
			".Thread .Model .Kind",
		`{{if .Number}}{{else}}{{.Nope}}{{end}}`: "unknown field .Nope, want one of .Repo .Number .Issue .Agent .Role " +
			".Thread .Model .Kind",
		"{{.Number}": "bad character U+007D '}'",
		"{{nope}}":   "function \"nope\" not defined",
	} {
		if err := CheckArgument(text); err == nil || err.Error() != want {
			t.Errorf("CheckArgument(%q): %v, want %s", text, err, want)
		}
	}
}
