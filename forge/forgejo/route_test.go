package forgejo

import (
	"strings"
	"testing"
)

func TestRoute(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/repos/o/r":                              "GET /repos/*/*",
		"/api/v1/repos/issues/pulls/issues/12":           "GET /repos/*/*/issues/*",
		"/api/v1/repos/o/r/issues/12/timeline":           "GET /repos/*/*/issues/*/timeline",
		"/api/v1/repos/o/r/issues/comments/12":           "GET /repos/*/*/issues/comments/**",
		"/api/v1/repos/o/r/branches/a/branches/issues/1": "GET /repos/*/*/branches/**",
		"/api/v1/repos/o/r/contents/issues/1/pulls":      "GET /repos/*/*/contents/**",
		"/forge/api/v1/repos/o/r/commits/abc/status":     "GET /repos/*/*/commits/*/status",
		"/api/v1/user":              "GET /user",
		"/o/r.git/git-receive-pack": "GET /*/*/git-receive-pack",
		"/api/v1/" + strings.Repeat("issues/", 1000) + "end": "GET other",
		"": "GET other",
	} {
		if got := route("GET", path); got != want {
			t.Errorf("%.60s: %s, want %s", path, got, want)
		}
	}
}
