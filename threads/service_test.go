package threads

import (
	"strings"
	"testing"
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
			t.Errorf("%s %s serves %s: %v", tt.ready, tt.command, tt.base, got)
		}
	}
}
