package hire

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/threads/file"
)

// world is a forge with an administrator, a person's repository, and a factory's files.
type world struct {
	*testing.T
	url           string
	local         *localforge.Forge // nil on a real Forgejo
	repos         string            // folder of localforge's repositories
	admin         *rest.API
	withPassword  forgejo.AdminOptions
	withToken     forgejo.AdminOptions
	suffix        string // part of names, so that tests can share a real Forgejo
	repo, name    string
	dir           string
	config, where string // paths of factory.toml and the secrets file

	mu    sync.Mutex // guards fault, which requests read
	fault func(*http.Request) faults.Fault
	said  bytes.Buffer
}

// sized returns all in make check, which sets DISINTO_STORMS, and some in make test.
func sized(all, some int) int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return all
	}
	return some
}

// onEach runs a test on localforge, and on the forge at FORGE_TEST_URL, with its administrator's token and password.
// Forgejo creates tokens only for requests with a password.
func onEach(t *testing.T, test func(*world)) {
	t.Helper()
	t.Run("localforge", func(t *testing.T) { test(onLocal(t)) })
	t.Run("forgejo", func(t *testing.T) {
		w := &world{T: t, url: os.Getenv("FORGE_TEST_URL")}
		token, user := os.Getenv("FORGE_TEST_ADMIN_TOKEN"), os.Getenv("FORGE_TEST_ADMIN_USER")
		password := os.Getenv("FORGE_TEST_ADMIN_PASSWORD")
		if w.url == "" || token == "" || user == "" || password == "" {
			t.Skip("needs a forge for tests: set FORGE_TEST_URL, FORGE_TEST_ADMIN_TOKEN, FORGE_TEST_ADMIN_USER " +
				"and FORGE_TEST_ADMIN_PASSWORD")
		}
		test(w.settle(token, user, password))
	})
}

func onLocal(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, repos: t.TempDir()}
	f, err := localforge.New(localforge.Options{Dir: w.repos, Run: runGit})
	w.must(err)
	server := httptest.NewServer(faults.Handler(f, w.breaks))
	t.Cleanup(func() { f.Close(); server.Close() })
	w.local, w.url = f, server.URL
	w.must(f.AddUser("root", "root-password", true))
	token, err := f.AddToken("root")
	w.must(err)
	return w.settle(token, "root", "root-password")
}

func runGit(ctx context.Context, cmd localforge.Cmd) error {
	program := exec.CommandContext(ctx, cmd.Argv[0], cmd.Argv[1:]...)
	program.Dir, program.Stdin, program.Stdout = cmd.Dir, cmd.Stdin, cmd.Stdout
	program.Env = append(os.Environ(), cmd.Env...)
	return program.Run()
}

func (w *world) breaks(r *http.Request) faults.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		return faults.None
	}
	return w.fault(r)
}

func (w *world) breakWith(fault func(*http.Request) faults.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

const before = `# my factory
[threads.llama]
backend = "local"
max_concurrent = 2
agents = [
    "dev-glm", # 32B
]

[threads.opus]
backend = "anthropic"
agents = ["review-opus"]
`

func (w *world) settle(token, user, password string) *world {
	w.Helper()
	w.suffix = strings.ToLower(rand.Text()[:8])
	w.admin = &rest.API{URL: w.url, Token: token}
	w.withToken = forgejo.AdminOptions{URL: w.url, Token: token}
	w.withPassword = forgejo.AdminOptions{URL: w.url, User: user, Password: password}
	owner := "johba-" + w.suffix
	w.account(owner)
	w.repo, w.name = owner+"/harb", "dev-"+w.suffix
	w.must(w.admin.Post(w.Context(), "/admin/users/"+owner+"/repos", map[string]any{
		"name": "harb", "auto_init": true,
		"default_branch": "main",
	}, nil))
	w.dir = w.TempDir()
	w.config, w.where = filepath.Join(w.dir, "factory.toml"), filepath.Join(w.dir, "secrets.env")
	mustWrite(w.T, w.config, before, 0o644)
	return w
}

// account creates an account and returns its password.
func (w *world) account(login string) string {
	w.Helper()
	password := rand.Text() + "-a1A"
	w.must(w.admin.Post(w.Context(), "/admin/users", map[string]any{
		"username": login, "email": login + "@example.invalid", "password": password, "must_change_password": true,
	}, nil))
	return password
}

// factory returns the world's Factory.
func (w *world) factory(as forgejo.AdminOptions) Factory {
	w.Helper()
	admin, err := forgejo.NewAdmin(as)
	w.must(err)
	return Factory{
		Forge: admin, Repos: []string{w.repo}, Config: File{Path: w.config}, Secrets: File{Path: w.where, Mode: 0o600},
		IsAgent: func(login string) bool { return login == "dev-glm" },
		Validate: func(text string) error {
			_, err := file.Decode("factory.toml", text, func(string) (string, bool) { return "http://any/thing", true })
			return withoutRepos(err)
		},
		Report:           func(step, text string) { fmt.Fprintf(&w.said, "%s: %s\n", step, text) },
		NotifySupervisor: func(context.Context) (string, error) { return "", nil },
		StillInUse:       func(context.Context) (string, error) { return "", nil },
	}
}

// withoutRepos drops the one mistake that the fake environment causes.
func withoutRepos(err error) error {
	var all file.Mistakes
	var rest []error
	if errors.As(err, &all) {
		for _, m := range all {
			if m.Key != "forge.repos" {
				rest = append(rest, m)
			}
		}
	}
	return errors.Join(rest...)
}

func (w *world) hire(as forgejo.AdminOptions) *Hire {
	w.Helper()
	return &Hire{
		Factory: w.factory(as), Login: w.name, Email: agents.NoReply(w.name, w.url),
		Entry: Entry{
			Name: w.name, Thread: "llama", Role: "dev", Model: "qwen3.5", TokenVar: agents.TokenVar(w.name),
			Skills: []string{"go"},
		},
	}
}

func (w *world) retire(as forgejo.AdminOptions) *Retire {
	w.Helper()
	return &Retire{
		Factory: w.factory(as), Name: w.name, Login: w.name, Email: agents.NoReply(w.name, w.url),
		TokenVar: agents.TokenVar(w.name),
	}
}

// do checks and hires.
func (w *world) do(h *Hire) {
	w.Helper()
	w.must(h.Check(w.Context()))
	w.must(h.Run(w.Context()))
}

func (w *world) read(path string) string {
	w.Helper()
	raw, err := os.ReadFile(path)
	w.must(err)
	return string(raw)
}

// secret returns the agent's token from the secrets file.
func (w *world) secret() string { return Secrets(w.read(w.where))[agents.TokenVar(w.name)] }

// tokens returns the names of the agent's tokens that hiring created.
func (w *world) tokens() (names []string) {
	w.Helper()
	admin, err := forgejo.NewAdmin(w.withPassword)
	w.must(err)
	all, err := admin.Tokens(w.Context(), w.name)
	w.must(err)
	for _, t := range all {
		if strings.HasPrefix(t.Name, tokenPrefix) {
			names = append(names, t.Name)
		}
	}
	return names
}

// lives reports whether a token still signs in as the agent.
func (w *world) lives(token string) bool {
	var me struct{ Login string }
	err := (&rest.API{URL: w.url, Token: token}).Get(w.Context(), "/user", &me)
	return err == nil && me.Login == w.name
}

// after returns factory.toml with the agent.
func (w *world) after() string {
	return strings.Replace(before, "    \"dev-glm\", # 32B\n", "    \"dev-glm\", # 32B\n    \""+w.name+"\",\n", 1) +
		"\n[agents." + w.name + "]\nrole = \"dev\"\nmodel = \"qwen3.5\"\ntoken = \"$" + agents.TokenVar(w.name) +
		"\"\nskills = [\"go\"]\n"
}

// hired checks the result of hiring.
func (w *world) hired() {
	w.Helper()
	expect(w.T, w.config, w.after(), 0o644)
	token := w.secret()
	if token == "" || !w.lives(token) {
		w.Errorf("the token in the secrets file does not sign in as %s", w.name)
	}
	if info, err := os.Stat(w.where); err != nil || info.Mode().Perm() != 0o600 {
		w.Errorf("the secrets file has the mode %v, %v; want 0600", info.Mode(), err)
	}
	if names := w.tokens(); len(names) != 1 {
		w.Errorf("the agent has the tokens %v, want one", names)
	}
	if strings.Contains(w.said.String(), token) || strings.Contains(w.read(w.config), token) {
		w.Error("the token was printed, or is in factory.toml")
	}
	agent := &rest.API{URL: w.url, Token: token}
	var harb struct{ Permissions struct{ Push, Admin bool } }
	if err := agent.Get(w.Context(), "/repos/"+w.repo, &harb); err != nil || !harb.Permissions.Push ||
		harb.Permissions.Admin {
		w.Errorf("the agent's access to %s is %+v, %v; want push without admin", w.repo, harb, err)
	}
	w.profiled(agent, w.name+"/"+w.name+"-profile")
}

// profiled checks the profile repository with the agent's own token.
func (w *world) profiled(agent *rest.API, repo string) {
	w.Helper()
	var profile struct{ Private bool }
	if err := agent.Get(w.Context(), "/repos/"+repo, &profile); err != nil || !profile.Private {
		w.Errorf("the profile repository is %+v, %v; want a private one", profile, err)
	}
	for _, path := range []string{lessonsFile, journalFile, readmeFile} {
		if err := agent.Get(w.Context(), "/repos/"+repo+"/contents/"+path, nil); err != nil {
			w.Errorf("%s is missing in the profile: %v", path, err)
		}
	}
	var raw []byte
	w.must(agent.Get(w.Context(), "/repos/"+repo+"/raw/"+profileFile, &raw))
	want := "name = \"" + w.name + "\"\nrole = \"dev\"\nmodel = \"qwen3.5\"\nthread = \"llama\"\ncapabilities = [\"go\"]\n"
	if !strings.HasSuffix(string(raw), want) {
		w.Errorf("profile.toml is\n%s\nwant it to end with\n%s", raw, want)
	}
}

// commits counts the commits of a repository.
func (w *world) commits(repo string) int {
	w.Helper()
	if w.local != nil { // localforge has no route for commits
		dirs, err := filepath.Glob(filepath.Join(w.repos, strings.ReplaceAll(repo, "/", "-")+"-*.git"))
		if err != nil || len(dirs) != 1 {
			w.Fatalf("repositories of %s: %v, %v", repo, dirs, err)
		}
		out, err := exec.Command("git", "-C", dirs[0], "rev-list", "--count", "main").Output()
		w.must(err)
		n, err := strconv.Atoi(strings.TrimSpace(string(out)))
		w.must(err)
		return n
	}
	var all []json.RawMessage
	w.must(w.admin.Get(w.Context(), "/repos/"+repo+"/commits", &all))
	return len(all)
}

// work creates an issue with labels and assignees.
func (w *world) work(labels []string, assigned ...string) forge.Ref {
	w.Helper()
	var ids []int64
	for _, name := range labels {
		var l struct{ ID int64 }
		w.must(w.admin.Post(w.Context(), "/repos/"+w.repo+"/labels", map[string]string{"name": name, "color": "#00aabb"}, &l))
		ids = append(ids, l.ID)
	}
	var issue struct{ Number int64 }
	w.must(w.admin.Post(w.Context(), "/repos/"+w.repo+"/issues", map[string]any{
		"title": "x", "assignees": assigned,
		"labels": ids,
	}, &issue))
	return forge.Ref{Repo: w.repo, Number: issue.Number}
}

// state formats an issue's assignees and labels on one line.
func (w *world) state(ref forge.Ref) string {
	w.Helper()
	var work struct {
		Assignees []struct{ Login string }
		Labels    []struct{ Name string }
	}
	w.must(w.admin.Get(w.Context(), fmt.Sprintf("/repos/%s/issues/%d", ref.Repo, ref.Number), &work))
	return strings.ReplaceAll(fmt.Sprint(work.Assignees, work.Labels), "{", "")
}
