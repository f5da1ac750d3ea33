package forgejo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// sized returns all in make check, which sets DISINTO_STORMS, and some in make test.
func sized(all, some int) int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return all
	}
	return some
}

// onEach runs a test on localforge, in a bubble with virtual time, and on the Forgejo that FORGE_TEST_URL and
// FORGE_TEST_ADMIN_TOKEN name, if they are set.
func onEach(t *testing.T, test func(*world)) {
	t.Helper()
	onEachEmpty(t, func(w *world) { test(w.settle()) })
}

// onEachEmpty is onEach with a world that has only its owner's account.
func onEachEmpty(t *testing.T, test func(*world)) {
	t.Helper()
	t.Run("localforge", func(t *testing.T) { onLocalEmpty(t, test) })
	t.Run("forgejo", func(t *testing.T) {
		url, token := os.Getenv("FORGE_TEST_URL"), os.Getenv("FORGE_TEST_ADMIN_TOKEN")
		if url == "" || token == "" {
			t.Skip("FORGE_TEST_URL and FORGE_TEST_ADMIN_TOKEN are not set")
		}
		t.Parallel()
		w := &world{T: t, url: url, transport: http.DefaultTransport}
		test(w.begin(token))
	})
}

// onLocal runs a test on localforge only, because the test lets much time pass or breaks requests.
func onLocal(t *testing.T, test func(*world)) {
	t.Helper()
	onLocalEmpty(t, func(w *world) { test(w.settle()) })
}

func onLocalEmpty(t *testing.T, test func(*world)) {
	t.Helper()
	onLateEmpty(t, 0, test)
}

// onLateEmpty is onLocalEmpty on a forge with late effects.
func onLateEmpty(t *testing.T, lag time.Duration, test func(*world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, url: "http://forge.test"}
		f, err := localforge.New(localforge.Options{Dir: t.TempDir(), Run: runGit, URL: w.url, Lag: lag})
		w.must(err)
		t.Cleanup(f.Close)
		w.local, w.transport = f, inMemory{faults.Handler(f, w.breaks)}
		w.must(f.AddUser("root", "root-password", true))
		token, err := f.AddToken("root")
		w.must(err)
		test(w.begin(token))
	})
}

// inMemory answers requests without a socket, because a bubble cannot wait for one.
type inMemory struct{ handler http.Handler }

func (m inMemory) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	defer func() {
		if recover() == nil {
			return
		}
		if err = req.Context().Err(); err != nil {
			return
		}
		if err = errors.New("connection reset by peer"); rec.Flushed { // half of the answer was sent
			resp, err = rec.Result(), nil
			resp.Body = brokenBody{resp.Body}
		}
	}()
	rec.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if req.Body == nil {
		req = req.Clone(req.Context())
		req.Body = http.NoBody
	}
	m.handler.ServeHTTP(rec, req)
	resp = rec.Result()
	resp.Request = req
	return resp, nil
}

type brokenBody struct {
	whole interface{ Read([]byte) (int, error) }
}

func (b brokenBody) Read(p []byte) (int, error) {
	n, err := b.whole.Read(p)
	if err != nil {
		err = errors.New("unexpected EOF")
	}
	return n, err
}
func (b brokenBody) Close() error { return nil }

func runGit(ctx context.Context, cmd localforge.Cmd) error {
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

// world is a forge with the accounts that a test needs: an owner and a person, the supervisor, two agents with write
// access, and a repository of the owner. All names are unique, so that tests can run in parallel on one server.
type world struct {
	*testing.T
	url       string
	transport http.RoundTripper
	local     *localforge.Forge // nil on a real Forgejo
	fault     func(*http.Request) faults.Fault

	suffix string
	tokens map[string]string // by login
	repo   string

	owner, human, boss, dev, review string
}

func (w *world) breaks(r *http.Request) faults.Fault {
	if w.fault == nil {
		return faults.None
	}
	return w.fault(r)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// begin creates the owner's account.
func (w *world) begin(adminToken string) *world {
	w.Helper()
	w.suffix = strings.ToLower(rand.Text()[:8])
	w.tokens = map[string]string{"admin": adminToken}
	w.owner = w.account("owner")
	return w
}

func (w *world) settle() *world {
	w.Helper()
	w.human, w.boss = w.account("human"), w.account("boss")
	w.dev, w.review = w.account("dev"), w.account("review")
	w.repo = w.newRepo("harb", w.boss, w.dev, w.review)
	return w
}

// account creates an account, and a token with all rights for it.
func (w *world) account(purpose string) string {
	w.Helper()
	name, password := purpose+"-"+w.suffix, rand.Text()
	w.tokens[name+" password"] = password
	if w.local != nil {
		w.must(w.local.AddUser(name, password, false))
		token, err := w.local.AddToken(name)
		w.must(err)
		w.tokens[name] = token
		return name
	}
	admin := w.as("admin")
	_, _, err := admin.AdminCreateUser(gitea.CreateUserOption{
		Username: name, Email: name + "@example.invalid", Password: password, MustChangePassword: new(false),
	})
	w.must(err)
	w.tokens[name] = w.token(name, password, "all")
	w.Cleanup(func() { _, _ = admin.AdminDeleteUser(name) })
	return name
}

func (w *world) token(name, password string, scopes ...gitea.AccessTokenScope) string {
	w.Helper()
	basic, err := gitea.NewClient(w.url, gitea.SetBasicAuth(name, password), gitea.SetGiteaVersion(""), w.http())
	w.must(err)
	token, _, err := basic.CreateAccessToken(gitea.CreateAccessTokenOption{Name: rand.Text(), Scopes: scopes})
	w.must(err)
	return token.Token
}

func (w *world) http() gitea.ClientOption {
	return gitea.SetHTTPClient(&http.Client{Transport: w.transport})
}

// as returns an SDK client signed in as an account.
func (w *world) as(login string) *gitea.Client {
	w.Helper()
	sdk, err := gitea.NewClient(w.url, gitea.SetToken(w.tokens[login]), gitea.SetGiteaVersion(""), w.http())
	w.must(err)
	return sdk
}

// newRepo creates a public repository with a commit.
func (w *world) newRepo(name string, writers ...string) string {
	w.Helper()
	_, _, err := w.as(w.owner).CreateRepo(gitea.CreateRepoOption{Name: name, AutoInit: true, DefaultBranch: "main"})
	w.must(err)
	if w.local == nil {
		w.Cleanup(func() { _, _ = w.as("admin").DeleteRepo(w.owner, name) })
	}
	for _, login := range writers {
		w.collaborator(w.owner+"/"+name, login, gitea.AccessModeWrite)
	}
	for _, l := range []string{"backlog", "in-progress", "cancelled", "convoy", "needs-human", "priority"} {
		_, _, err := w.as(w.owner).CreateLabel(w.owner, name, gitea.CreateLabelOption{Name: l, Color: "#00aabb"})
		w.must(err)
	}
	return w.owner + "/" + name
}

func (w *world) collaborator(repo, login string, mode gitea.AccessMode) {
	w.Helper()
	owner, name := owner(repo)
	_, err := w.as(w.owner).AddCollaborator(owner, name, login, gitea.AddCollaboratorOption{Permission: &mode})
	w.must(err)
}

// client returns the client under test, signed in as boss.
func (w *world) client(change ...func(*Options)) *Client {
	w.Helper()
	o := Options{
		URL: w.url, Token: w.tokens[w.boss], Repos: []string{w.repo}, HTTP: &http.Client{Transport: w.transport},
		Ours:   func(login string) bool { return login == w.dev || login == w.review },
		Bots:   func(login string) bool { return strings.HasPrefix(login, "bot-") },
		Claims: claimsOf("instance1", "here"),
	}
	for _, c := range change {
		c(&o)
	}
	c, err := New(o)
	w.must(err)
	return c
}

// through replaces what carries the client's requests.
func (c *Client) through(next http.RoundTripper) { c.http.Transport.(*transport).next = next }

func oneOf(logins []string) func(string) bool {
	return func(login string) bool { return slices.Contains(logins, login) }
}

// claimsOf returns the Claims of an instance whose sessions last an hour.
func claimsOf(instance, host string) *Claims {
	return &Claims{
		Instance: func() string { return instance }, Host: host, Boot: host, Since: time.Now(),
		Longest: func() time.Duration { return time.Hour },
	}
}

// ref names an item of the repository.
func (w *world) ref(n int64) forge.Ref { return forge.Ref{Repo: w.repo, Number: n} }

// file opens an issue as the owner.
func (w *world) file(title, body string, labels ...string) int64 {
	w.Helper()
	owner, name := owner(w.repo)
	in, _, err := w.as(w.owner).CreateIssue(owner, name, gitea.CreateIssueOption{Title: title, Body: body})
	w.must(err)
	w.label(in.Index, labels...)
	return in.Index
}

func (w *world) label(n int64, names ...string) {
	w.Helper()
	if len(names) == 0 {
		return
	}
	owner, name := owner(w.repo)
	all, _, err := w.as(w.owner).ListRepoLabels(owner, name, gitea.ListLabelsOptions{})
	w.must(err)
	var ids []int64
	for _, l := range all {
		if slices.Contains(names, l.Name) {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) != len(names) {
		w.Fatalf("the repository has only %[2]d of the labels %[1]v", names, len(ids))
	}
	_, _, err = w.as(w.owner).AddIssueLabels(owner, name, n, gitea.IssueLabelsOption{Labels: ids})
	w.must(err)
}

func (w *world) unlabel(n int64, name string) {
	w.Helper()
	owner, repo := owner(w.repo)
	for _, l := range w.issue(n).Labels {
		if l.Name == name {
			_, err := w.as(w.owner).DeleteIssueLabel(owner, repo, n, l.ID)
			w.must(err)
		}
	}
}

func (w *world) assign(n int64, all ...string) {
	w.Helper()
	owner, name := owner(w.repo)
	if all == nil {
		all = []string{}
	}
	_, _, err := w.as(w.owner).EditIssue(owner, name, n, gitea.EditIssueOption{Assignees: all})
	w.must(err)
}

func (w *world) setState(n int64, state gitea.StateType) {
	w.Helper()
	owner, name := owner(w.repo)
	_, _, err := w.as(w.owner).EditIssue(owner, name, n, gitea.EditIssueOption{State: &state})
	w.must(err)
}

// depends makes n wait for blocker. The SDK's own method does not send the repository, which Forgejo requires.
func (w *world) depends(n, blocker int64) { w.dependency(http.MethodPost, n, w.ref(blocker)) }

func (w *world) dependency(method string, n int64, blocker forge.Ref) {
	w.Helper()
	owner, name := owner(blocker.Repo)
	text := fmt.Sprintf(`{"owner":%q,"repo":%q,"index":%d}`, owner, name, blocker.Number)
	req, err := http.NewRequestWithContext(w.Context(), method,
		fmt.Sprintf("%s/api/v1/repos/%s/issues/%d/dependencies", w.url, w.repo, n), strings.NewReader(text))
	w.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "token "+w.tokens[w.owner])
	resp, err := (&http.Client{Transport: w.transport}).Do(req)
	w.must(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		w.Fatalf("dependency of #%d on %s: %s", n, blocker, resp.Status)
	}
}

// issue reads an issue from the forge.
func (w *world) issue(n int64) *gitea.Issue {
	w.Helper()
	owner, name := owner(w.repo)
	in, _, err := w.as(w.owner).GetIssue(owner, name, n)
	w.must(err)
	return in
}

// commit writes a file on a branch as dev. If from is not empty, the branch is created from it.
func (w *world) commit(branch, from, path, text string) string {
	w.Helper()
	return w.commitAs(w.dev, branch, from, path, text)
}

func (w *world) commitAs(login, branch, from, path, text string) string {
	w.Helper()
	owner, name := owner(w.repo)
	option := gitea.FileOptions{Message: "write " + path, BranchName: branch}
	if from != "" {
		option.BranchName, option.NewBranchName = from, branch
	}
	content := base64.StdEncoding.EncodeToString([]byte(text))
	var resp *gitea.FileResponse
	old, _, err := w.as(login).GetContents(owner, name, option.BranchName, path)
	if err == nil {
		resp, _, err = w.as(login).UpdateFile(owner, name, path,
			gitea.UpdateFileOptions{FileOptions: option, SHA: old.SHA, Content: content})
	} else {
		resp, _, err = w.as(login).CreateFile(owner, name, path,
			gitea.CreateFileOptions{FileOptions: option, Content: content})
	}
	w.must(err)
	return resp.Commit.SHA
}

// pull opens a pull request as dev, from a new branch with one commit, and returns its number and head.
func (w *world) pull(branch, title, body string) (int64, string) {
	w.Helper()
	head := w.commit(branch, "main", strings.ReplaceAll(branch, "/", "-")+".txt", branch+"\n")
	owner, name := owner(w.repo)
	in, _, err := w.as(w.dev).CreatePullRequest(owner, name,
		gitea.CreatePullRequestOption{Head: branch, Base: "main", Title: title, Body: body})
	w.must(err)
	return in.Index, head
}

func (w *world) verdict(login string, n int64, head string, state gitea.ReviewStateType) {
	w.Helper()
	owner, name := owner(w.repo)
	_, _, err := w.as(login).CreatePullReview(owner, name, n,
		gitea.CreatePullReviewOptions{State: state, Body: "so it is", CommitID: head})
	w.must(err)
}

func (w *world) status(head, check string, state gitea.StatusState) {
	w.Helper()
	owner, name := owner(w.repo)
	_, _, err := w.as(w.owner).CreateStatus(owner, name, head, gitea.CreateStatusOption{State: state, Context: check})
	w.must(err)
}

// merge merges as the owner. A real Forgejo can need a moment after a push.
func (w *world) merge(n int64) {
	w.Helper()
	owner, name := owner(w.repo)
	for range 40 {
		ok, _, err := w.as(w.owner).MergePullRequest(owner, name, n,
			gitea.MergePullRequestOption{Style: gitea.MergeStyleMerge})
		w.must(err)
		if ok {
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
	w.Fatalf("cannot merge #%d", n)
}

// merges waits until the forge has computed that a pull request merges cleanly; before, it reports that it does not.
func (w *world) merges(n int64) {
	w.Helper()
	owner, name := owner(w.repo)
	for range 40 {
		in, _, err := w.as(w.owner).GetPullRequest(owner, name, n)
		w.must(err)
		if in.Mergeable {
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
	w.Fatalf("#%d does not merge", n)
}

// scan calls Scan until the facts are complete, and fails the test on an error.
func (w *world) scan(c *Client) forge.Facts {
	w.Helper()
	for range 1000 {
		f, err := c.Scan(w.Context())
		w.must(err)
		if !f.More {
			return f
		}
	}
	w.Fatal("Scan still sets More after a thousand calls")
	return forge.Facts{}
}

// nextSecond waits until the forge's clock shows another second.
func (w *world) nextSecond() { time.Sleep(1100 * time.Millisecond) }

// requests returns how many requests a call makes.
func (w *world) requests(c *Client, call func()) int64 {
	before := c.Requests()
	call()
	return c.Requests() - before
}
