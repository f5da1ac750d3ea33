package agents

import (
	"slices"
	"testing"
)

func TestCredentials(t *testing.T) {
	environ := []string{
		"PATH=/usr/bin:/usr/local/bin", "FORGE_TOKEN=0123456789abcdef", "OPENAI_API_KEY=sk-live-0123456789",
		"ANTHROPIC_API_KEY=none", "CLAUDE_CODE_OAUTH_TOKEN=sk-no-key", "LLAMA_KEY=sk-no-key-required", "A_TOKEN=ollama",
		"PGURL=postgres://u:hunter2hunter2@h/db", "MAX_THINKING_TOKENS=100000000000", "ANTHROPIC_MODEL=claude-sonnet-4-5",
		"SHORT_TOKEN=12345678",
	}
	var names []string
	all := Credentials(environ)
	for _, s := range all {
		names = append(names, s.Name)
	}
	if want := []string{"FORGE_TOKEN", "OPENAI_API_KEY", "PGURL", "SHORT_TOKEN"}; !slices.Equal(names, want) {
		t.Errorf("got the credentials %q, want %q", names, want)
	}
	var values []string
	for _, s := range all {
		values = append(values, s.Value.Reveal())
	}
	got := RedactPost("0123456789abcdef, sk-live-0123456789 and 12345678", append(values, "sk-no-key-required"))
	if want := "[secret], [secret] and 12345678"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if text := "sk-no-key-required"; RedactPost(text, []string{text}) != text {
		t.Error("a placeholder is hidden")
	}
}

// The name of a model and a placeholder stay readable; what an operator allows by another name is hidden.
func TestHiddenValues(t *testing.T) {
	got := HiddenValues([]string{
		"ANTHROPIC_MODEL=claude-sonnet-4-5", "OPENAI_BASE_URL=http://h/v1", "OPENAI_API_KEY=sk-live-0123456789",
		"ANTHROPIC_API_KEY=sk-no-key-required", "OPENAI_PROXY=http://u:hunter2@h", "PIN=12345678",
	})
	if want := []string{"sk-live-0123456789", "http://u:hunter2@h", "12345678"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
