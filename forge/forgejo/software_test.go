package forgejo

import (
	"strings"
	"testing"
)

// softwareOf recognises the software by its version. If the version is too old, the error names the oldest supported
// one.
func TestSoftware(t *testing.T) {
	tests := []struct{ version, name string }{
		{"10.0.0-dev-1554-5e777a43a1+gitea-1.22.0", "Forgejo"},
		{"7.0.0+gitea-1.21.11", "Forgejo"},
		{"15.0.1+gitea-1.22.0", "Forgejo"},
		{"1.23.6", "Gitea"},
		{"1.23.8", "Gitea"},
		{"1.25.0+dev-17-g1234567", "Gitea"},
		{"1.22.6", ""},
		{"1.21.11+1", ""}, // a Forgejo that still used Gitea's version numbers
		{"0.9", ""},
		{"", ""},
		{"development", ""},
	}
	for _, tt := range tests {
		got, err := softwareOf("http://forge.test", tt.version)
		if got.Name != tt.name || (err == nil) != (tt.name != "") {
			t.Errorf("%q: got %q, %v; want %q", tt.version, got.Name, err, tt.name)
		}
		if err != nil && !strings.HasSuffix(err.Error(), "update it to Forgejo 7 or Gitea 1.23, or later") {
			t.Errorf("%q: got %v, want the oldest supported versions", tt.version, err)
		}
	}
}
