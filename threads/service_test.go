package threads

import (
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

func TestServes(t *testing.T) {
	tests := []struct {
		ready, command, base string
		want                 bool
	}{
		{"http://127.0.0.1:8080/health", "", "http://localhost:8080/v1", true},
		{"http://127.0.0.1:8080/health", "", "http://[::1]:8080", true},
		{"http://agents:8080/health", "", "http://Agents:8080/v1", true},
		{"http://127.0.0.1:8080/health", "", "http://localhost:8081/v1", false},
		{"http://127.0.0.1:8080/health", "", "http://gpu.lan:8080/v1", false},
		{"", "--port 8080", "http://127.0.0.1:8080/v1", true},
		{"", "--port=8080", "http://127.0.0.1:8080/v1", true},
		{"", "--port", "http://127.0.0.1:8080/v1", false},
		{"", "", "http://127.0.0.1:8080/v1", false},
		{"", "", "", false},
		{"http://127.0.0.1/health", "", "http://localhost/v1", true},
	}
	for _, tt := range tests {
		s := Service{ReadyURL: tt.ready, Command: append([]string{"llama-server"}, strings.Fields(tt.command)...)}
		if got := s.Serves(tt.base); got != tt.want {
			t.Errorf("%s %s serves %s: got %v, want %v", tt.ready, tt.command, tt.base, got, tt.want)
		}
	}
}

// TestOnlyUser checks that an account is one agent's or service's own if no other one has it.
func TestOnlyUser(t *testing.T) {
	c := &Config{
		Factory: Factory{User: "shared"},
		Agents: []agents.Agent{
			{Name: "a", User: "one"},
			{Name: "b", User: "two"},
			{Name: "c", User: "two"},
			{Name: "d", User: "llama"},
		},
		Services: []Service{{Name: "s", User: "llama"}, {Name: "x", User: "alone"}},
	}
	for user, want := range map[string]bool{
		"": false, "shared": false, "one": true, "two": false, "llama": false, "alone": true, "unknown": false,
	} {
		if got := c.OnlyUser(user); got != want {
			t.Errorf("OnlyUser(%q) = %v, want %v", user, got, want)
		}
	}
}
