package session

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge/rest"
)

// The log of a check is asked of the forge alone, whatever host the status names, and only where Forgejo Actions has it.
func TestCheckLog(t *testing.T) {
	long := strings.Repeat("a line of the build\n", 1000) + "FAIL: the last line\n"
	forge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a/b/actions/runs/7/jobs/0/logs":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, "compile\nFAIL: TestTea\n")
		case "/a/b/actions/runs/8/jobs/1/attempt/2/logs":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, long)
		case "/a/b/actions/runs/9/jobs/0/logs":
			http.Redirect(w, r, "/user/login", http.StatusSeeOther)
		case "/user/login":
			fmt.Fprint(w, "<html>sign in</html>")
		default:
			t.Errorf("asked for %s", r.URL.Path)
			http.NotFound(w, r)
		}
	}))
	defer forge.Close()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked for %s", r.URL.Path)
	}))
	defer other.Close()
	s := &session{Program: &Program{Out: t.Output()}, api: &rest.API{URL: forge.URL, Token: "t"}}
	s.Repo = "a/b"
	for target, want := range map[string]string{
		"/a/b/actions/runs/7/jobs/0":                             "compile\nFAIL: TestTea\n",
		other.URL + "/a/b/actions/runs/7/jobs/0":                 "compile\nFAIL: TestTea\n", // the forge by its public name
		"/x/y/actions/runs/7/jobs/0":                             "",
		"/a/b/actions/runs/9/jobs/0":                             "", // a private repository: its page wants a person to sign in
		"/a/b/actions/runs/7/jobs/0?x=/a/b/actions/runs/7/jobs/": "",
		"https://ci.example/build/5":                             "",
		"":                                                       "",
	} {
		if got := s.checkLog(t.Context(), target); string(got) != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
	got := string(s.checkLog(t.Context(), "/a/b/actions/runs/8/jobs/1/attempt/2"))
	if len(got) > maxLog+100 || !strings.HasPrefix(got, "[cut here, it began before]\na line of") || !strings.HasSuffix(got, "the last line\n") {
		t.Errorf("of a long log: %d bytes, %.60q ... %q", len(got), got, got[max(0, len(got)-40):])
	}
}
