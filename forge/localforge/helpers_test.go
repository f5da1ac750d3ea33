package localforge

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"
)

// runGit is Options.Run for tests.
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

// world is a forge that serves, with the accounts and the repository all
// tests use: owner "johba" of johba/harb, writers "dev" and "review", a
// reader "reader", a stranger "stranger" and the site admin "root".
type world struct {
	t      *testing.T
	f      *Forge
	url    string
	tokens map[string]string
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	opt := Options{Dir: t.TempDir(), Run: runGit}
	for _, c := range change {
		c(&opt)
	}
	f, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f)
	t.Cleanup(func() { f.stop(); server.Close(); f.Close() })
	w := &world{t: t, f: f, url: server.URL, tokens: map[string]string{}}
	for _, name := range []string{"root", "johba", "dev", "review", "reader", "stranger"} {
		w.must(f.AddUser(name, name+"-password", name == "root"))
		token, err := f.AddToken(name)
		w.must(err)
		w.tokens[name] = token
	}
	w.must(f.AddRepo(t.Context(), "johba", "harb", map[string]string{"README.md": "# harb\n", "src/main.txt": "one\ntwo\nthree\n"}))
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

// sdk is a client of the Gitea SDK in somebody's name.
func (w *world) sdk(name string) *gitea.Client {
	w.t.Helper()
	client, err := gitea.NewClient(w.url, gitea.SetToken(w.tokens[name]), gitea.SetGiteaVersion(""))
	w.must(err)
	return client
}

// git runs a git program of the client's side and returns its output.
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
	cmd.Env = append(cmd.Env, "GIT_AUTHOR_NAME=dev", "GIT_AUTHOR_EMAIL=dev@localhost", "GIT_COMMITTER_NAME=dev", "GIT_COMMITTER_EMAIL=dev@localhost")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// remote is the repository's address with somebody's token in it.
func (w *world) remote(name string) string {
	return strings.Replace(w.url, "http://", "http://"+name+":"+w.tokens[name]+"@", 1) + "/johba/harb.git"
}

// clone is a work tree of the repository in somebody's name.
func (w *world) clone(name string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	w.git(dir, "clone", "--quiet", w.remote(name), ".")
	return dir
}

// push commits one file on a branch, which begins at main if it is new, and
// pushes it. It returns the commit.
func (w *world) push(dir, branch, path, body string) string {
	w.t.Helper()
	if _, err := w.tryGit(dir, "checkout", "--quiet", branch); err != nil {
		w.git(dir, "checkout", "--quiet", "-b", branch, "origin/main")
	}
	w.must(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
	w.must(os.WriteFile(filepath.Join(dir, path), []byte(body), 0o644))
	w.git(dir, "add", ".")
	w.git(dir, "commit", "--quiet", "-m", "change "+path)
	w.git(dir, "push", "--quiet", "origin", branch)
	return w.git(dir, "rev-parse", "HEAD")
}
