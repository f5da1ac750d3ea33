package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// initArgs are the arguments of an init in a folder of its own.
func initArgs(t *testing.T, forge string, more ...string) (path string, args []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "etc", "factory.toml")
	return path, append([]string{
		"init", "--offline", "--config", path, "--state", t.TempDir(), "--url", forge, "--repo", demo.Repo, "--api", "haiku",
	}, more...)
}

// initEnviron is the environment of an init that ends well: with an administrator, an agent CLI and a key.
func (f *testForge) initEnviron() []string {
	f.t.Helper()
	bin := f.t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "claude"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	return []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + f.t.TempDir(), "FORGE_ADMIN_TOKEN=" + f.adminToken(),
		"ANTHROPIC_API_KEY=sk-not-asked",
	}
}

// On a terminal init also asks for the administrator's token, and does not show it: README's first command on an own
// forge is disinto init alone, and no secret is in the shell's history.
func TestInitAsksForToken(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	path, args := initArgs(t, f.URL)
	terminal, screen := pseudoTerminal(t, 80)
	person := reading(screen)
	c := testCLI(slices.DeleteFunc(f.initEnviron(), func(v string) bool { return strings.HasPrefix(v, "FORGE_ADMIN") }))
	c.stdin, c.stdout = terminal, terminal
	ended := make(chan int, 1)
	go func() { ended <- c.run(t.Context(), args) }()
	person.sees(t, "an administrator's token with all permissions, not shown: ")
	screen.WriteString(f.adminToken() + "\n")
	if code := <-ended; code != exitDone || !f.lives(secretOf(t, path, "FORGE_TOKEN")) {
		t.Errorf("got exit code %d: %s", code, person.text())
	}
	if strings.Contains(person.text(), f.adminToken()) {
		t.Errorf("the token is shown: %s", person.text())
	}
}

// A second factory on the same forge leaves the first one alone: it once replaced the password of the first one's
// supervisor and revoked its tokens. With a name of its own it gets accounts of its own.
func TestInitSecondFactory(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	environ := f.initEnviron()
	first, args := initArgs(t, f.URL)
	if got := disinto(t.Context(), environ, args...); got.code != exitDone ||
		!strings.Contains(got.stdout, "its token logs in as disinto-teashop") {
		t.Fatalf("first factory: got %d %s%s", got.code, got.stdout, got.stderr)
	}
	second, args := initArgs(t, f.URL)
	got := disinto(t.Context(), environ, args...)
	want := "disinto-teashop (perhaps another factory's), dev-haiku (perhaps another factory's), " +
		"review-haiku (perhaps another factory's); with --name WORD"
	if got.code != exitFailed || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("second factory: got %d %s, want one line with %q", got.code, got.stderr, want)
	}
	if exists(filepath.Dir(second)) {
		t.Error("the refused init wrote something")
	}
	if got = disinto(t.Context(), environ, append(args, "--name", "two")...); got.code != exitDone {
		t.Errorf("with --name: got %d %s%s", got.code, got.stdout, got.stderr)
	}
	for path, names := range map[string][]string{
		first:  {"FORGE_TOKEN", "FORGE_TOKEN_DEV_HAIKU", "FORGE_TOKEN_REVIEW_HAIKU"},
		second: {"FORGE_TOKEN", "FORGE_TOKEN_DEV_HAIKU_TWO", "FORGE_TOKEN_REVIEW_HAIKU_TWO"},
	} {
		for _, name := range names {
			if !f.lives(secretOf(t, path, name)) {
				t.Errorf("%s: the token %s is not valid", path, name)
			}
		}
	}
	if secretOf(t, first, "FORGE_TOKEN") == secretOf(t, second, "FORGE_TOKEN") {
		t.Error("both supervisors have one token")
	}
}

// A person's account with an agent's name keeps its password and its tokens. With --adopt, an administrator's password
// adds a token, and an administrator's token says what to do.
func TestInitPersonsAccount(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	if err := f.forge.AddUser("dev-haiku", "persons-password", false); err != nil {
		t.Fatal(err)
	}
	theirs, err := f.forge.AddToken("dev-haiku")
	if err != nil {
		t.Fatal(err)
	}
	environ := f.initEnviron()
	path, args := initArgs(t, f.URL)
	for want, more := range map[string][]string{
		"no token: dev-haiku (perhaps a person's, ": nil,
		"use --admin-user and --admin-password":     {"--adopt"},
	} {
		got := disinto(t.Context(), environ, append(args, more...)...)
		if got.code != exitFailed || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "review-haiku") ||
			exists(filepath.Dir(path)) {
			t.Errorf("%q: got %d %s%s, want %q and nothing written", more, got.code, got.stdout, got.stderr, want)
		}
	}
	if err := f.forge.AddUser("root2", "admins-password", true); err != nil {
		t.Fatal(err)
	}
	got := disinto(t.Context(), environ, append(args, "--adopt", "--admin-user", "root2", "--admin-password",
		"admins-password")...)
	if got.code != exitDone || !f.lives(secretOf(t, path, "FORGE_TOKEN_DEV_HAIKU")) {
		t.Errorf("--adopt: got %d %s%s", got.code, got.stdout, got.stderr)
	}
	person := rest.API{URL: f.URL, User: "dev-haiku", Password: "persons-password"}
	if err := person.Get(t.Context(), "/user", nil); err != nil || !f.lives(theirs) {
		t.Errorf("the person's password: %v; the token is valid: %v", err, f.lives(theirs))
	}
}

// factory.toml comes last: after a mistake in any value the folder does not even exist, and the corrected command is
// accepted.
func TestInitWritesLast(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	environ := f.initEnviron()
	path, args := initArgs(t, f.URL)
	without := strings.TrimPrefix(f.URL, "http://")
	for _, tt := range []struct {
		flag, value, says string
		code              int
	}{
		{"--url", without, "write the whole address, such as https://", exitUsage},
		{"--url", "ftp://" + without, "write the whole address", exitUsage},
		{"--url", "http://" + deadAddress(t), "Connection refused", exitFailed},
		{"--local", "localhost:8080/v1", "write the whole address, such as http://localhost", exitUsage},
		{"--api", "localhost:8080/v1", "write http://localhost:8080/v1", exitUsage},
		{"--repo", "ada/teashops", "sees no such repository", exitFailed},
		{"--admin-token", "0000", "the forge does not know this token", exitFailed},
		{"--name", "Two", "cannot use --name", exitUsage},
	} {
		got := disinto(t.Context(), environ, append(args, tt.flag, tt.value)...)
		if got.code != tt.code || strings.Count(got.stderr, tt.says) != 1 {
			t.Errorf("%s %s: got %d %s, want %d and once %q", tt.flag, tt.value, got.code, got.stderr, tt.code, tt.says)
		}
		if exists(filepath.Dir(path)) {
			t.Fatalf("%s %s: something was written", tt.flag, tt.value)
		}
	}
	if got := disinto(t.Context(), environ, args...); got.code != exitDone {
		t.Errorf("the corrected command: got %d %s%s", got.code, got.stdout, got.stderr)
	}
}

// A second init gives the accounts access to a repository that was added to the file, and rotates no token.
func TestInitRepairsAccess(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	environ := f.initEnviron()
	path, args := initArgs(t, f.URL)
	if got := disinto(t.Context(), environ, args...); got.code != exitDone {
		t.Fatalf("got %d %s%s", got.code, got.stdout, got.stderr)
	}
	second := f.secondRepo(path)
	before := read(t, filepath.Join(filepath.Dir(path), "secrets.env"))
	got := disinto(t.Context(), environ, "init", "--offline", "--config", path, "--state", t.TempDir())
	if got.code != exitDone || strings.Count(got.stdout, "it may write to "+second) != 3 {
		t.Errorf("got %d %s%s", got.code, got.stdout, got.stderr)
	}
	if read(t, filepath.Join(filepath.Dir(path), "secrets.env")) != before {
		t.Error("the tokens changed")
	}
	lines, _ := checkProblems(t, environ, path)
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "api.anthropic.com") })
	if len(lines) > 0 {
		t.Errorf("check afterwards: %q", lines)
	}
}

// secondRepo creates a private repository and adds it to the file.
func (f *testForge) secondRepo(path string) string {
	f.t.Helper()
	owner, _, _ := strings.Cut(demo.Repo, "/")
	token, err := f.forge.AddToken(owner)
	if err != nil {
		f.t.Fatal(err)
	}
	human := rest.API{URL: f.URL, Token: token}
	form := map[string]any{"name": "second", "private": true, "auto_init": true, "default_branch": "main"}
	if err := human.Post(f.t.Context(), "/user/repos", form, nil); err != nil {
		f.t.Fatal(err)
	}
	old, now := `repos = ["`+demo.Repo+`"]`, `repos = ["`+demo.Repo+`", "`+owner+`/second"]`
	text := strings.Replace(read(f.t, path), old, now, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return owner + "/second"
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// halting passes requests on to a forge, and stops at one of those that write: before the forge executes it, or before
// the answer goes back.
type halting struct {
	proxy   *httputil.ReverseProxy
	left    atomic.Int64 // writes until the halt
	after   bool
	reached chan bool // gets a value at the halt
	release chan bool // closed to go on
}

func (h *halting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	here := r.Method != http.MethodGet && h.left.Add(-1) == 0
	if here && h.after {
		h.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	if here {
		h.reached <- true
		<-h.release
		return
	}
	h.proxy.ServeHTTP(w, r)
}

// kill -9 at any write of init, and the same command again: it continues, and nothing is left over. make test kills at
// every fourth write.
func TestInitKilled(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	target, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	environ := f.initEnviron()
	step := 4
	if storms() {
		step = 1
	}
	kills := 0
	for n, done := 1, false; !done; n += step {
		h := &halting{
			proxy: httputil.NewSingleHostReverseProxy(target), after: n%2 == 0, reached: make(chan bool, 1),
			release: make(chan bool),
		}
		h.proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // the killed program is gone
		h.left.Store(int64(n))
		server := httptest.NewServer(h)
		path, args := initArgs(t, server.URL, "--name", "k"+strconv.Itoa(n))
		r := startDisinto(t, environ, args...)
		select {
		case <-h.reached:
			kills++
			r.signal(syscall.SIGKILL)
			r.wait()
		case e := <-r.child.Exit():
			r.ended, done = true, true
			if e.Status.ExitStatus() != exitDone {
				t.Fatalf("an undisturbed init: exit code %d\n%s%s", e.Status.ExitStatus(), r.read(r.stdout), r.read(r.stderr))
			}
		}
		close(h.release)
		if !done && exists(path) {
			t.Errorf("killed at write %d: %s exists", n, path)
		}
		got := disinto(t.Context(), environ, args...)
		secrets := read(t, filepath.Join(filepath.Dir(path), "secrets.env"))
		if got.code != exitDone || strings.Contains(secrets, "#") || strings.Count(secrets, "\n") != 3 {
			t.Errorf("killed at write %d, then again: got %d %s%s\n%s", n, got.code, got.stdout, got.stderr, secrets)
		}
		server.Close()
	}
	if kills < 3 {
		t.Errorf("init was killed %d times, want more", kills)
	}
}
