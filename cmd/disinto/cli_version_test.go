package main

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	for stamp, want := range map[string]string{ // the versions that the Go tool derives from git
		"": "devel", "(devel)": "devel", "v0.2.0": "0.2.0", "v0.2.0+dirty": "0.2.0+dirty", "v0.3.0-rc.1": "0.3.0-rc.1",
		"v0.0.0-20261122134411-5352768cd1ca":              "5352768cd1ca",
		"v0.0.0-20261122134411-5352768cd1ca+dirty":        "5352768cd1ca+dirty",
		"v0.2.1-0.20261122134411-5352768cd1ca":            "5352768cd1ca",
		"v0.3.0-rc.1.0.20261122134411-5352768cd1ca+dirty": "5352768cd1ca+dirty",
	} {
		if got := versionOf(&debug.BuildInfo{Main: debug.Module{Version: stamp}}); got != want {
			t.Errorf("%q: got %q, want %q", stamp, got, want)
		}
	}
}

// An upgrade to an older release says that it was downgraded.
func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"0.9.3", "0.10.0", true},
		{"0.10.0", "0.9.3", false},
		{"0.10.0", "0.10.0", false},
		{"0.9.3+dirty", "1.0.0", true},
		{"1.0.0", "0.9.3-rc.1", false},
		{"0123456789ab", "0.9.3", false},
		{"devel", "0.9.3", false},
	} {
		if got := older(tt.a, tt.b); got != tt.want {
			t.Errorf("older(%q, %q) = %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}
