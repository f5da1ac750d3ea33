package localforge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"
)

// runGit is Options.Run for the tests.
func runGit(ctx context.Context, cmd Cmd) error {
	program := exec.CommandContext(ctx, cmd.Argv[0], cmd.Argv[1:]...)
	program.Dir, program.Stdin, program.Stdout = cmd.Dir, cmd.Stdin, cmd.Stdout
	program.Env = append(os.Environ(), cmd.Env...)
	var complaint bytes.Buffer
	program.Stderr = &complaint
	if err := program.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// world is a running forge with the accounts and the repository that all tests use: owner "johba" of johba/harb,
// writers "dev" and "review", a reader "reader", a stranger "stranger" and the site admin "root".
type world struct {
	t      testing.TB
	f      *Forge
	url    string
	client *http.Client
	tokens map[string]string
}

// newWorld returns a world with a server on loopback.
func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := newQuietWorld(t, change...)
	server := httptest.NewServer(w.f)
	t.Cleanup(func() { w.f.stop(); server.Close() })
	w.url, w.client = server.URL, server.Client()
	return w
}

// handled answers requests without a network, as testing/synctest requires.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// newQuietWorld returns a world without a server: API requests are function calls, and git cannot reach it.
func newQuietWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	opt := Options{Dir: t.TempDir(), Run: runGit}
	for _, c := range change {
		c(&opt)
	}
	f, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	w := &world{t: t, f: f, url: "http://forge", client: &http.Client{Transport: handled{f}}, tokens: map[string]string{}}
	for _, name := range []string{"root", "johba", "dev", "review", "reader", "stranger"} {
		w.must(f.AddUser(name, name+"-password", name == "root"))
		token, err := f.AddToken(name)
		w.must(err)
		w.tokens[name] = token
	}
	w.must(f.AddRepo(t.Context(), "johba", "harb", map[string]string{
		"README.md":    "# harb\n",
		"src/main.txt": "one\ntwo\nthree\n",
	}))
	for name, permission := range map[string]string{"dev": "write", "review": "write", "reader": "read"} {
		w.must(f.AddCollaborator("johba", "harb", name, permission))
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// sdk returns a client of the Gitea SDK, signed in as an account.
func (w *world) sdk(name string) *gitea.Client {
	w.t.Helper()
	client, err := gitea.NewClient(w.url, gitea.SetToken(w.tokens[name]), gitea.SetGiteaVersion(""))
	w.must(err)
	return client
}

// git runs git as a client would, and returns its output.
func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.tryGit(dir, args...)
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func (w *world) tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), gitEnv...)
	cmd.Env = append(cmd.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false")
	cmd.Env = append(cmd.Env, "GIT_AUTHOR_NAME=dev", "GIT_AUTHOR_EMAIL=dev@localhost", "GIT_COMMITTER_NAME=dev",
		"GIT_COMMITTER_EMAIL=dev@localhost")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// remote returns the repository's address with an account's token in it.
func (w *world) remote(name string) string {
	return strings.Replace(w.url, "http://", "http://"+name+":"+w.tokens[name]+"@", 1) + "/johba/harb.git"
}

// clone clones the repository as an account and returns the work tree.
func (w *world) clone(name string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	w.git(dir, "clone", "--quiet", w.remote(name), ".")
	return dir
}

// push commits one file on a branch and pushes it. A new branch begins at main. It returns the commit.
func (w *world) push(dir, branch, path, body string) string {
	w.t.Helper()
	ref := filepath.Join(dir, ".git/refs/heads", branch)
	if _, err := os.Stat(ref); err == nil {
		w.git(dir, "checkout", "--quiet", branch)
	} else {
		w.git(dir, "checkout", "--quiet", "-b", branch, "origin/main")
	}
	w.must(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
	w.must(os.WriteFile(filepath.Join(dir, path), []byte(body), 0o644))
	w.git(dir, "add", ".")
	w.git(dir, "commit", "--quiet", "-m", "change "+path)
	w.git(dir, "push", "--quiet", "origin", branch)
	sha, err := os.ReadFile(ref)
	w.must(err)
	return strings.TrimSpace(string(sha))
}

// clock is Options.Now for tests: it stands still unless a test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

// object is a decoded JSON object.
type object = map[string]any

// answered is the answer to a request.
type answered struct {
	status int
	header http.Header
	text   string
	object object
	list   []object
}

// ask sends a request to a path below /api/v1 as an account; who is "" for none, "user:password" for basic
// authentication, or a token.
func (w *world) ask(who, method, path string, body any) answered {
	w.t.Helper()
	var content io.Reader
	if text, ok := body.(string); ok {
		content = strings.NewReader(text)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		w.must(err)
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+"/api/v1"+path, content)
	w.must(err)
	if name, password, ok := strings.Cut(who, ":"); ok {
		req.SetBasicAuth(name, password)
	} else if token, ok := w.tokens[who]; ok {
		req.Header.Set("Authorization", "token "+token)
	} else if who != "" {
		req.Header.Set("Authorization", "token "+who)
	}
	resp, err := w.client.Do(req)
	w.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	w.must(err)
	got := answered{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if json.Unmarshal(text, &got.object) != nil {
		_ = json.Unmarshal(text, &got.list)
	}
	return got
}

// want is ask for a request that must have the given status.
func (w *world) want(status int, who, method, path string, body any) answered {
	w.t.Helper()
	got := w.ask(who, method, path, body)
	if got.status != status {
		w.t.Fatalf("%s %s as %q: got %d, want %d: %s", method, path, who, got.status, status, got.text)
	}
	return got
}

// harb is the API path of a world's repository.
const harb = "/repos/johba/harb"

// file files issues with the given titles; their numbers continue from the last issue.
func (w *world) file(titles ...string) {
	w.t.Helper()
	for _, title := range titles {
		w.want(201, "johba", "POST", harb+"/issues", object{"title": title})
	}
}

// numbers returns the numbers of a list of issues, in the order of the list.
func numbers(list []object) []int {
	var n []int
	for _, item := range list {
		n = append(n, int(item["number"].(float64)))
	}
	return n
}

func (w *world) issue(number int) object {
	w.t.Helper()
	return w.want(200, "johba", "GET", fmt.Sprintf("%s/issues/%d", harb, number), nil).object
}

func (w *world) pull(number int) object {
	w.t.Helper()
	return w.want(200, "johba", "GET", fmt.Sprintf("%s/pulls/%d", harb, number), nil).object
}

// open opens a pull request as dev and returns its number.
func (w *world) open(head, title, body string) int {
	w.t.Helper()
	form := object{"head": head, "base": "main", "title": title, "body": body}
	return int(w.want(201, "dev", "POST", harb+"/pulls", form).object["number"].(float64))
}
